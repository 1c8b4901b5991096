// A step of 0/1 Adam in which no worker is met: m_i, u_i and x_i, where the model is.

#include "pieces.h"

#include <float.h>

typedef struct {
    float lr, decay, factor, beta1, complement1, eps, floor;
    int grad_type, copy_type;
} job;

typedef struct {
    float *x, *walked, *m, *u;
    const float *met, *v;
    void *copy;
} rows;

// LANES elements from i on; the number of non-zero gradients where nothing moves.
INLINE int one(rows r, const void *g_from, int64_t i, job j) {
    floats met = load(r.met + i), walked = load(r.walked + i), v = load(r.v + i);
    ints live = (v > 0) & (v <= FLT_MAX);
    floats g = load_as(g_from, i, j.grad_type);
    floats m = j.beta1 * load(r.m + i) + j.complement1 * (g * j.factor);
    floats u = load(r.u + i) + j.lr * m;
    floats raised = choose(v > j.floor, v, all(j.floor));
    floats step = 1.0f / (root(raised) + j.eps) * m + j.decay * met;
    walked = choose(live, walked + j.lr * step, all(0));
    floats x = met - walked;
    store(r.m + i, m);
    store(r.u + i, u);
    store(r.walked + i, walked);
    store(r.x + i, x);
    if (j.copy_type != F32) store_as(r.copy, i, x, j.copy_type);
    return count(~live & (g != 0));
}

INLINE int64_t block(rows r, const void *g, int64_t to, job j) {
    int64_t i = 0, ignored = 0;
    for (; i + LANES <= to; i += LANES) ignored += one(r, g, i, j);
    if (i < to) {
        size_t n = (size_t)(to - i);
        float tails[6][LANES] = {{0}};
        char g_tail[4 * LANES] = {0}, copy_room[4 * LANES] = {0};
        float *to_here[4] = {r.x, r.walked, r.m, r.u};
        const float *from[6] = {r.x, r.walked, r.m, r.u, r.met, r.v};
        for (int k = 1; k < 6; k++) memcpy(tails[k], from[k] + i, n * 4);
        copy_tail(g_tail, g, i, n, j.grad_type);
        rows t = {tails[0], tails[1], tails[2], tails[3], tails[4], tails[5], copy_room};
        ignored += one(t, g_tail, 0, j);
        for (int k = 0; k < 4; k++) memcpy(to_here[k] + i, tails[k], n * 4);
        if (j.copy_type != F32) memcpy((uint16_t *)r.copy + i, copy_room, n * 2);
    }
    return ignored;
}

typedef struct {  // as in walk.py
    float *x;
    const float *met;
    float *walked, *m, *u;
    const float *v;
    const piece *grad;
    int64_t n_pieces, base;  // as in compress.c
    int grad_type;
    void *copy;
    int copy_type;
    const float *step;
    int64_t *ignored;
    const float *floor;
    int64_t dim;
    float beta1, complement1, eps;
} arguments;

RECORD_OF(onebit_walk);

static void task(const void *context, int64_t b) {
    const arguments *a = context;
    int64_t from = b * BLOCK, n = least(BLOCK, a->dim - from), ignored = 0;
    char room[4 * BLOCK];
    pieces p = {a->grad, a->n_pieces, a->grad_type};
    const void *g = gathered(p, a->base + from, a->base + from + n, room);
    rows r = {a->x + from,   a->walked + from, a->m + from, a->u + from,
              a->met + from, a->v + from,      a->copy ? (uint16_t *)a->copy + from : 0};
    const float *step = a->step;
    job j = {step[LR], step[WEIGHT_DECAY], step[GRADIENT_FACTOR], a->beta1, a->complement1, a->eps, *a->floor, 0, 0};
#define RUN(GRAD, COPY)                                    \
    if (a->grad_type == GRAD && a->copy_type == COPY) {    \
        j.grad_type = GRAD, j.copy_type = COPY;            \
        ignored = block(r, g, n, j);                       \
    }
    RUN(F32, F32) RUN(F32, BF16) RUN(F32, F16) RUN(BF16, F32) RUN(BF16, BF16) RUN(BF16, F16) RUN(F16, F32)
    RUN(F16, BF16) RUN(F16, F16)
#undef RUN
    if (ignored) __atomic_fetch_add(a->ignored, ignored, __ATOMIC_RELAXED);  // integers: any order gives one sum
}

API void onebit_walk(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) {
        if (!is_skipped(a[i].step)) run_blocks(task, a + i, blocks_of(a[i].dim), threads_for(a[i].dim, threads));
    }
}
