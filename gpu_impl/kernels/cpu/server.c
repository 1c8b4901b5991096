// The server of one chunk: w <- (1/N) sum_i s_i q_i + (w - S sign(w)), its signs, and its norm.

#include "vector.h"

#define GROUP 4  // vectors that are summed together: independent chains of additions

typedef struct {
    int64_t n_workers, row_stride;
    int own_scales;              // of this block [C13]: at byte ``scale_place`` of each row; else in
    const float *signed_scales;  // 2 LANES floats a worker, for a vector of -s_i and one of +s_i
    int64_t scale_place;
} messages;

// Sum of s_i q_i over the workers, in their order, for GROUP vectors that begin at byte ``at`` of each row. Behind the
// end of a chunk there is the padding of its row, so bits may be read there.
INLINE void sum_messages(const uint8_t *received, int64_t at, messages m, floats sum[GROUP]) {
    for (int k = 0; k < GROUP; k++) sum[k] = all(0);
    for (int64_t i = 0; i < m.n_workers; i++) {
        const uint8_t *bits = received + i * m.row_stride + at;
        floats minus, plus;
        if (!m.own_scales) {
            minus = load(m.signed_scales + 2 * LANES * i), plus = load(m.signed_scales + 2 * LANES * i + LANES);
        } else {
            float s;
            memcpy(&s, received + i * m.row_stride + m.scale_place, sizeof s);
            minus = all(-s), plus = all(s);
        }
        for (int k = 0; k < GROUP; k++) sum[k] += select_by(load_bits(bits + k * LANES / 8), plus, minus);
    }
}

typedef struct {
    float n_workers, inverse, old_scale;
    int exact_inverse, l1;  // for N a power of two a product with 1/N is the quotient, and cheaper
} job;

INLINE floats new_w(floats sum, floats w, job j) {
    floats mean = j.exact_inverse ? sum * j.inverse : sum / j.n_workers;
    floats error = w - spread(signs(w), j.old_scale);
    floats new = mean + error;  // never -0.0, for error is not
    return any_marked(w) ? marked_where(is_marked(w), new) : new;
}

// GROUP vectors of w, in place, and their signs.
INLINE void group(const floats sum[GROUP], float *w, bits_t bits[GROUP], sums_t *sums, job j) {
    for (int k = 0; k < GROUP; k++) {
        floats w_new = new_w(sum[k], load(w + k * LANES), j);
        store(w + k * LANES, w_new);
        bits[k] = signs(w_new);
        add_norm(sums, w_new, j.l1);
    }
}

INLINE double block(const uint8_t *received, float *w, uint8_t *reply, int64_t i, int64_t to, messages m, job j) {
    const int64_t width = GROUP * LANES;
    sums_t sums = {0};
    floats sum[GROUP];
    bits_t bits[GROUP];
    for (; i + width <= to; i += width) {
        sum_messages(received, i / 8, m, sum);
        group(sum, w + i, bits, &sums, j);
        memcpy(reply + i / 8, bits, sizeof bits);
    }
    if (i < to) {  // the tail of the chunk: padding is dead, so it adds nothing; its bits are sent as 0
        size_t n = (size_t)(to - i), n_bytes = (n + 7) / 8;
        float padded[GROUP * LANES];
        for (int k = 0; k < GROUP; k++) store(padded + k * LANES, (floats)((ints){0} + MARK));
        memcpy(padded, w + i, n * 4);
        sum_messages(received, i / 8, m, sum);
        group(sum, padded, bits, &sums, j);
        memcpy(w + i, padded, n * 4);
        if (n % 8) ((uint8_t *)bits)[n / 8] &= (uint8_t)((1u << n % 8) - 1);
        memcpy(reply + i / 8, bits, n_bytes);
    }
    return total(sums);
}

typedef struct {  // as in server.py
    float *w, *w_scale;
    const int64_t *live;
    const uint8_t *received;
    uint8_t *reply;
    int64_t dim, n_workers;  // dim: elements of this chunk
    sizes sizes;
    const float *step;
    double *partials;      // where all share a scale, one a task, or 0 for at most FEW
    float *signed_scales;  // and 2 LANES floats a worker, or 0 for at most FEW
    int l1;
} arguments;

RECORD_OF(onebit_server);

typedef struct {
    const arguments *a;
    const float *signed_scales;
    job j;
    double *partials;
} call;

// Elements [from, to): writes the scales of their blocks, if they have some, or returns the sum.
INLINE double run(const arguments *a, const float *signed_scales, int64_t from, int64_t to, int own_scales, job j) {
    const sizes s = a->sizes;
    double sum = 0;
    for (int64_t i = from, end; i < to; i = end) {
        int64_t k = block_at(s, i);
        end = least(block_end(s, k), to);
        j.old_scale = a->w_scale[k];
        messages m = {a->n_workers, s.row_stride, own_scales, signed_scales, scale_place(s, k)};
        sum += block(a->received, a->w, a->reply, i, end, m, j);
        if (own_scales) {  // a task has whole blocks
            a->w_scale[k] = scale_from(&sum, 1, a->live[k], j.l1);
            put_scale(a->reply, s, k, a->w_scale[k]);
            sum = 0;
        }
    }
    return sum;
}

static void task(const void *context, int64_t b) {
    const call *k = context;
    const arguments *a = k->a;
    int64_t from = b * task_width(a->sizes), to = least(from + task_width(a->sizes), a->dim);
    double sum = 0;
    job j = k->j;
#define RUN(EXACT, L1, OWN)                                                               \
    if (k->j.exact_inverse == EXACT && k->j.l1 == L1 && (a->sizes.block != 0) == OWN) {   \
        j.exact_inverse = EXACT, j.l1 = L1;                                               \
        sum = run(a, k->signed_scales, from, to, OWN, j);                                 \
    }
    RUN(0, 0, 0) RUN(0, 1, 0) RUN(1, 0, 0) RUN(1, 1, 0) RUN(0, 0, 1) RUN(0, 1, 1) RUN(1, 0, 1) RUN(1, 1, 1)
#undef RUN
    if (!a->sizes.block) k->partials[b] = sum;
}

static void serve(const arguments *a, int threads) {
    if (is_skipped(a->step)) return;
    double few[FEW];
    float few_scales[2 * LANES * FEW], *signed_scales = a->signed_scales ? a->signed_scales : few_scales;
    const sizes s = a->sizes;
    int64_t n = a->n_workers, n_tasks = tasks_in(s, a->dim);
    for (int64_t i = 0; i < n && !s.block; i++) {
        float scale = scale_in(a->received + i * s.row_stride, s, 0);
        store(signed_scales + 2 * LANES * i, all(-scale));
        store(signed_scales + 2 * LANES * i + LANES, all(scale));
    }
    job j = {(float)n, 1.0f / (float)n, 0, (n & (n - 1)) == 0, a->l1};
    call k = {a, signed_scales, j, a->partials ? a->partials : few};
    run_blocks(task, &k, n_tasks, threads_for(a->dim, threads));
    if (s.block) return;
    *a->w_scale = scale_from(k.partials, n_tasks, *a->live, a->l1);
    put_scale(a->reply, s, 0, *a->w_scale);
}

API void onebit_server(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) serve(a + i, threads);
}
