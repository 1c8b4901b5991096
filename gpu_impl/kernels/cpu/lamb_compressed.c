// What a compressed step of 1-bit LAMB does before and after the exchange. Tasks are parts of one layer, as in lamb.c.

#include "pieces.h"

#include <float.h>

typedef struct {
    float factor, beta1, complement1, beta2, complement2, scale;
    double eps;
    int grad_type;
} job;

typedef struct {
    const float *u, *v;
    float *m, *fresh, *buffer;
} rows;

// buffer <- s (beta1 m-bar + (1-beta1) g), 0 where u is marked; the number of non-zero gradients there.
INLINE int form_one(rows r, const void *g_from, int64_t i, job j) {
    floats g = load_as(g_from, i, j.grad_type) * j.factor;
    ints dead = is_marked(load(r.u + i));
    store(r.buffer + i, choose(dead, all(0), j.scale * (j.beta1 * load(r.m + i) + j.complement1 * g)));
    return count(dead & (g != 0));
}

INLINE int64_t form(rows r, const void *g, int64_t to, job j) {
    int64_t i = 0, ignored = 0;
    for (; i + LANES <= to; i += LANES) ignored += form_one(r, g, i, j);
    if (i < to) {
        size_t n = (size_t)(to - i);
        float u[LANES] = {0}, m[LANES] = {0}, buffer[LANES];
        char g_tail[4 * LANES] = {0};
        memcpy(u, r.u + i, n * 4);
        memcpy(m, r.m + i, n * 4);
        copy_tail(g_tail, g, i, n, j.grad_type);
        ignored += form_one((rows){u, 0, m, 0, buffer}, g_tail, 0, j);
        memcpy(r.buffer + i, buffer, n * 4);
    }
    return ignored;
}

typedef int64_t longs __attribute__((vector_size(4 * LANES)));
typedef struct {
    doubles low, high;
} largest_t;

// The larger one of each lane, or NaN if there is one.
INLINE doubles larger(doubles best, doubles ratio) {
    longs taken = (longs)(ratio > best) | (longs)(ratio != ratio);
    return (doubles)(((longs)ratio & taken) | ((longs)best & ~taken));
}

// (sqrt(v) + eps) / (sqrt(v') + eps), 0 where v is 0 or has overflowed.
INLINE doubles ratio_of(half_floats v_from, half_floats fresh_from, double eps) {
    doubles v = widened(v_from), fresh = widened(fresh_from);
    longs live = (longs)(v > 0) & (longs)(v <= (double)FLT_MAX);
    return (doubles)((longs)((wide_root(v) + eps) / (wide_root(fresh) + eps)) & live);
}

// m-bar <- buffer / s, and v' along the gradient that m-bar says; the largest ratios.
INLINE void refresh_one(rows r, int64_t i, job j, largest_t *largest) {
    floats m = load(r.m + i), v = load(r.v + i);
    floats mean = choose(is_marked(load(r.u + i)), all(0), load(r.buffer + i)) / j.scale;
    floats rebuilt = (mean - j.beta1 * m) / j.complement1;
    floats fresh = j.beta2 * load(r.fresh + i) + j.complement2 * (rebuilt * rebuilt);
    store(r.m + i, mean);
    store(r.fresh + i, fresh);
    half_floats v_half[2], fresh_half[2];
    memcpy(v_half, &v, sizeof v);
    memcpy(fresh_half, &fresh, sizeof fresh);
    largest->low = larger(largest->low, ratio_of(v_half[0], fresh_half[0], j.eps));
    largest->high = larger(largest->high, ratio_of(v_half[1], fresh_half[1], j.eps));
}

INLINE double refresh(rows r, int64_t to, job j) {
    int64_t i = 0;
    largest_t largest = {0};
    for (; i + LANES <= to; i += LANES) refresh_one(r, i, j, &largest);
    if (i < to) {
        size_t n = (size_t)(to - i);
        float u[LANES] = {0}, v[LANES] = {0}, m[LANES] = {0}, fresh[LANES] = {0}, buffer[LANES] = {0};
        memcpy(u, r.u + i, n * 4);
        memcpy(v, r.v + i, n * 4);
        memcpy(m, r.m + i, n * 4);
        memcpy(fresh, r.fresh + i, n * 4);
        memcpy(buffer, r.buffer + i, n * 4);
        refresh_one((rows){u, v, m, fresh, buffer}, 0, j, &largest);
        memcpy(r.m + i, m, n * 4);
        memcpy(r.fresh + i, fresh, n * 4);
    }
    doubles both = larger(largest.low, largest.high);
    double found = 0;
    for (int k = 0; k < LANES / 2; k++) {
        if (both[k] > found || both[k] != both[k]) found = both[k];
    }
    return found;
}

typedef struct {  // as in lamb_compressed.py; grad 0: after the exchange
    const float *u;
    float *m, *buffer, *fresh;
    const float *v;
    const piece *grad;
    int64_t n_pieces, base;  // as in compress.c
    int grad_type;
    const int64_t *tasks;  // as in lamb.c
    int64_t n_tasks, n_layers, dim;
    const float *scale;          // one a layer
    double *partials, *largest;  // one a task, one a layer
    int64_t *ignored;
    float factor, beta1, complement1, beta2, complement2;
    double eps;
} arguments;

RECORD_OF(onebit_lamb_compressed);

static void task(const void *context, int64_t b) {
    const arguments *a = context;
    int64_t from = a->tasks[3 * b], n = a->tasks[3 * b + 1] - from, layer = a->tasks[3 * b + 2];
    job j = {a->factor, a->beta1, a->complement1, a->beta2, a->complement2, a->scale[layer], a->eps, 0};
    rows r = {a->u + from, 0, a->m + from, 0, a->buffer + from};
    if (!a->grad) {
        r.v = a->v + from, r.fresh = a->fresh + from;
        a->partials[b] = refresh(r, n, j);
        return;
    }
    char room[4 * BLOCK];
    pieces p = {a->grad, a->n_pieces, a->grad_type};
    const void *g = gathered(p, a->base + from, a->base + from + n, room);
    int64_t ignored = 0;
#define RUN(GRAD)                         \
    if (a->grad_type == GRAD) {           \
        j.grad_type = GRAD;               \
        ignored = form(r, g, n, j);       \
    }
    RUN(F32) RUN(BF16) RUN(F16)
#undef RUN
    if (ignored) __atomic_fetch_add(a->ignored, ignored, __ATOMIC_RELAXED);  // integers: any order gives one sum
}

static void lamb_compressed(const arguments *a, int threads) {
    run_blocks(task, a, a->n_tasks, threads_for(a->dim, threads));
    if (a->grad) return;
    memset(a->largest, 0, (size_t)a->n_layers * sizeof *a->largest);
    for (int64_t b = 0; b < a->n_tasks; b++) {
        double *best = a->largest + a->tasks[3 * b + 2];
        if (a->partials[b] > *best || isnan(a->partials[b])) *best = a->partials[b];
    }
}

API void onebit_lamb_compressed(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) lamb_compressed(a + i, threads);
}
