/* The body of tensor_sketch.c, included once for each precision, with REAL, LANES and NAME defined. */

typedef REAL NAME(Vec) __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
typedef REAL NAME(Loose) __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef struct { NAME(Vec) re, im; } NAME(Point);
#define Vec NAME(Vec)
#define Loose NAME(Loose)
#define Point NAME(Point)
#define BLOCK 512 /* points whose passes are done together, in the first cache */
#define ROWS 4    /* of the gradient summed in registers at a time, with 2 LANES columns */

/* ---------------------------------------------------------------------------------------------- the transform */

INLINE Point NAME(turn)(Vec re, Vec im, const REAL *w) {
    return (Point){re * w[0] - im * w[1], re * w[1] + im * w[0]};
}

/* One pass over n points, of radix 3, 4 or 5; w holds all but the first twiddle of every butterfly. */
INLINE void NAME(pass3)(Point *x, Int n, const REAL *w) {
    const REAL s = (REAL)0.86602540378443864676;
    Int q = n / 3;
    for (Int j = 0; j < q; j++, w += 4) {
        Point a = x[j], b = x[j + q], c = x[j + 2 * q];
        Vec er = b.re + c.re, ei = b.im + c.im, fr = (b.re - c.re) * s, fi = (b.im - c.im) * s;
        Vec gr = a.re - er * (REAL)0.5, gi = a.im - ei * (REAL)0.5;
        x[j] = (Point){a.re + er, a.im + ei};
        x[j + q] = NAME(turn)(gr + fi, gi - fr, w);
        x[j + 2 * q] = NAME(turn)(gr - fi, gi + fr, w + 2);
    }
}

INLINE void NAME(pass4)(Point *x, Int n, const REAL *w) {
    Int q = n / 4;
    for (Int j = 0; j < q; j++, w += 6) {
        Point a = x[j], b = x[j + q], c = x[j + 2 * q], d = x[j + 3 * q];
        Vec er = a.re + c.re, ei = a.im + c.im, fr = a.re - c.re, fi = a.im - c.im;
        Vec gr = b.re + d.re, gi = b.im + d.im, hr = b.re - d.re, hi = b.im - d.im;
        x[j] = (Point){er + gr, ei + gi};
        x[j + q] = NAME(turn)(fr + hi, fi - hr, w);
        x[j + 2 * q] = NAME(turn)(er - gr, ei - gi, w + 2);
        x[j + 3 * q] = NAME(turn)(fr - hi, fi + hr, w + 4);
    }
}

INLINE void NAME(pass5)(Point *x, Int n, const REAL *w) {
    const REAL c1 = (REAL)0.30901699437494742410, c2 = (REAL)-0.80901699437494742410;
    const REAL s1 = (REAL)0.95105651629515357212, s2 = (REAL)0.58778525229247312917;
    Int q = n / 5;
    for (Int j = 0; j < q; j++, w += 8) {
        Point a = x[j], b = x[j + q], c = x[j + 2 * q], d = x[j + 3 * q], e = x[j + 4 * q];
        Vec br = b.re + e.re, bi = b.im + e.im, er = b.re - e.re, ei = b.im - e.im;
        Vec cr = c.re + d.re, ci = c.im + d.im, dr = c.re - d.re, di = c.im - d.im;
        Vec fr = a.re + br * c1 + cr * c2, fi = a.im + bi * c1 + ci * c2, gr = er * s1 + dr * s2, gi = ei * s1 + di * s2;
        Vec hr = a.re + br * c2 + cr * c1, hi = a.im + bi * c2 + ci * c1, kr = er * s2 - dr * s1, ki = ei * s2 - di * s1;
        x[j] = (Point){a.re + br + cr, a.im + bi + ci};
        x[j + q] = NAME(turn)(fr + gi, fi - gr, w);
        x[j + 2 * q] = NAME(turn)(hr + ki, hi - kr, w + 2);
        x[j + 3 * q] = NAME(turn)(hr - ki, hi + kr, w + 4);
        x[j + 4 * q] = NAME(turn)(fr - gi, fi + gr, w + 6);
    }
}

INLINE void NAME(pass)(Int radix, Point *x, Int n, const REAL *w) {
    if (radix == 4) NAME(pass4)(x, n, w);
    else if (radix == 3) NAME(pass3)(x, n, w);
    else NAME(pass5)(x, n, w);
}

INLINE void NAME(last2)(Point *x) {
    Point a = x[0], b = x[1];
    x[0] = (Point){a.re + b.re, a.im + b.im};
    x[1] = (Point){a.re - b.re, a.im - b.im};
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

/* In place. Point k of the result is frequency order[k]. */
INLINE void NAME(transform)(Point *x, const Tables *on) {
    const REAL *w = on->twiddles;
    Int n = on->m, p = 0;
    for (Int r; p < on->passes && n > BLOCK; w += 2 * (r - 1) * (n / r), n /= r, p++) {
        r = on->radices[p];
        for (Int i = 0; i < on->m; i += n) NAME(pass)(r, x + i, n, w);
    }
    for (Int i = 0; i < on->m; i += n) {
        const REAL *at = w;
        Int k = n;
        for (Int r, l = p; l < on->passes; at += 2 * (r - 1) * (k / r), k /= r, l++) {
            r = on->radices[l];
            for (Int j = i; j < i + n; j += k) NAME(pass)(r, x + j, k, at);
        }
        for (Int j = i; j < i + n; j += k) {
            if (k == 8) NAME(last8)(x + j);
            else if (k == 4) NAME(last4)(x + j, 1, x[j], x[j + 1], x[j + 2], x[j + 3]);
            else if (k == 2) NAME(last2)(x + j);
        }
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

/* The binary exponent of a token's norm; of its largest number, where squares are too large or too small. */
INLINE int NAME(exponent)(const REAL *a, Int d) {
    Vec squares[4] = {{0}}; /* sums that do not wait for each other */
    REAL sum = 0, most = 0;
    Int wide = d / (4 * LANES) * (4 * LANES);
    for (Int j = 0; j < wide; j += 4 * LANES)
        for (Int k = 0; k < 4; k++) {
            Vec part = *(Loose *)(a + j + k * LANES);
            squares[k] += part * part;
        }
    for (Int l = 0; l < LANES; l++) sum += squares[0][l] + squares[1][l] + squares[2][l] + squares[3][l];
    for (Int j = wide; j < d; j++) sum += a[j] * a[j];
    if (sum > TINY && sum < 1 / TINY) return ilogb(sum) / 2;
    for (Int j = 0; j < d; j++) most = a[j] > most ? a[j] : -a[j] > most ? -a[j] : most;
    return most > 0 ? ilogb(most) : NOTHING;
}

/* Powers of two that make both sides of a token equally large. Two tokens share a transform, which sees the product of
 * one's u and the other's v as well: it must not be larger than what is wanted. A token with nothing on one side is
 * nothing on both. */
INLINE void NAME(balance)(REAL *fu, REAL *fv, const REAL *u, const REAL *v, Int tokens, const Work *work,
                          const Tables *on) {
    for (Int l = 0; l < 2 * LANES; l++) {
        int eu = l < tokens ? NAME(exponent)(u + l * work->u_token, on->rows) : NOTHING;
        int ev = l < tokens ? NAME(exponent)(v + l * work->v_token, on->cols) : NOTHING;
        int e = (ev - eu) / 2, most = 120;
        e = e > most ? most : e < -most ? -most : e;
        int some = eu != NOTHING && ev != NOTHING;
        fu[l] = some ? ldexp(1, e) : 0;
        fv[l] = some ? ldexp(1, -e) : 0;
    }
}

/* CountSketch of up to 2 LANES tokens, each times its f: the first LANES are the real parts, the others, times `i`, the
 * imaginary. */
INLINE void NAME(count)(Point *x, Int m, const REAL *a, const REAL *f, Int tokens, Int stride, Int d, const int *h,
                        const REAL *s, REAL i) {
    static const REAL nothing[LANES];
    Int wide = d / LANES * LANES;
    memset(x, 0, m * sizeof(Point));
    for (Int j = 0; j < wide; j += LANES) {
        Vec re[LANES], im[LANES];
        for (Int l = 0; l < LANES; l++) {
            re[l] = *(Loose *)(l < tokens ? a + l * stride + j : nothing) * f[l];
            im[l] = *(Loose *)(l + LANES < tokens ? a + (l + LANES) * stride + j : nothing) * f[l + LANES];
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
            if (l < tokens) x[h[j]].re[l] += a[l * stride + j] * f[l] * s[j];
            if (l + LANES < tokens) x[h[j]].im[l] += a[(l + LANES) * stride + j] * f[l + LANES] * s[j] * i;
        }
}

/* out[0 : m] = the sketch of some tokens of one example. */
static void NAME(fft_part)(REAL *out, const REAL *u, const REAL *v, Int tokens, const Work *work, const Tables *on,
                           Point *x) {
    Int m = on->m;
    Point *y = x + m, *sum = y + m;
    memset(sum, 0, m * sizeof(Point));
    for (Int t = 0; t < tokens; t += 2 * LANES) {
        const REAL *ut = u + t * work->u_token, *vt = v + t * work->v_token;
        REAL fu[2 * LANES], fv[2 * LANES];
        Int some = tokens - t;
        NAME(balance)(fu, fv, ut, vt, some, work, on);
        NAME(count)(x, m, ut, fu, some, work->u_token, on->rows, on->row_buckets, on->row_signs, 1);
        NAME(transform)(x, on);
        NAME(count)(y, m, vt, fv, some, work->v_token, on->cols, on->col_buckets, on->col_signs, -1);
        NAME(transform)(y, on);
        for (Int k = 0; k < m; k++) {
            sum[k].re += x[k].re * y[k].re - x[k].im * y[k].im;
            sum[k].im += x[k].re * y[k].im + x[k].im * y[k].re;
        }
    }
    /* Back: the inverse is the transform of the conjugate, over m, conjugated; of that the real part. */
    for (Int k = 0; k < m; k++) x[on->order[k]] = (Point){sum[k].re, -sum[k].im};
    NAME(transform)(x, on);
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
    for (Int t = 0; t < tokens; t++)
        for (Int i = 0; i < high; i += ROWS)
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
#undef TINY
#undef LANES
#undef NAME
