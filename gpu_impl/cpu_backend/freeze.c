// After the last warm-up step: v becomes P and m becomes u, in place; dead coordinates are marked in both.

#include "vector.h"

// partials: one double, then one count, for each block of each chunk.
API void onebit_freeze(float *m, float *v, int64_t *live, int64_t dim, int64_t chunk, int64_t n_chunks, float eps,
                       double variance_floor, float correction, double *partials, int64_t *counts, int threads) {
    int64_t per_chunk = blocks_of(chunk), n_blocks = n_chunks * per_chunk;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t start = b / per_chunk * chunk, from = b % per_chunk * BLOCK;
        int64_t to = least(least(from + BLOCK, chunk), dim - start), count = 0;
        double sum = 0;
        for (int64_t i = start + from; i < start + to; i++) sum += v[i], count += v[i] > 0;
        partials[b] = sum, counts[b] = count;
    }
    double sum = 0;
    int64_t n_live = 0;
    memset(live, 0, (size_t)n_chunks * sizeof *live);
    for (int64_t b = 0; b < n_blocks; b++) sum += partials[b], n_live += counts[b], live[b / per_chunk] += counts[b];
    float floor = (float)(variance_floor * (sum / (double)(n_live > 0 ? n_live : 1)));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < blocks_of(dim); b++)
        for (int64_t i = b * BLOCK; i < least((b + 1) * BLOCK, dim); i++) {
            int alive = v[i] > 0;
            float floored = v[i] > floor ? v[i] : floor;
            m[i] = alive ? m[i] + 0.0f : -0.0f;
            v[i] = alive ? 1.0f / (sqrtf(floored / correction) + eps) : -0.0f;
        }
}
