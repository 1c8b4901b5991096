// The sum of squares of a gradient: NaN or Inf if one of its elements is.

#include "pieces.h"

INLINE double block(const void *grad, int64_t i, int64_t to, int type) {
    sums_t sums = {0}, more = {0};  // two chains of additions, for their latency would show
    for (; i + 2 * LANES <= to; i += 2 * LANES) {
        add_norm(&sums, load_as(grad, i, type), 0);
        add_norm(&more, load_as(grad, i + LANES, type), 0);
    }
    for (; i < to; i += LANES) {
        size_t n = (size_t)least(LANES, to - i), width = (size_t)size_of(type);
        char tail[4 * LANES] = {0};
        memcpy(tail, (const char *)grad + (size_t)i * width, n * width);
        add_norm(&sums, load_as(tail, 0, type), 0);
    }
    return total(sums) + total(more);
}

typedef struct {  // as in gradient_norm.py
    const piece *grad;
    int64_t n_pieces, base;  // as in compress.c
    int type;
    double *norm;
    int64_t dim;
    double *partials;  // one a block, or 0 for at most FEW
} arguments;

RECORD_OF(onebit_gradient_norm);

typedef struct {
    const arguments *a;
    double *partials;
} call;

static void task(const void *context, int64_t b) {
    const call *k = context;
    const arguments *a = k->a;
    int64_t from = b * BLOCK, n = least(BLOCK, a->dim - from);
    char room[4 * BLOCK];
    pieces p = {a->grad, a->n_pieces, a->type};
    const void *g = gathered(p, a->base + from, a->base + from + n, room);
    if (a->type == F32) k->partials[b] = block(g, 0, n, F32);
    else if (a->type == BF16) k->partials[b] = block(g, 0, n, BF16);
    else k->partials[b] = block(g, 0, n, F16);
}

API void onebit_gradient_norm(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++, a++) {
        double few[FEW];
        call k = {a, a->partials ? a->partials : few};
        int64_t n_blocks = blocks_of(a->dim);
        run_blocks(task, &k, n_blocks, threads_for(a->dim, threads));
        double sum = 0;
        for (int64_t b = 0; b < n_blocks; b++) sum += k.partials[b];
        *a->norm = sum;
    }
}
