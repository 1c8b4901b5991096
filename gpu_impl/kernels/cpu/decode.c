// m-bar in floats, where the gradient lies: S_j Q_j, and 0 where P is 0 or marked. For those who want to see it.

#include "pieces.h"

typedef struct {  // as in decode.py
    const piece *values;
    int64_t n_pieces, base;  // as in compress.c
    int type;
    const void *p;  // 0: nothing is dead
    int p_type;     // F32 or BF16 [C14]
    const uint8_t *shared;
    sizes sizes;
} arguments;

RECORD_OF(onebit_decode);

// Past the caches: nobody reads it soon, and a line that is written whole need not be read first.
#if defined(__AVX__)
INLINE void stream(float *to, floats v) {
    __m256 parts[LANES / 8];
    memcpy(parts, &v, sizeof v);
    for (int k = 0; k < LANES / 8; k++) _mm256_stream_ps(to + 8 * k, parts[k]);
}
#define STREAMS 1
#else
INLINE void stream(float *to, floats v) { store(to, v); }
#define STREAMS 0
#endif

INLINE void block(void *values, const void *p, int p_type, const uint8_t *row, int64_t i, int64_t to, float scale,
                  int type, int streams) {
    for (; i + LANES <= to; i += LANES) {
        floats v = spread(load_bits(row + i / 8), scale);
        if (p) v = choose(load_as(p, i, p_type) == 0, all(0), v);
        if (streams) stream((float *)values + i, v);
        else store_as(values, i, v, type);
    }
    if (i < to) {
        size_t n = (size_t)(to - i), width = (size_t)size_of(type);
        char tail[4 * LANES];
        bits_t bits = 0;
        memcpy(&bits, row + i / 8, (n + 7) / 8);
        floats v = spread(bits, scale);
        if (p) {
            char p_tail[4 * LANES] = {0};
            copy_tail(p_tail, p, i, n, p_type);
            v = choose(load_as(p_tail, 0, p_type) == 0, all(0), v);
        }
        store_as(tail, 0, v, type);
        memcpy((char *)values + (size_t)i * width, tail, n * width);
    }
}

// Elements [from, to) of a row; ``values`` and ``p`` begin at the first.
INLINE void run(void *values, const void *p, int p_type, const uint8_t *row, sizes s, int64_t from, int64_t to,
                int type, int streams) {
    for (int64_t i = from, end; i < to; i = end) {
        int64_t k = block_at(s, i);
        end = least(block_end(s, k), to);
        block(values, p, p_type, row + from / 8, i - from, end - from, scale_in(row, s, k), type, streams);
    }
}

static void task(const void *context, int64_t b) {
    const arguments *a = context;
    const sizes s = a->sizes;
    int64_t per_chunk = blocks_of(s.chunk), c = b / per_chunk, from = b % per_chunk * BLOCK, start = c * s.chunk;
    int64_t to = least(least(from + BLOCK, s.chunk), s.dim - start);
    if (from >= to) return;
    char room[4 * BLOCK], *here;
    pieces p = {a->values, a->n_pieces, a->type};
    here = in_one_piece(p, a->base + start + from, a->base + start + to);
    if (!here) here = room;
    const uint8_t *row = a->shared + c * s.row_stride;
    const void *p_part = a->p ? element(a->p, start + from, a->p_type) : 0;
    int streams = STREAMS && a->type == F32 && here != room && (uintptr_t)here % 32 == 0;
    // One copy of the loop for each case, with the choices resolved at compile time.
#define RUN(TYPE, STREAM)                                                               \
    if (a->type == TYPE && streams == STREAM) {                                         \
        if (!p_part) run(here, 0, F32, row, s, from, to, TYPE, STREAM);                 \
        else if (a->p_type == F32) run(here, p_part, F32, row, s, from, to, TYPE, STREAM); \
        else run(here, p_part, BF16, row, s, from, to, TYPE, STREAM);                   \
    }
    RUN(F32, 0) RUN(F32, 1) RUN(BF16, 0) RUN(F16, 0)
#undef RUN
#if STREAMS
    _mm_sfence();
#endif
    put_back(p, a->base + start + from, a->base + start + to, here, room);
}

API void onebit_decode(const arguments *a, int64_t n, int threads) {
    for (int64_t i = 0; i < n; i++) {
        run_blocks(task, a + i, a[i].sizes.n_chunks * blocks_of(a[i].sizes.chunk), threads_for(a[i].sizes.dim, threads));
    }
}
