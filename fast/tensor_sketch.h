/* The body of tensor_sketch.c, included once for each precision and kind of CPU, with REAL, LANES and NAME defined. */

typedef REAL NAME(Vec) __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
typedef REAL NAME(Loose) __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef struct { NAME(Vec) re, im; } NAME(Point);
#define Vec NAME(Vec)
#define Loose NAME(Loose)
#define Point NAME(Point)
#define BLOCK 512 /* points whose passes are done together, in the first cache */
#define ROWS 4    /* of the gradient summed in registers at a time, with 2 LANES columns */

/* ---------------------------------------------------------------------------------------------- the transform */

INLINE Point NAME(turn)(Vec re, Vec im, REAL c, REAL s) { return (Point){re * c - im * s, re * s + im * c}; }

/* One pass of radix 4 over n points. */
INLINE void NAME(pass)(Point *x, Int n, const REAL *w) {
    Int q = n / 4;
    for (Int j = 0; j < q; j++, w += 6) {
        Point a = x[j], b = x[j + q], c = x[j + 2 * q], d = x[j + 3 * q];
        Vec er = a.re + c.re, ei = a.im + c.im, fr = a.re - c.re, fi = a.im - c.im;
        Vec gr = b.re + d.re, gi = b.im + d.im, hr = b.re - d.re, hi = b.im - d.im;
        x[j] = (Point){er + gr, ei + gi};
        x[j + q] = NAME(turn)(fr + hi, fi - hr, w[0], w[1]);
        x[j + 2 * q] = NAME(turn)(er - gr, ei - gi, w[2], w[3]);
        x[j + 3 * q] = NAME(turn)(fr - hi, fi + hr, w[4], w[5]);
    }
}

INLINE void NAME(last4)(Point *x, Int stride, Point a, Point b, Point c, Point d) {
    Vec er = a.re + c.re, ei = a.im + c.im, fr = a.re - c.re, fi = a.im - c.im;
    Vec gr = b.re + d.re, gi = b.im + d.im, hr = b.re - d.re, hi = b.im - d.im;
    x[0] = (Point){er + gr, ei + gi};
    x[stride] = (Point){fr + hi, fi - hr};
    x[2 * stride] = (Point){er - gr, ei - gi};
    x[3 * stride] = (Point){fr - hi, fi + hr};
}

INLINE void NAME(last8)(Point *x) {
    const REAL r = (REAL)0.70710678118654752440;
    Point s[4], d[4];
    for (Int j = 0; j < 4; j++) {
        s[j] = (Point){x[j].re + x[j + 4].re, x[j].im + x[j + 4].im};
        d[j] = (Point){x[j].re - x[j + 4].re, x[j].im - x[j + 4].im};
    }
    d[1] = (Point){(d[1].re + d[1].im) * r, (d[1].im - d[1].re) * r};
    d[2] = (Point){d[2].im, -d[2].re};
    d[3] = (Point){(d[3].im - d[3].re) * r, -(d[3].re + d[3].im) * r};
    NAME(last4)(x, 2, s[0], s[1], s[2], s[3]);
    NAME(last4)(x + 1, 2, d[0], d[1], d[2], d[3]);
}

/* In place; m is a power of two, at least 4. Point k of the result is frequency order[k]. */
INLINE void NAME(transform)(Point *x, Int m, const REAL *w) {
    Int n = m;
    for (; n > BLOCK; w += 6 * (n / 4), n /= 4)
        for (Int i = 0; i < m; i += n) NAME(pass)(x + i, n, w);
    for (Int i = 0; i < m; i += n) {
        const REAL *at = w;
        Int k = n;
        for (; k > 8; at += 6 * (k / 4), k /= 4)
            for (Int j = i; j < i + n; j += k) NAME(pass)(x + j, k, at);
        for (Int j = i; j < i + n; j += k)
            if (k == 8) NAME(last8)(x + j);
            else NAME(last4)(x + j, 1, x[j], x[j + 1], x[j + 2], x[j + 3]);
    }
}

/* ---------------------------------------------------------------------------------------------- the fft route */

#if LANES == 8
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* LANES tokens with LANES columns each: rows become columns. */
INLINE void NAME(transpose)(Vec *x) {
    Vec y[LANES];
    for (Int round = 1; round < LANES; round *= 2) {
        for (Int k = 0; k < LANES / 2; k++) {
            y[2 * k] = INTERLEAVE_LOW(x[k], x[k + LANES / 2]);
            y[2 * k + 1] = INTERLEAVE_HIGH(x[k], x[k + LANES / 2]);
        }
        memcpy(x, y, sizeof y);
    }
}

/* CountSketch of up to 2 LANES tokens: the first LANES are the real parts, the others, times `i`, the imaginary. */
INLINE void NAME(count)(Point *x, Int m, const REAL *a, Int tokens, Int stride, Int d, const int *h, const REAL *s,
                        REAL i) {
    static const REAL nothing[LANES];
    Int wide = d / LANES * LANES;
    memset(x, 0, m * sizeof(Point));
    for (Int j = 0; j < wide; j += LANES) {
        Vec re[LANES], im[LANES];
        for (Int l = 0; l < LANES; l++) {
            re[l] = *(Loose *)(l < tokens ? a + l * stride + j : nothing);
            im[l] = *(Loose *)(l + LANES < tokens ? a + (l + LANES) * stride + j : nothing);
        }
        NAME(transpose)(re);
        NAME(transpose)(im);
        for (Int k = 0; k < LANES; k++) {
            Point *to = x + h[j + k];
            to->re += re[k] * s[j + k];
            to->im += im[k] * (s[j + k] * i);
        }
    }
    for (Int j = wide; j < d; j++)
        for (Int l = 0; l < LANES; l++) {
            if (l < tokens) x[h[j]].re[l] += a[l * stride + j] * s[j];
            if (l + LANES < tokens) x[h[j]].im[l] += a[(l + LANES) * stride + j] * s[j] * i;
        }
}

/* out[0 : m] = the sketch of some tokens of one example. */
static void NAME(fft_part)(REAL *out, const REAL *u, const REAL *v, Int tokens, const Work *work, const Tables *on,
                           Point *x) {
    Int m = on->m;
    Point *y = x + m, *sum = y + m;
    memset(sum, 0, m * sizeof(Point));
    for (Int t = 0; t < tokens; t += 2 * LANES) {
        Int some = tokens - t;
        NAME(count)(x, m, u + t * work->u_token, some, work->u_token, on->rows, on->row_buckets, on->row_signs, 1);
        NAME(transform)(x, m, on->twiddles);
        NAME(count)(y, m, v + t * work->v_token, some, work->v_token, on->cols, on->col_buckets, on->col_signs, -1);
        NAME(transform)(y, m, on->twiddles);
        for (Int k = 0; k < m; k++) {
            sum[k].re += x[k].re * y[k].re - x[k].im * y[k].im;
            sum[k].im += x[k].re * y[k].im + x[k].im * y[k].re;
        }
    }
    /* Back: the inverse is the transform of the conjugate, over m, conjugated; of that the real part. */
    for (Int k = 0; k < m; k++) x[on->order[k]] = (Point){sum[k].re, -sum[k].im};
    NAME(transform)(x, m, on->twiddles);
    for (Int k = 0; k < m; k++) {
        REAL lanes = 0;
        for (Int l = 0; l < LANES; l++) lanes += x[k].re[l];
        out[on->order[k]] = lanes / m;
    }
}

/* ---------------------------------------------------------------------------------------------- the gemm route */

/* out[bucket] += ROWS rows and 2 LANES columns of the gradient; u and v hold just these, token after token. */
INLINE void NAME(tile)(REAL *out, const REAL *u, const REAL *v, Int tokens, const int *hr, const REAL *sr,
                       const int *hc, const REAL *sc) {
    Vec g[ROWS][2];
    REAL row[2 * LANES] __attribute__((aligned(64)));
    for (Int i = 0; i < ROWS; i++) g[i][0] = g[i][1] = (Vec){0};
    for (Int t = 0; t < tokens; t++, u += ROWS, v += 2 * LANES) {
        Vec a = *(Loose *)v, b = *(Loose *)(v + LANES);
        HOLD(a, b);
        for (Int i = 0; i < ROWS; i++) {
            g[i][0] += u[i] * a;
            g[i][1] += u[i] * b;
        }
    }
    for (Int i = 0; i < ROWS; i++) {
        REAL *to = out + hr[i];
        *(Vec *)row = g[i][0] * sr[i] * *(Loose *)sc;
        *(Vec *)(row + LANES) = g[i][1] * sr[i] * *(Loose *)(sc + LANES);
        for (Int j = 0; j < 2 * LANES; j++) to[hc[j]] += row[j];
    }
}

INLINE REAL NAME(entry)(const REAL *u, const REAL *v, const Work *work) {
    REAL g = 0;
    for (Int t = 0; t < work->tokens; t++) g += u[t * work->u_token] * v[t * work->v_token];
    return g;
}

/* out[0 : 2 m] = the buckets of some rows of one example's gradient, not yet taken modulo m.
 * u and v are copied into `own` first, as they will be read: their columns would all fall into a few sets of the cache. */
static void NAME(gemm_part)(REAL *out, Int first, Int rows, const REAL *u, const REAL *v, const Work *work,
                            const Tables *on, REAL *own) {
    const int *hr = on->row_buckets + first, *hc = on->col_buckets;
    const REAL *sr = (const REAL *)on->row_signs + first, *sc = on->col_signs;
    Int tokens = work->tokens, wide = on->cols / (2 * LANES) * (2 * LANES), high = rows / ROWS * ROWS;
    REAL *columns = own + high * tokens;
    u += first;
    memset(out, 0, 2 * on->m * sizeof(REAL));
    for (Int i = 0; i < high; i += ROWS)
        for (Int t = 0; t < tokens; t++)
            memcpy(own + (i * tokens + t * ROWS), u + t * work->u_token + i, ROWS * sizeof(REAL));
    for (Int j = 0; j < wide; j += 2 * LANES) {
        for (Int t = 0; t < tokens; t++)
            memcpy(columns + t * 2 * LANES, v + t * work->v_token + j, 2 * LANES * sizeof(REAL));
        for (Int i = 0; i < high; i += ROWS)
            NAME(tile)(out, own + i * tokens, columns, tokens, hr + i, sr + i, hc + j, sc + j);
    }
    for (Int i = 0; i < rows; i++) /* what no tile covers */
        for (Int j = i < high ? wide : 0; j < on->cols; j++)
            out[hr[i] + hc[j]] += sr[i] * sc[j] * NAME(entry)(u + i, v + j, work);
}

/* ---------------------------------------------------------------------------------------------- all examples */

INLINE Int NAME(part_size)(Int whole, Int parts, Int of) { return ((whole + parts - 1) / parts + of - 1) / of * of; }

/* What is left of `size` from `first` on. */
INLINE Int NAME(rest)(Int whole, Int first, Int size) {
    return whole < first ? 0 : whole - first < size ? whole - first : size;
}

INLINE void NAME(add_parts)(const Work *work, Int m, Int e) {
    REAL *acc = (REAL *)work->acc + e * work->acc_stride;
    for (Int at = 0; at < work->parts * work->width; at += m) {
        const REAL *part = (const REAL *)work->sums + e * work->parts * work->width + at;
        for (Int k = 0; k < m; k++) acc[k] += part[k];
    }
}

/* Needs work->width = m. */
void NAME(add_by_fft)(const Work *work, const Tables *on) {
    Int parts = work->parts, length = NAME(part_size)(work->tokens, parts, 2 * LANES);
#pragma omp parallel num_threads(work->threads)
    {
        Point *own = (Point *)work->scratch + 3 * on->m * omp_get_thread_num();
#pragma omp for schedule(dynamic)
        for (Int k = 0; k < work->n * parts; k++) {
            Int e = k / parts, t = k % parts * length;
            NAME(fft_part)((REAL *)work->sums + k * work->width,
                           (const REAL *)work->u + e * work->u_example + t * work->u_token,
                           (const REAL *)work->v + e * work->v_example + t * work->v_token,
                           NAME(rest)(work->tokens, t, length), work, on, own);
        }
#pragma omp for
        for (Int e = 0; e < work->n; e++) NAME(add_parts)(work, on->m, e);
    }
}

/* Needs work->width = 2 m. */
void NAME(add_by_gemm)(const Work *work, const Tables *on) {
    Int parts = work->parts, height = NAME(part_size)(on->rows, parts, ROWS);
#pragma omp parallel num_threads(work->threads)
    {
        REAL *own = (REAL *)work->scratch + (height + 2 * LANES) * work->tokens * omp_get_thread_num();
#pragma omp for schedule(dynamic)
        for (Int k = 0; k < work->n * parts; k++) {
            Int e = k / parts, i = k % parts * height;
            NAME(gemm_part)((REAL *)work->sums + k * work->width, i < on->rows ? i : 0,
                            NAME(rest)(on->rows, i, height), (const REAL *)work->u + e * work->u_example,
                            (const REAL *)work->v + e * work->v_example, work, on, own);
        }
#pragma omp for
        for (Int e = 0; e < work->n; e++) NAME(add_parts)(work, on->m, e);
    }
}

#undef Vec
#undef Loose
#undef Point
#undef BLOCK
#undef ROWS
#undef INTERLEAVE_LOW
#undef INTERLEAVE_HIGH
#undef REAL
#undef LANES
#undef NAME
