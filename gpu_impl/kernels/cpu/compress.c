// One worker's compression in one pass: u <- (1-beta1) g + beta1 m-bar + (u - s sign(u)), its signs, and its norm.
// In the update form P g takes the place of g [C12]. With block scales [C13] a block is done when its sum is.

#include "pieces.h"

typedef struct {
    float factor, beta, complement, old_scale, shared;  // shared: beta times the scale of m-bar, the product's rounding
    int type, first, update;
} job;

// LANES elements: returns the new u, counts gradients that arrive at dead coordinates.
// update: 0, or P of type F32 or BF16 plus 1.
INLINE floats new_u(floats g, floats p, floats u, bits_t shared_bits, job j, ints *ignored) {
    floats momentum = j.first ? j.beta * u : spread(shared_bits, j.shared);
    floats error = j.first ? all(0) : u - spread(signs(u), j.old_scale);
    floats gradient = j.update ? (g * j.factor) * p : g * j.factor;
    floats u_new = (j.complement * gradient + momentum) + error;  // never -0.0, for error is not
    if (any_marked(u)) {
        *ignored -= is_marked(u) & (g != 0);  // a true lane is -1
        u_new = marked_where(is_marked(u), u_new);
    }
    return u_new;
}

INLINE double block(void *grad, const void *p, float *u, const uint8_t *shared, uint8_t *row, int64_t to, int l1,
                    int keep, job j, int64_t *n_ignored) {
    sums_t sums = {0};
    ints ignored = {0};
    int64_t i = 0;
    for (; i + LANES <= to; i += LANES) {
        floats u_old = load(u + i);
        floats p_here = j.update ? load_as(p, i, j.update - 1) : all(0);
        floats u_new = new_u(load_as(grad, i, j.type), p_here, u_old, load_bits(shared + i / 8), j, &ignored);
        if (keep) store((float *)grad + i, u_old);
        store(u + i, u_new);
        store_bits(row + i / 8, signs(u_new));
        add_norm(&sums, u_new, l1);
    }
    if (i < to) {  // the tail of the chunk: padding is dead, so it adds nothing; its bits are sent as 0
        size_t n = (size_t)(to - i), n_bytes = (n + 7) / 8, width = (size_t)size_of(j.type);
        char g[4 * LANES] = {0};
        float padded[LANES];
        char p_tail[4 * LANES] = {0};
        bits_t bits = 0;
        memcpy(g, (const char *)grad + (size_t)i * width, n * width);
        store(padded, (floats)((ints){0} + MARK));
        memcpy(padded, u + i, n * 4);
        memcpy(&bits, shared + i / 8, n_bytes);
        if (j.update) copy_tail(p_tail, p, i, n, j.update - 1);
        floats u_new = new_u(load_as(g, 0, j.type), load_as(p_tail, 0, j.update ? j.update - 1 : F32), load(padded), bits, j, &ignored);
        store(padded, u_new);
        bits = signs(u_new) & (bits_t)((1u << n) - 1);
        if (keep) memcpy((float *)grad + i, u + i, n * 4);
        memcpy(u + i, padded, n * 4);
        memcpy(row + i / 8, &bits, n_bytes);
        add_norm(&sums, u_new, l1);
    }
    for (int k = 0; k < LANES; k++) *n_ignored += ignored[k];
    return total(sums);
}

typedef struct {  // as in compress.py
    const piece *grad;
    int64_t n_pieces, base;  // base: where this buffer begins among the pieces
    int type, keep;          // keep: the gradient, of type F32, receives the old u
    float *u, *u_scale;
    int64_t *ignored;
    const int64_t *live;
    uint8_t *message;
    const uint8_t *shared;
    sizes sizes;
    const float *step;
    float beta, complement;
    int l1, first;
    const void *p;     // P in the update form, else 0
    int p_type;        // F32 or BF16 [C14]
    double *partials;  // where all share a scale, one for each task, or 0 for at most FEW
} arguments;

RECORD_OF(onebit_compress);

typedef struct {
    const arguments *a;
    job j;
    double *partials;
} call;

// Elements [from, to) of chunk c: writes the scales of its blocks, if they have some, or returns the sum.
INLINE double run(const arguments *a, job j, int64_t c, int64_t from, int64_t to, int l1, int keep, int64_t *n_ignored) {
    const sizes s = a->sizes;
    int64_t start = c * s.chunk, first_scale = s.block ? c * scales_in_row(s) : 0;
    const uint8_t *row_in = a->shared + c * s.row_stride;
    uint8_t *row = a->message + c * s.row_stride;
    pieces p = {a->grad, a->n_pieces, j.type};
    char room[4 * BLOCK];
    double sum = 0;
    for (int64_t part = from; part < to; part += BLOCK) {
        int64_t part_to = least(part + BLOCK, to);
        char *g = gathered(p, a->base + start + part, a->base + start + part_to, room);
        for (int64_t i = part, end; i < part_to; i = end) {
            int64_t k = block_at(s, i);
            end = least(block_end(s, k), part_to);
            j.old_scale = a->u_scale[first_scale + k], j.shared = j.beta * scale_in(row_in, s, k);
            sum += block(g + (i - part) * size_of(j.type), j.update ? element(a->p, start + i, j.update - 1) : 0, a->u + start + i,
                         row_in + i / 8, row + i / 8, end - i, l1, keep, j, n_ignored);
            if (s.block && (end == to || end % s.block == 0)) {
                float scale = scale_from(&sum, 1, a->live[first_scale + k], l1);
                a->u_scale[first_scale + k] = scale;
                put_scale(row, s, k, scale);
                sum = 0;
            }
        }
        if (keep) put_back(p, a->base + start + part, a->base + start + part_to, g, room);
    }
    return sum;
}

static void task(const void *context, int64_t b) {
    const call *k = context;
    const arguments *a = k->a;
    const sizes s = a->sizes;
    int64_t per_chunk = tasks_in(s, s.chunk), c = b / per_chunk, from = b % per_chunk * task_width(s), n_ignored = 0;
    int64_t to = least(least(from + task_width(s), s.chunk), s.dim - c * s.chunk);
    double sum = 0;
    job j = k->j;
    // One copy of the loop for each case, with the choices resolved at compile time.
#define RUN(TYPE, FIRST, L1, KEEP, UPDATE)                                                                         \
    if (a->type == TYPE && a->first == FIRST && a->l1 == L1 && a->keep == KEEP && k->j.update == UPDATE) {         \
        j.type = TYPE, j.first = FIRST, j.update = UPDATE;                                                         \
        sum = run(a, j, c, from, to, L1, KEEP, &n_ignored);                                                        \
    }
#define RUN_FIRST(TYPE, KEEP, U) \
    RUN(TYPE, 0, 0, KEEP, U) RUN(TYPE, 0, 1, KEEP, U) RUN(TYPE, 1, 0, KEEP, U) RUN(TYPE, 1, 1, KEEP, U)
#define RUN_ALL(TYPE, KEEP) RUN_FIRST(TYPE, KEEP, 0) RUN_FIRST(TYPE, KEEP, 1 + F32) RUN_FIRST(TYPE, KEEP, 1 + BF16)
    RUN_ALL(F32, 0) RUN_ALL(F32, 1) RUN_ALL(BF16, 0) RUN_ALL(F16, 0)
#undef RUN_ALL
#undef RUN_FIRST
#undef RUN
    if (!s.block) k->partials[b] = sum;
    __atomic_fetch_add(a->ignored, n_ignored, __ATOMIC_RELAXED);
}

static void compress(const arguments *a, int threads) {
    if (is_skipped(a->step)) return;
    double few[FEW];
    const sizes s = a->sizes;
    int64_t n_tasks = s.n_chunks * tasks_in(s, s.chunk);
    job j = {a->step[GRADIENT_FACTOR], a->beta, a->complement, 0, 0, a->type, a->first, a->p ? 1 + a->p_type : 0};
    call k = {a, j, a->partials ? a->partials : few};
    run_blocks(task, &k, n_tasks, threads_for(s.dim, threads));
    if (s.block) return;
    int64_t all_live = 0;
    for (int64_t c = 0; c < s.n_chunks; c++) all_live += a->live[c];
    *a->u_scale = scale_from(k.partials, n_tasks, all_live, a->l1);
    for (int64_t c = 0; c < s.n_chunks; c++) put_scale(a->message + c * s.row_stride, s, 0, *a->u_scale);
}

API void onebit_compress(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) compress(a + i, threads);
}
