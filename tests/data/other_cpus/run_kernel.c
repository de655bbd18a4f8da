/* Runs one kernel of tensor_sketch.c on what stands in a file, and writes the buckets: for CPUs that can only be
 * emulated. run_kernel ROUTE DTYPE IN OUT; IN holds the structures Work and Tables, then each of their arrays. */

#include "tensor_sketch.c"
#include <stdio.h>
#include <stdlib.h>

static Int size;

static void *next(FILE *in) {
    if (fread(&size, sizeof size, 1, in) != 1) exit(3);
    void *data = aligned_alloc(64, (size / 64 + 1) * 64);
    if (fread(data, 1, size, in) != (size_t)size) exit(3);
    return data;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    FILE *in = fopen(words[3], "rb");
    Work work = *(Work *)next(in);
    Tables on = *(Tables *)next(in);
    if (!usable(sizeof on, sizeof work) || usable(sizeof on + 8, sizeof work)) return 4;
    work.u = next(in), work.v = next(in), work.sums = next(in), work.scratch = next(in);
    on.row_buckets = next(in), on.col_buckets = next(in), on.order = next(in), on.radices = next(in);
    on.row_signs = next(in), on.col_signs = next(in), on.twiddles = next(in);
    work.acc = next(in);
    int fft = !strcmp(words[1], "fft"), single = !strcmp(words[2], "float32");
    if (fft) (single ? add_by_fft_float32 : add_by_fft_float64)(&work, &on);
    else (single ? add_by_gemm_float32 : add_by_gemm_float64)(&work, &on);
    FILE *out = fopen(words[4], "wb");
    return fwrite(work.acc, 1, size, out) == (size_t)size && !fclose(out) ? 0 : 5;
}
