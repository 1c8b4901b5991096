// The server of one chunk: w <- (1/N) sum_i s_i q_i + (w - S sign(w)), its signs, and its norm.

#include "vector.h"

#define GROUP 4  // vectors that are summed together: one load of 4 bits_t a worker, and 4 independent chains of additions

// Sum of s_i q_i over the workers, in their order, for GROUP vectors that begin at byte ``at`` of each row.
INLINE void sum_messages(const uint8_t *received, int64_t at, size_t n_bytes, int64_t n_workers, int64_t row_bytes,
                         const float *scales, floats sum[GROUP]) {
    for (int k = 0; k < GROUP; k++) sum[k] = all(0);
    for (int64_t i = 0; i < n_workers; i++) {
        bits_t bits[GROUP] = {0};
        memcpy(bits, received + i * row_bytes + at, n_bytes);
        for (int k = 0; k < GROUP; k++) sum[k] += spread(bits[k], scales[i]);
    }
}

INLINE floats new_w(floats sum, float n_workers, floats w, float old_scale) {
    floats error = w - spread(signs(w), old_scale);
    return marked_where(is_marked(w), (sum / n_workers + error) + 0.0f);
}

// GROUP vectors of w, in place, and their signs.
INLINE void group(const floats sum[GROUP], float *w, bits_t bits[GROUP], float n_workers, float old_scale) {
    for (int k = 0; k < GROUP; k++) {
        floats w_new = new_w(sum[k], n_workers, load(w + k * LANES), old_scale);
        store(w + k * LANES, w_new);
        bits[k] = signs(w_new);
    }
}

INLINE double block(const uint8_t *received, float *w, uint8_t *reply, int64_t from, int64_t to, int64_t n_workers,
                    int64_t row_bytes, const float *scales, float old_scale, int l1) {
    const int64_t width = GROUP * LANES;
    double sums[8] = {0};
    floats sum[GROUP];
    bits_t bits[GROUP];
    for (int64_t tile = from; tile < to; tile += TILE) {
        int64_t i = tile, end = least(tile + TILE, to);
        for (; i + width <= end; i += width) {
            sum_messages(received, i / 8, sizeof bits, n_workers, row_bytes, scales, sum);
            group(sum, w + i, bits, (float)n_workers, old_scale);
            memcpy(reply + i / 8, bits, sizeof bits);
        }
        add_norm(w + tile, i - tile, l1, sums);
        if (i < end) {  // the tail of the chunk: padding is dead, so it adds nothing; its bits are sent as 0
            size_t n = (size_t)(end - i), n_bytes = (n + 7) / 8;
            float padded[GROUP * LANES];
            for (int k = 0; k < GROUP; k++) store(padded + k * LANES, (floats)((ints){0} + MARK));
            memcpy(padded, w + i, n * 4);
            sum_messages(received, i / 8, n_bytes, n_workers, row_bytes, scales, sum);
            group(sum, padded, bits, (float)n_workers, old_scale);
            add_norm(padded, width, l1, sums);
            memcpy(w + i, padded, n * 4);
            if (n % 8) ((uint8_t *)bits)[n / 8] &= (uint8_t)((1u << n % 8) - 1);
            memcpy(reply + i / 8, bits, n_bytes);
        }
    }
    return total(sums);
}

// partials: one double a block, then one float a worker.
API void onebit_server(const uint8_t *received, float *w, float *w_scale, uint8_t *reply, const int64_t *live,
                       const float *step, int64_t dim, int64_t n_workers, int64_t row_bytes, int l1, double *partials,
                       float *scales, int threads) {
    if (is_skipped(step)) return;
    for (int64_t i = 0; i < n_workers; i++) scales[i] = scale_in(received + i * row_bytes, row_bytes);
    float old_scale = *w_scale;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < blocks_of(dim); b++) {
        int64_t from = b * BLOCK, to = least(from + BLOCK, dim);
        partials[b] = block(received, w, reply, from, to, n_workers, row_bytes, scales, old_scale, l1);
    }
    *w_scale = scale_from(partials, blocks_of(dim), *live, l1);
    put_scale(reply, row_bytes, *w_scale);
}
