/* The two routes of tensor_sketch.py on x86-64 CPUs with AVX2 and on aarch64, each in one pass over the tokens that
 * stays in cache. The Python file is the oracle; this one is only faster. compiled.py calls it, and does without where
 * it is of no use. Vectors are the compiler's own (gcc 12 or later, clang), so that one source serves all.
 *
 *   fft    Two tokens are one complex number, and LANES such pairs go through the transform side by side, one in each
 *          lane of a vector register, so nothing is ever shuffled. With x = u1 + i u2 and y = v1 - i v2, the real part
 *          of x convolved with y is u1 convolved with v1, plus the same for u2 and v2; the rest is thrown away, so
 *          tokens are balanced first, that it cannot drown what is kept. The transform leaves digits reversed
 *          (`order`); products and sums do not mind.
 *   gemm   A tile of delta^T a is summed in registers and scattered from there: the gradient is never stored.
 *
 * Work is cut by its shape and not by the number of threads, so the numbers do not depend on it.
 */

#if !defined(__GNUC__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "written for gcc and clang on x86-64 and aarch64; elsewhere PyTorch does this work"
#endif

#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#endif

#define INLINE static inline __attribute__((always_inline))
typedef long long Int;

/* One sketch. m is the product of the radices (3, 4 or 5), the longest pass first, and of 1, 2, 4 or 8. */
typedef struct {
    Int m, rows, cols, passes;
    const int *row_buckets, *col_buckets, *order, *radices;
    const void *row_signs, *col_signs, *twiddles;
} Tables;

/* acc[e] += sketch of the sum over t of outer(u[e, t], v[e, t]). Strides count numbers; the last axis is dense.
 * An example is done in `parts`, which leave `width` numbers each in `sums`; `scratch` is, for each
 * thread, 3 m points (fft), or 2 LANES columns and one part's rows of all tokens (gemm). */
typedef struct {
    Int n, tokens, parts, width, threads, acc_stride, u_example, u_token, v_example, v_token;
    void *acc;
    const void *u, *v;
    void *sums, *scratch;
} Work;

/* By this CPU, and by a caller whose structures are of these sizes: it may be newer than what was built. */
#ifdef __x86_64__
int usable(Int tables, Int work) {
    __builtin_cpu_init();
    return tables == sizeof(Tables) && work == sizeof(Work) && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}
#else
int usable(Int tables, Int work) { return tables == sizeof(Tables) && work == sizeof(Work); }
#endif

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif

#if defined(__x86_64__) && !defined(__clang__)
#define HOLD(a, b) __asm__("" : "+x"(a), "+x"(b)) /* in registers: gcc would load them again for every row */
#else
#define HOLD(a, b)
#endif

#define NOTHING (-10000) /* in place of an exponent */

#define REAL float
#define TINY 1e-30f
#define LANES 8
#define NAME(x) x##_float32
#include "tensor_sketch.h"

#define REAL double
#define TINY 1e-290
#define LANES 4
#define NAME(x) x##_float64
#include "tensor_sketch.h"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
