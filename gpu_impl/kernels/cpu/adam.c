// A warm-up step: Adam, and the same bits as NumPy.

#include "pieces.h"

typedef struct {
    float lr, decay, momentum_correction, variance_correction, factor, beta1, complement1, beta2, complement2, eps;
    int corrected, type, grad_type, copy_type;
} job;

INLINE floats new_x(floats x, floats *m, floats *v, floats g, job j) {
    g = g * j.factor;
    *m = j.beta1 * *m + j.complement1 * g;
    *v = j.beta2 * *v + j.complement2 * (g * g);
    // A division by 1 changes nothing, and divisions are what this loop waits for.
    floats v_hat = j.corrected ? *v / j.variance_correction : *v;
    floats m_hat = j.corrected ? *m / j.momentum_correction : *m;
    floats direction = 1.0f / (root(v_hat) + j.eps) * m_hat;
    return x - j.lr * (direction + j.decay * x);
}

INLINE void block(void *x, float *m, float *v, const void *g, void *copy, int64_t to, job j) {
    int64_t i = 0;
    for (; i + LANES <= to; i += LANES) {
        floats m_new = load(m + i), v_new = load(v + i);
        floats x_old = load_as(x, i, j.type);
        if (j.copy_type != F32) x_old = adopted(x_old, copy, i, j.copy_type);
        floats moved = new_x(x_old, &m_new, &v_new, load_as(g, i, j.grad_type), j);
        store(m + i, m_new);
        store(v + i, v_new);
        store_as(x, i, moved, j.type);
        if (j.copy_type != F32) store_as(copy, i, moved, j.copy_type);
    }
    if (i < to) {
        size_t n = (size_t)(to - i), at = (size_t)i, width = (size_t)size_of(j.type);
        size_t g_width = (size_t)size_of(j.grad_type);
        char x_tail[4 * LANES] = {0}, g_tail[4 * LANES] = {0}, rounded[4 * LANES] = {0};
        float m_tail[LANES] = {0}, v_tail[LANES] = {0};
        memcpy(x_tail, (char *)x + at * width, n * width);
        memcpy(g_tail, (const char *)g + at * g_width, n * g_width);
        memcpy(m_tail, m + i, n * 4);
        memcpy(v_tail, v + i, n * 4);
        floats m_new = load(m_tail), v_new = load(v_tail);
        floats x_old = load_as(x_tail, 0, j.type);
        if (j.copy_type != F32) {
            copy_tail(rounded, copy, i, n, j.copy_type);
            x_old = adopted(x_old, rounded, 0, j.copy_type);
        }
        floats moved = new_x(x_old, &m_new, &v_new, load_as(g_tail, 0, j.grad_type), j);
        store(m_tail, m_new);
        store(v_tail, v_new);
        store_as(x_tail, 0, moved, j.type);
        memcpy(m + i, m_tail, n * 4);
        memcpy(v + i, v_tail, n * 4);
        memcpy((char *)x + at * width, x_tail, n * width);
        if (j.copy_type != F32) {
            store_as(rounded, 0, moved, j.copy_type);
            memcpy((uint16_t *)copy + i, rounded, n * 2);
        }
    }
}

typedef struct {  // as in adam.py
    void *x;
    float *m, *v;
    const piece *grad;
    int64_t n_pieces, base;  // as in compress.c
    int type, grad_type;
    void *copy;
    int copy_type;
    const float *step;
    int64_t dim;
    float beta1, complement1, beta2, complement2, eps;
} arguments;

RECORD_OF(onebit_adam);

typedef struct {
    const arguments *a;
    job j;
} call;

static void task(const void *context, int64_t b) {
    const call *k = context;
    const arguments *a = k->a;
    int64_t from = b * BLOCK, n = least(BLOCK, a->dim - from);
    job j = k->j;
    char room[4 * BLOCK];
    pieces p = {a->grad, a->n_pieces, a->grad_type};
    const void *g = gathered(p, a->base + from, a->base + from + n, room);
    void *x = (char *)a->x + from * size_of(a->type), *copy = a->copy ? (uint16_t *)a->copy + from : 0;
#define RUN(TYPE, GRAD, COPY, CORRECTED)                                                                        \
    if (k->j.type == TYPE && k->j.grad_type == GRAD && k->j.copy_type == COPY && k->j.corrected == CORRECTED) { \
        j.type = TYPE, j.grad_type = GRAD, j.copy_type = COPY, j.corrected = CORRECTED;                         \
        block(x, a->m + from, a->v + from, g, copy, n, j);                                                      \
    }
#define RUN_TYPES(GRAD, CORRECTED)                                                                \
    RUN(F32, GRAD, F32, CORRECTED) RUN(F32, GRAD, BF16, CORRECTED) RUN(F32, GRAD, F16, CORRECTED) \
    RUN(BF16, GRAD, F32, CORRECTED) RUN(F16, GRAD, F32, CORRECTED)
    RUN_TYPES(F32, 0) RUN_TYPES(F32, 1) RUN_TYPES(BF16, 0) RUN_TYPES(BF16, 1) RUN_TYPES(F16, 0) RUN_TYPES(F16, 1)
#undef RUN_TYPES
#undef RUN
}

static void adam(const arguments *a, int threads) {
    const float *step = a->step;
    if (is_skipped(step)) return;
    int corrected = step[MOMENTUM_CORRECTION] != 1 || step[VARIANCE_CORRECTION] != 1;
    job j = {step[LR],       step[WEIGHT_DECAY], step[MOMENTUM_CORRECTION], step[VARIANCE_CORRECTION],
             step[GRADIENT_FACTOR], a->beta1,    a->complement1,            a->beta2,
             a->complement2, a->eps,             corrected,                 a->type,
             a->grad_type,   a->copy_type};
    call k = {a, j};
    run_blocks(task, &k, blocks_of(a->dim), threads_for(a->dim, threads));
}

API void onebit_adam(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) adam(a + i, threads);
}
