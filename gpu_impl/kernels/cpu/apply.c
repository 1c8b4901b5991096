// Everyone: x <- x - gamma (P m-bar + lambda x) with m-bar = S_j Q_j, read as bits.
// In the update form x <- x - gamma (y-bar + lambda x) [C12]: P is not read, a bit says what is dead.

#include "vector.h"

typedef struct {
    float lr, decay, momentum;
    int type, copy_type, form, p_type;
} job;

enum { MOMENTUM, UPDATE, UPDATE_OF_LIVE };

// p is for MOMENTUM, live for UPDATE_OF_LIVE.
INLINE floats new_x(floats x, floats p, bits_t live, bits_t bits, job j) {
    floats sent = spread(bits, j.momentum);
    floats direction = j.form == MOMENTUM ? p * sent : sent;
    floats moved = x - j.lr * (direction + j.decay * x);
    if (j.form == MOMENTUM) return any_marked(p) ? choose(is_marked(p), x, moved) : moved;
    return j.form == UPDATE ? moved : select_by(live, moved, x);
}

INLINE void block(void *x, const void *p, const uint8_t *live, const uint8_t *row, void *copy, int64_t i, int64_t to,
                  job j) {
    for (; i + LANES <= to; i += LANES) {
        floats p_here = j.form == MOMENTUM ? load_as(p, i, j.p_type) : all(0);
        bits_t live_here = j.form == UPDATE_OF_LIVE ? load_bits(live + i / 8) : 0;
        floats x_old = load_as(x, i, j.type);
        if (j.copy_type != F32) x_old = adopted(x_old, copy, i, j.copy_type);
        floats moved = new_x(x_old, p_here, live_here, load_bits(row + i / 8), j);
        store_as(x, i, moved, j.type);
        if (j.copy_type != F32) store_as(copy, i, moved, j.copy_type);
    }
    if (i < to) {
        size_t n = (size_t)(to - i), width = (size_t)size_of(j.type);
        char x_tail[4 * LANES] = {0}, rounded[4 * LANES] = {0};
        char p_tail[4 * LANES] = {0};
        bits_t bits = 0, live_tail = 0;
        memcpy(x_tail, (char *)x + (size_t)i * width, n * width);
        if (j.form == MOMENTUM) copy_tail(p_tail, p, i, n, j.p_type);
        if (j.form == UPDATE_OF_LIVE) memcpy(&live_tail, live + i / 8, (n + 7) / 8);
        memcpy(&bits, row + i / 8, (n + 7) / 8);
        floats x_old = load_as(x_tail, 0, j.type);
        if (j.copy_type != F32) {
            copy_tail(rounded, copy, i, n, j.copy_type);
            x_old = adopted(x_old, rounded, 0, j.copy_type);
        }
        floats moved = new_x(x_old, load_as(p_tail, 0, j.p_type), live_tail, bits, j);
        store_as(x_tail, 0, moved, j.type);
        memcpy((char *)x + (size_t)i * width, x_tail, n * width);
        if (j.copy_type != F32) {
            store_as(rounded, 0, moved, j.copy_type);
            memcpy((uint16_t *)copy + i, rounded, n * 2);
        }
    }
}

typedef struct {  // as in apply.py
    void *x;
    int type, copy_type;  // copy_type F32: there is no copy
    const void *p;
    int p_type;  // F32 or BF16 [C14]
    const uint8_t *shared;
    void *copy;
    sizes sizes;
    const float *step;
    const uint8_t *live;  // in the update form, where p is 0: a bit for every live coordinate, or 0
} arguments;

RECORD_OF(onebit_apply);

static void task(const void *context, int64_t b) {
    const arguments *a = context;
    const sizes s = a->sizes;
    int64_t per_chunk = blocks_of(s.chunk), c = b / per_chunk, start = c * s.chunk, from = b % per_chunk * BLOCK;
    int64_t to = least(least(from + BLOCK, s.chunk), s.dim - start);
    if (from >= to) return;
    const uint8_t *row = a->shared + c * s.row_stride;
    int form = a->p ? MOMENTUM : a->live ? UPDATE_OF_LIVE : UPDATE;
    job j = {a->step[LR], a->step[WEIGHT_DECAY], 0, a->type, a->copy_type, form, a->p_type};
    const void *p_part = form == MOMENTUM ? element(a->p, start, a->p_type) : 0;
    const uint8_t *live_part = form == UPDATE_OF_LIVE ? a->live + start / 8 : 0;
    void *x_part = (char *)a->x + start * size_of(a->type);
    uint16_t *copy_part = a->copy ? (uint16_t *)a->copy + start : 0;
#define RUN(TYPE, COPY, FORM, P_TYPE)                                              \
    if (a->type == TYPE && a->copy_type == COPY && form == FORM && a->p_type == P_TYPE) { \
        j.type = TYPE, j.copy_type = COPY, j.form = FORM, j.p_type = P_TYPE;       \
        for (int64_t i = from, end; i < to; i = end) {                             \
            int64_t k = block_at(s, i);                                            \
            end = least(block_end(s, k), to);                                      \
            j.momentum = scale_in(row, s, k) / a->step[MOMENTUM_CORRECTION];       \
            block(x_part, p_part, live_part, row, copy_part, i, end, j);           \
        }                                                                          \
    }
#define RUN_ALL(FORM, P)                                                                    \
    RUN(F32, F32, FORM, P) RUN(F32, BF16, FORM, P) RUN(F32, F16, FORM, P) RUN(BF16, F32, FORM, P) \
    RUN(F16, F32, FORM, P)
    RUN_ALL(MOMENTUM, F32) RUN_ALL(MOMENTUM, BF16) RUN_ALL(UPDATE, F32) RUN_ALL(UPDATE_OF_LIVE, F32)
#undef RUN_ALL
#undef RUN
}

API void onebit_apply(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) {
        if (is_skipped(a[i].step)) continue;
        run_blocks(task, a + i, a[i].sizes.n_chunks * blocks_of(a[i].sizes.chunk), threads_for(a[i].sizes.dim, threads));
    }
}
