"""What the Triton kernels share: offsets in 64 bits, signs as bits, the mark of dead coordinates, launch options.

A kernel of the tuned rung works on (ROWS, 32) elements at a time: a row is one 32-bit word of a message, so that a
word is loaded once for 32 elements and packed by one sum along the row. Program (p, j) works on span p of chunk j, so
that no block lies in two chunks and no offset needs a division. Its pointers are moved to the start of the span.

x is called ``parameters`` in them: Triton's launcher has a variable ``params`` of its own, and hands that over in place
of an argument of the name.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# positions in the tensor of step scalars, as in step_scalars.py
LR: tl.constexpr = tl.constexpr(0)
WEIGHT_DECAY: tl.constexpr = tl.constexpr(1)
MOMENTUM_CORRECTION: tl.constexpr = tl.constexpr(2)
VARIANCE_CORRECTION: tl.constexpr = tl.constexpr(3)
GRADIENT_FACTOR: tl.constexpr = tl.constexpr(4)

MARK: tl.constexpr = tl.constexpr(-(2**31))  # the bit pattern of -0.0

ROWS, TILES = 16, 8
SPAN = ROWS * 32 * TILES
"""Elements of one program and of one partial sum: fixed, so that sums repeat bitwise on every device."""

TOGETHER = 8
"""Messages whose words are asked for together: the sum waits for one answer in place of eight."""

LAYOUT = (
    *("chunk8", "row_words", "stride_words", "n_workers", "n_scales", "stride_units", "row_floats", "stride_floats"),
    *("n_partials", "n_counts", "n_rows"),
)
"""Integers that a kernel is not compiled anew for, where they are 1 or multiples of 16: nothing is faster for it."""

LAUNCH: dict[str, Any] = {"num_warps": 4, "enable_fp_fusion": False}
"""Without fusion a product and a sum stay two roundings, as in NumPy."""


@triton.jit
def span_of(p, SPAN: tl.constexpr):
    """First element of span ``p``: in 64 bits, for buffers have more than 2^31 elements."""
    return p.to(tl.int64) * SPAN


@triton.jit
def chunk_start(j, chunk8):
    """First element of chunk ``j`` of ``8 * chunk8`` elements; written so, the compiler knows it is aligned."""
    return j.to(tl.int64) * chunk8 * 8


@triton.jit
def span_length(dim, begin, SPAN: tl.constexpr):
    """Elements of the span behind element ``begin`` of ``dim``. Inside a span 32 bits do, and save registers."""
    return tl.maximum(tl.minimum(dim - begin, SPAN), 0).to(tl.int32)


@triton.jit
def tile_of(k, ROWS: tl.constexpr):
    """Words (ROWS,) and elements (ROWS, 32) of tile ``k`` of a span, counted from its start."""
    word = k * ROWS + tl.arange(0, ROWS)
    return word, word[:, None] * 32 + tl.arange(0, 32)[None, :]


@triton.jit
def as_float32(values):
    """Exact. bfloat16 is the upper half of float32; the interpreter's own conversion loses its subnormals."""
    if values.dtype == tl.bfloat16:
        wide = (values.to(tl.int16, bitcast=True).to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:
        wide = values.to(tl.float32)
    return wide


@triton.jit
def rounded_to(values, dtype: tl.constexpr):
    """float32 to the nearest, ties to even, NaN to NaN. bfloat16 by bits: the interpreter would cut it off."""
    if dtype == tl.bfloat16:
        bits = values.to(tl.int32, bitcast=True)
        upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        result = tl.where(values == values, upper, 0x7FC0).to(tl.int16).to(tl.bfloat16, bitcast=True)  # noqa: PLR0124
    else:
        result = values.to(dtype)
    return result


@triton.jit
def load_elements(pointer, at, n, other, MASKED: tl.constexpr):
    """Elements as float32. Whole tiles are read without a mask, so that loads are 16 bytes wide."""
    if MASKED:  # noqa: SIM108 - of an if, Triton compiles one branch only
        values = tl.load(pointer + at, mask=at < n, other=other)
    else:
        values = tl.load(pointer + at)
    return as_float32(values)


@triton.jit
def store_elements(pointer, at, n, values, MASKED: tl.constexpr):
    """Store, rounded to nearest even."""
    values = rounded_to(values, pointer.dtype.element_ty)
    if MASKED:
        tl.store(pointer + at, values, mask=at < n)
    else:
        tl.store(pointer + at, values)


@triton.jit
def zeros_in_place_of(values, at):
    """Zeros for a sum over messages, in the threads that ``values`` are read by. Plain zeros would be spread as the
    messages' words are, one element a thread, and every sum moved between threads at its end.
    """
    return tl.where(at < 0, values, 0.0)


@triton.jit
def load_params(parameters, copy, at, n, COPY: tl.constexpr, MASKED: tl.constexpr):
    """x; of a model of 16 bits what ``copy`` holds, where somebody has changed it since x was rounded to it."""
    x = load_elements(parameters, at, n, 0.0, MASKED)
    if COPY:
        seen = load_elements(copy, at, n, 0.0, MASKED)
        x = tl.where(as_float32(rounded_to(x, copy.dtype.element_ty)) == seen, x, seen)
    return x


@triton.jit
def load_words(pointer, word, n, MASKED: tl.constexpr):
    """Words of a message whose chunk has ``n`` elements."""
    if MASKED:  # noqa: SIM108
        words = tl.load(pointer + word, mask=word * 32 < n, other=0)
    else:
        words = tl.load(pointer + word)
    return words


@triton.jit
def store_signs(pointer, word, at, n, values, MASKED: tl.constexpr):
    """The bits ``values >= 0`` as words, 0 behind the end of the chunk [C2, C4]."""
    one = values >= 0
    if MASKED:
        one = one & (at < n)
    bit = tl.full([1, 32], 1, tl.int32) << tl.arange(0, 32)[None, :]
    words = tl.sum(tl.where(one, bit, 0), axis=1)
    if MASKED:
        tl.store(pointer + word, words, mask=word * 32 < n)
    else:
        tl.store(pointer + word, words)


@triton.jit
def is_one(words, lane):
    """Whether bit ``lane`` of a word is 1. Cut so, a thread that has four neighbours shifts once for all of them."""
    return ((words >> (lane & 28)) & (1 << (lane & 3))) != 0


@triton.jit
def spread(words, scale):
    """+scale where the bit is 1, -scale where it is 0, (ROWS, 32)."""
    return tl.where(is_one(words[:, None], tl.arange(0, 32)[None, :]), scale, -scale)


@triton.jit
def mean_of(total, n_workers, EXACT: tl.constexpr):
    """total / N, correctly rounded. EXACT: N is a power of two, so times 1/N is the same, in a third of the time."""
    number = tl.cast(n_workers, tl.float32)
    if EXACT:  # noqa: SIM108
        mean = total * tl.div_rn(1.0, number)
    else:
        mean = tl.div_rn(total, tl.zeros_like(total) + number)
    return mean


@triton.jit
def is_marked(values):
    """Dead coordinates: exactly -0.0 [C6]."""
    return values.to(tl.int32, bitcast=True) == MARK


@triton.jit
def is_dead(values, at, n, MASKED: tl.constexpr):
    """Marked, or behind the end of the chunk: padding then stays zero and adds nothing to a norm."""
    dead = is_marked(values)
    if MASKED:
        dead = dead | (at >= n)
    return dead


@triton.jit
def error_of(values, scale):
    """u - s sign(u)."""
    return values - tl.where(values >= 0, scale, -scale)


@triton.jit
def marked_where(dead, values):
    """-0.0 where ``dead``, else ``values``. By bits, for Triton turns a constant -0.0 into +0.0."""
    return tl.where(dead, MARK, values.to(tl.int32, bitcast=True)).to(tl.float32, bitcast=True)


@triton.jit
def norm_terms(values, L1: tl.constexpr):
    """What is summed for the scale, in float64 [C1]."""
    wide = values.to(tl.float64)
    if L1:  # noqa: SIM108
        terms = tl.abs(wide)
    else:
        terms = wide * wide
    return terms
