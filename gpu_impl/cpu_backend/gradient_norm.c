// The sum of squares of a gradient: NaN or Inf if one of its elements is.

#include "vector.h"

INLINE double block(const void *grad, int64_t from, int64_t to, int type) {
    double sums[8] = {0};
    for (int64_t i = from; i < to; i += TILE) {
        int64_t n = least(TILE, to - i), whole = n - n % LANES;
        if (type == F32) {
            add_norm((const float *)grad + i, whole, 0, sums);
        } else {
            float tile[TILE];
            for (int64_t k = 0; k < whole; k += LANES) store(tile + k, load_as(grad, i + k, type));
            add_norm(tile, whole, 0, sums);
        }
        if (whole < n) {
            char tail[4 * LANES] = {0};
            float padded[LANES];
            memcpy(tail, (const char *)grad + (i + whole) * size_of(type), (size_t)((n - whole) * size_of(type)));
            store(padded, load_as(tail, 0, type));
            add_norm(padded, LANES, 0, sums);
        }
    }
    return total(sums);
}

API void onebit_gradient_norm(const void *grad, int type, double *norm, int64_t dim, double *partials, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < blocks_of(dim); b++) {
        int64_t from = b * BLOCK, to = least(from + BLOCK, dim);
        partials[b] = type == F32 ? block(grad, from, to, F32) : type == BF16 ? block(grad, from, to, BF16)
                                                                              : block(grad, from, to, F16);
    }
    double sum = 0;
    for (int64_t b = 0; b < blocks_of(dim); b++) sum += partials[b];
    *norm = sum;
}
