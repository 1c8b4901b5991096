// pack: bits <- values >= 0 [C2, C4].   unpack: values <- +s or -s.

#include "vector.h"

INLINE void pack_block(const void *values, uint8_t *bits, int64_t from, int64_t to, int type) {
    int64_t i = from;
    for (; i + LANES <= to; i += LANES) store_bits(bits + i / 8, signs(load_as(values, i, type)));
    if (i < to) {
        char tail[4 * LANES] = {0};
        memcpy(tail, (const char *)values + i * size_of(type), (size_t)((to - i) * size_of(type)));
        bits_t last = signs(load_as(tail, 0, type)) & (bits_t)((1u << (to - i)) - 1);
        memcpy(bits + i / 8, &last, (size_t)((to - i + 7) / 8));
    }
}

API void onebit_pack(const void *values, uint8_t *bits, int64_t dim, int type, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < blocks_of(dim); b++) {
        int64_t from = b * BLOCK, to = least(from + BLOCK, dim);
        if (type == F32) pack_block(values, bits, from, to, F32);
        else if (type == BF16) pack_block(values, bits, from, to, BF16);
        else pack_block(values, bits, from, to, F16);
    }
}

API void onebit_unpack(const uint8_t *bits, const float *scale, float *values, int64_t dim, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < blocks_of(dim); b++) {
        int64_t i = b * BLOCK, to = least(i + BLOCK, dim);
        for (; i + LANES <= to; i += LANES) store(values + i, spread(load_bits(bits + i / 8), *scale));
        for (; i < to; i++) values[i] = bits[i / 8] >> (i % 8) & 1 ? *scale : -*scale;
    }
}
