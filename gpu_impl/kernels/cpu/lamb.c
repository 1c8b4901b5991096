// The two passes of a step of LAMB. Tasks are parts of one layer, so that a norm is a sum over tasks in their order.

#include "pieces.h"

typedef struct {
    float lr, decay, momentum_correction, variance_correction, factor, beta1, complement1, beta2, complement2, eps;
    int corrected, frozen, grad_type, copy_type;
} job;

// r = P (m / b1) + lambda x
INLINE floats update(floats x, floats m, floats v, job j) {
    floats v_hat = j.corrected ? v / j.variance_correction : v;
    floats m_hat = j.corrected ? m / j.momentum_correction : m;
    return 1.0f / (root(v_hat) + j.eps) * m_hat + j.decay * x;
}

INLINE floats master(const float *x, const void *copy, int64_t i, int copy_type) {
    floats held = load(x + i);
    return copy_type == F32 ? held : adopted(held, copy, i, copy_type);
}

INLINE void first(const float *x, float *m, float *v, const void *g, const void *copy, int64_t i, job j, sums_t sums[2]) {
    floats grad = load_as(g, i, j.grad_type) * j.factor;
    floats m_new = j.beta1 * load(m + i) + j.complement1 * grad;
    floats v_new = j.beta2 * load(v + i) + j.complement2 * (grad * grad);
    store(m + i, m_new);
    store(v + i, v_new);
    floats x_here = master(x, copy, i, j.copy_type);
    add_norm(&sums[0], x_here, 0);
    add_norm(&sums[1], update(x_here, m_new, v_new, j), 0);
}

INLINE void moments(const float *x, float *m, float *v, const void *g, const void *copy, int64_t to, job j, double *out) {
    sums_t sums[2] = {0};
    int64_t i = 0;
    for (; i + LANES <= to; i += LANES) first(x, m, v, g, copy, i, j, sums);
    if (i < to) {  // elements behind the end are 0, and so is their r
        size_t n = (size_t)(to - i);
        float x_tail[LANES] = {0}, m_tail[LANES] = {0}, v_tail[LANES] = {0};
        char g_tail[4 * LANES] = {0}, copied[4 * LANES] = {0};
        memcpy(x_tail, x + i, n * 4);
        memcpy(m_tail, m + i, n * 4);
        memcpy(v_tail, v + i, n * 4);
        copy_tail(g_tail, g, i, n, j.grad_type);
        if (j.copy_type != F32) copy_tail(copied, copy, i, n, j.copy_type);
        first(x_tail, m_tail, v_tail, g_tail, copied, 0, j, sums);
        memcpy(m + i, m_tail, n * 4);
        memcpy(v + i, v_tail, n * 4);
    }
    out[0] = total(sums[0]), out[1] = total(sums[1]);
}

INLINE void second(float *x, const float *m, const float *v, void *copy, int64_t i, float trust, job j) {
    floats held = master(x, copy, i, j.copy_type), v_here = load(v + i);
    floats moved = held - j.lr * (update(held, load(m + i), v_here, j) * trust);
    if (j.frozen) moved = choose(v_here == 0, held, moved);  // [C6]
    store(x + i, moved);
    if (j.copy_type != F32) store_as(copy, i, moved, j.copy_type);
}

INLINE void move(float *x, const float *m, const float *v, void *copy, int64_t to, float trust, job j) {
    int64_t i = 0;
    for (; i + LANES <= to; i += LANES) second(x, m, v, copy, i, trust, j);
    if (i < to) {
        size_t n = (size_t)(to - i);
        float x_tail[LANES] = {0}, m_tail[LANES] = {0}, v_tail[LANES] = {0};
        char copied[4 * LANES] = {0};
        memcpy(x_tail, x + i, n * 4);
        memcpy(m_tail, m + i, n * 4);
        memcpy(v_tail, v + i, n * 4);
        if (j.copy_type != F32) copy_tail(copied, copy, i, n, j.copy_type);
        second(x_tail, m_tail, v_tail, copied, 0, trust, j);
        memcpy(x + i, x_tail, n * 4);
        if (j.copy_type != F32) memcpy((uint16_t *)copy + i, copied, n * 2);
    }
}

typedef struct {  // as in lamb.py; grad 0: the second pass
    float *x, *m, *v;
    const piece *grad;
    int64_t n_pieces, base;  // as in compress.c
    int grad_type;
    void *copy;
    int copy_type;
    const float *step;
    const int64_t *tasks;  // first element, the one behind the last, layer
    int64_t n_tasks, n_layers, dim;
    double *partials, *squares;  // two a task, two a layer
    const float *trust;
    float frozen_correction;  // of v [C5]; 0: v is not frozen
    float beta1, complement1, beta2, complement2, eps;
} arguments;

RECORD_OF(onebit_lamb);

typedef struct {
    const arguments *a;
    job j;
} call;

static void task(const void *context, int64_t b) {
    const call *k = context;
    const arguments *a = k->a;
    int64_t from = a->tasks[3 * b], n = a->tasks[3 * b + 1] - from, layer = a->tasks[3 * b + 2];
    job j = k->j;
    float *x = a->x + from, *m = a->m + from, *v = a->v + from;
    void *copy = a->copy ? (uint16_t *)a->copy + from : 0;
    if (!a->grad) {
#define RUN(COPY, CORRECTED, FROZEN)                                                           \
    if (a->copy_type == COPY && k->j.corrected == CORRECTED && k->j.frozen == FROZEN) {        \
        j.copy_type = COPY, j.corrected = CORRECTED, j.frozen = FROZEN;                        \
        move(x, m, v, copy, n, a->trust[layer], j);                                            \
    }
#define RUN_ALL(CORRECTED, FROZEN) RUN(F32, CORRECTED, FROZEN) RUN(BF16, CORRECTED, FROZEN) RUN(F16, CORRECTED, FROZEN)
        RUN_ALL(0, 0) RUN_ALL(0, 1) RUN_ALL(1, 0) RUN_ALL(1, 1)
#undef RUN_ALL
#undef RUN
        return;
    }
    char room[4 * BLOCK];
    pieces p = {a->grad, a->n_pieces, a->grad_type};
    const void *g = gathered(p, a->base + from, a->base + from + n, room);
#define RUN(GRAD, COPY, CORRECTED)                                                             \
    if (a->grad_type == GRAD && a->copy_type == COPY && k->j.corrected == CORRECTED) {         \
        j.grad_type = GRAD, j.copy_type = COPY, j.corrected = CORRECTED;                       \
        moments(x, m, v, g, copy, n, j, a->partials + 2 * b);                                  \
    }
#define RUN_ALL(GRAD, CORRECTED) RUN(GRAD, F32, CORRECTED) RUN(GRAD, BF16, CORRECTED) RUN(GRAD, F16, CORRECTED)
    RUN_ALL(F32, 0) RUN_ALL(F32, 1) RUN_ALL(BF16, 0) RUN_ALL(BF16, 1) RUN_ALL(F16, 0) RUN_ALL(F16, 1)
#undef RUN_ALL
#undef RUN
}

static void lamb(const arguments *a, int threads) {
    const float *step = a->step;
    if (is_skipped(step)) return;
    int frozen = a->frozen_correction != 0;
    float of_v = frozen ? a->frozen_correction : step[VARIANCE_CORRECTION];
    int corrected = step[MOMENTUM_CORRECTION] != 1 || of_v != 1;
    job j = {step[LR],       step[WEIGHT_DECAY], step[MOMENTUM_CORRECTION], of_v,   step[GRADIENT_FACTOR],
             a->beta1,       a->complement1,     a->beta2,                  a->complement2, a->eps,
             corrected,      frozen,             0,                         0};
    call k = {a, j};
    run_blocks(task, &k, a->n_tasks, threads_for(a->dim, threads));
    if (!a->grad) return;
    memset(a->squares, 0, (size_t)a->n_layers * 2 * sizeof *a->squares);
    for (int64_t b = 0; b < a->n_tasks; b++) {
        for (int side = 0; side < 2; side++) a->squares[2 * a->tasks[3 * b + 2] + side] += a->partials[2 * b + side];
    }
}

API void onebit_lamb(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) lamb(a + i, threads);
}
