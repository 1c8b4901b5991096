"""A kernel that stores the offsets that all tuned kernels use; Triton needs it at the top of a module."""

import triton
import triton.language as tl

from gpu_impl.kernels.triton_.elements import chunk_start, span_length, span_of, tile_of


@triton.jit
def offsets(out, p, j, chunk8, ROWS: tl.constexpr, TILES: tl.constexpr):
    """Elements of the last tile of span ``p`` of chunk ``j``; the arguments are 32 bits wide, as program ids are."""
    begin = span_of(tl.cast(p, tl.int32), ROWS * 32 * TILES)
    _, at = tile_of(TILES - 1, ROWS)
    place = tl.arange(0, ROWS)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(out + place, chunk_start(tl.cast(j, tl.int32), tl.cast(chunk8, tl.int32)) + begin + at)


@triton.jit
def lengths(out, dim, p, SPAN: tl.constexpr):
    """Elements of span ``p`` of ``dim``."""
    tl.store(out, span_length(tl.cast(dim, tl.int64), span_of(tl.cast(p, tl.int32), SPAN), SPAN))
