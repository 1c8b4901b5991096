// Vectors of LANES floats, signs as bits, and the number formats: all that the kernels share.
//
// The vector extensions of GCC and Clang give arithmetic on every instruction set; only turning a comparison into bits
// and converting half precision are spelled out where the hardware has an instruction for it. Build flags switch the
// contraction to fused multiply-adds off, so that each operation is one rounding, as in NumPy.

#pragma once
#include "pool.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define LANES 16
typedef uint16_t bits_t;
#else
#define LANES 8
typedef uint8_t bits_t;
#endif

#define FEW 64       // partial sums that fit on the stack: then the caller gives no memory for them
#define BLOCK 16384  // elements of one task and of one partial sum: fixed, so that sums don't depend on the threads
#define API __attribute__((visibility("default")))

// The bytes of a kernel's record of arguments, for call.py: a record that differs there would be read beyond its end.
#define RECORD_OF(kernel) API const int64_t kernel##_record = sizeof(arguments)
#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
enum { F32, BF16, F16 };                                                  // as in build.py
enum { LR, WEIGHT_DECAY, MOMENTUM_CORRECTION, VARIANCE_CORRECTION, GRADIENT_FACTOR };  // as in step_scalars.py

#define MARK INT32_MIN  // the bit pattern of -0.0: a dead coordinate

INLINE int is_skipped(const float *step) { return isnan(step[GRADIENT_FACTOR]); }
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

// No thread for less than two blocks.
INLINE int threads_for(int64_t dim, int most) {
    return dim < 4 * BLOCK ? 1 : (int)(least(most, dim / (2 * BLOCK)) > 1 ? least(most, dim / (2 * BLOCK)) : 1);
}

INLINE floats load(const float *from) {
    floats v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, floats v) { memcpy(to, &v, sizeof v); }
INLINE ints as_ints(floats v) { return (ints)v; }
INLINE floats all(float x) { return x - (floats){0}; }  // keeps the sign of -0.0
INLINE floats choose(ints where, floats a, floats b) { return (floats)((as_ints(a) & where) | (as_ints(b) & ~where)); }
INLINE ints is_marked(floats v) { return as_ints(v) == MARK; }
INLINE int count(ints where) {
    int n = 0;
    for (int k = 0; k < LANES; k++) n -= where[k];
    return n;
}

INLINE floats marked_where(ints dead, floats v) { return (floats)((as_ints(v) & ~dead) | (dead & MARK)); }

// Whether a lane is marked. Dead coordinates are few and lie together, so that a branch is cheaper than masking.
INLINE int any_marked(floats v) {
#if LANES == 16
    return _mm512_cmpeq_epi32_mask((__m512i)v, _mm512_set1_epi32(MARK)) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_epi8((__m256i)is_marked(v)) != 0;
#else
    ints dead = is_marked(v);
    int any = 0;
    for (int k = 0; k < LANES; k++) any |= dead[k];
    return any != 0;
#endif
}

INLINE floats root(floats v) {
#if LANES == 16
    return (floats)_mm512_sqrt_ps((__m512)v);
#elif defined(__AVX__)
    return (floats)_mm256_sqrt_ps((__m256)v);
#else
    for (int k = 0; k < LANES; k++) v[k] = sqrtf(v[k]);
    return v;
#endif
}

// Bit k: v[k] >= 0. So both zeros are 1 [C2] and NaN is 0.
INLINE bits_t signs(floats v) {
#if LANES == 16
    return _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_GE_OQ);
#elif defined(__AVX__)
    return (bits_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_setzero_ps(), _CMP_GE_OQ));
#else
    bits_t bits = 0;
    for (int k = 0; k < LANES; k++) bits |= (bits_t)((v[k] >= 0) << k);
    return bits;
#endif
}

// a where the bit is 1, b where it is 0.
INLINE floats select_by(bits_t bits, floats a, floats b) {
#if LANES == 16
    return (floats)_mm512_mask_blend_ps(bits, (__m512)b, (__m512)a);
#else
    const ints lane = {1, 2, 4, 8, 16, 32, 64, 128};
    return choose((((ints){0} + bits) & lane) != 0, a, b);
#endif
}

// +s where the bit is 1, -s where it is 0.
INLINE floats spread(bits_t bits, float s) { return select_by(bits, all(s), all(-s)); }

INLINE bits_t load_bits(const uint8_t *from) {
    bits_t bits;
    memcpy(&bits, from, sizeof bits);
    return bits;
}

INLINE void store_bits(uint8_t *to, bits_t bits) { memcpy(to, &bits, sizeof bits); }

// A buffer and its messages, as in state.py. block: elements that share a scale [C13], or 0: those of a chunk do.
typedef struct {
    int64_t dim, chunk, row_bytes, row_stride, n_chunks, block;
} sizes;

INLINE int64_t scales_in_row(sizes s) { return s.block ? (s.chunk + s.block - 1) / s.block : 1; }
INLINE int64_t block_at(sizes s, int64_t i) { return s.block ? i / s.block : 0; }
INLINE int64_t block_end(sizes s, int64_t k) { return s.block ? least((k + 1) * s.block, s.chunk) : s.chunk; }

// Elements of one task that sums: whole blocks, if they have scales of their own.
INLINE int64_t task_width(sizes s) { return !s.block ? BLOCK : s.block > BLOCK ? s.block : BLOCK / s.block * s.block; }
INLINE int64_t tasks_in(sizes s, int64_t n) { return (n + task_width(s) - 1) / task_width(s); }

// Where scale k of a row is.
INLINE int64_t scale_place(sizes s, int64_t k) { return s.row_bytes - 4 * (scales_in_row(s) - k); }

INLINE float scale_in(const uint8_t *row, sizes s, int64_t k) {
    float scale;
    memcpy(&scale, row + scale_place(s, k), sizeof scale);
    return scale;
}

INLINE void put_scale(uint8_t *row, sizes s, int64_t k, float scale) {
    memcpy(row + scale_place(s, k), &scale, sizeof scale);
}

INLINE int size_of(int type) { return type == F32 ? 4 : 2; }

// Element i of an array.
INLINE const void *element(const void *from, int64_t i, int type) { return (const char *)from + i * size_of(type); }

// Elements [i, i + n), n < LANES, to the start of ``to``.
INLINE void copy_tail(void *to, const void *from, int64_t i, size_t n, int type) {
    memcpy(to, element(from, i, type), n * (size_t)size_of(type));
}

INLINE floats load_as(const void *from, int64_t i, int type) {
    if (type == F32) return load((const float *)from + i);
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    halves h;
    memcpy(&h, (const uint16_t *)from + i, sizeof h);
    if (type == BF16) return (floats)(__builtin_convertvector(h, ints) << 16);
#if LANES == 16
    return (floats)_mm512_cvtph_ps((__m256i)h);
#elif defined(__F16C__)
    return (floats)_mm256_cvtph_ps((__m128i)h);
#else
    floats v;
    for (int k = 0; k < LANES; k++) {
        _Float16 x;
        memcpy(&x, (const uint16_t *)from + i + k, sizeof x);
        v[k] = (float)x;
    }
    return v;
#endif
}

// Round to nearest even. NaN stays NaN.
INLINE void store_as(void *to, int64_t i, floats v, int type) {
    if (type == F32) {
        store((float *)to + i, v);
        return;
    }
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    halves h;
    if (type == BF16) {
        typedef uint32_t words __attribute__((vector_size(4 * LANES)));
        words w = (words)v;
        words rounded = (w + 0x7fff + ((w >> 16) & 1)) >> 16;
        words nan = (words)(v != v);
        h = __builtin_convertvector((rounded & ~nan) | (nan & 0x7fc0), halves);
    } else {
#if LANES == 16
        h = (halves)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__F16C__)
        h = (halves)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
        for (int k = 0; k < LANES; k++) {
            _Float16 x = (_Float16)v[k];
            memcpy((char *)&h + 2 * k, &x, sizeof x);
        }
#endif
    }
    memcpy((uint16_t *)to + i, &h, sizeof h);
}

// The float32 parameters of a 16-bit model: what ``copy`` holds, where somebody has changed it since x was rounded to it.
INLINE floats adopted(floats x, const void *copy, int64_t i, int copy_type) {
    uint16_t rounded[LANES];
    store_as(rounded, 0, x, copy_type);
    floats seen = load_as(copy, i, copy_type);
    return choose(load_as(rounded, 0, copy_type) == seen, x, seen);
}

// Sums in double precision, kept in registers: two accumulators of LANES/2.
typedef double doubles __attribute__((vector_size(4 * LANES)));
typedef float half_floats __attribute__((vector_size(2 * LANES)));
typedef struct {
    doubles low, high;
} sums_t;

INLINE doubles widened(half_floats v) {
#if LANES == 16
    return (doubles)_mm512_cvtps_pd((__m256)v);
#else
    return __builtin_convertvector(v, doubles);
#endif
}

INLINE doubles wide_root(doubles v) {
#if LANES == 16
    return (doubles)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX__)
    return (doubles)_mm256_sqrt_pd((__m256d)v);
#else
    for (int k = 0; k < LANES / 2; k++) v[k] = sqrt(v[k]);
    return v;
#endif
}

// sum + v^2. The square of a float is exact in double precision, so a fused multiply-add gives the same bits.
INLINE doubles plus_square(doubles sum, doubles v) {
#if LANES == 16
    return (doubles)_mm512_fmadd_pd((__m512d)v, (__m512d)v, (__m512d)sum);
#elif defined(__FMA__)
    return (doubles)_mm256_fmadd_pd((__m256d)v, (__m256d)v, (__m256d)sum);
#else
    return sum + v * v;
#endif
}

INLINE doubles plus_magnitude(doubles sum, doubles v) {
    typedef int64_t longs __attribute__((vector_size(4 * LANES)));
    return sum + (doubles)((longs)v & INT64_MAX);
}

// Adds the squares, or the magnitudes, of LANES floats.
INLINE void add_norm(sums_t *sums, floats v, int l1) {
    half_floats half[2];
    memcpy(half, &v, sizeof half);
    doubles low = widened(half[0]), high = widened(half[1]);
    sums->low = l1 ? plus_magnitude(sums->low, low) : plus_square(sums->low, low);
    sums->high = l1 ? plus_magnitude(sums->high, high) : plus_square(sums->high, high);
}

INLINE double total(sums_t sums) {
    doubles both = sums.low + sums.high;
    double sum = 0;
    for (int k = 0; k < LANES / 2; k++) sum += both[k];
    return sum;
}

// The scale [C1] from the partial sums of all blocks, added in the order of the blocks; 0 if nothing is live.
INLINE float scale_from(const double *partials, int64_t n, int64_t live, int l1) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += partials[i];
    double mean = sum / (double)(live > 0 ? live : 1);
    return (float)(l1 ? mean : sqrt(mean));
}
