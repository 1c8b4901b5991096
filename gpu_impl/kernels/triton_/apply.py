"""apply, tuned: whole words of the gathered message, wide loads of P and x."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.state import Exchange
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LAYOUT,
    LR,
    MOMENTUM_CORRECTION,
    ROWS,
    SPAN,
    TILES,
    WEIGHT_DECAY,
    chunk_start,
    is_marked,
    load_elements,
    load_params,
    load_words,
    span_length,
    span_of,
    spread,
    store_elements,
    tile_of,
)
from gpu_impl.kernels.triton_.launch import WORDS, cdiv, launch


@triton.jit
def momentum_scale(scales, correction, begin, word, at, n, SCALE_BLOCK: tl.constexpr):
    """S_j / b1 of a tile: one number, one a word, or one an element, as the blocks are cut [C13]."""
    if SCALE_BLOCK == 0:
        scale = tl.div_rn(tl.load(scales).to(tl.float32, bitcast=True), correction)
    else:
        if SCALE_BLOCK % 32 == 0:
            found = tl.load(scales + (begin + word * 32) // SCALE_BLOCK, mask=word * 32 < n, other=0)[:, None]
        else:
            found = tl.load(scales + (begin + at) // SCALE_BLOCK, mask=at < n, other=0)
        found = found.to(tl.float32, bitcast=True)
        scale = tl.div_rn(found, tl.zeros_like(found) + correction)
    return scale


@triton.jit
def apply_tile(
    parameters,
    preconditioner,
    live_bytes,
    words,
    scales,
    copy,
    begin,
    word,
    at,
    n,
    lr,
    decay,
    correction,
    SCALE_BLOCK: tl.constexpr,
    COPY: tl.constexpr,
    MASKED: tl.constexpr,
):
    """x <- x - gamma (P m-bar + lambda x) on one tile; without P x <- x - gamma (y-bar + lambda x) [C12]."""
    x = load_params(parameters, copy, at, n, COPY, MASKED)
    scale = momentum_scale(scales, correction, begin, word, at, n, SCALE_BLOCK)
    direction = spread(load_words(words, word, n, MASKED), scale)
    if preconditioner is None:
        moved = x - lr * (direction + decay * x)
        if live_bytes is not None:
            bits = tl.load(live_bytes + at // 8, mask=at < n, other=0).to(tl.int32) >> (at % 8)
            moved = tl.where((bits & 1) != 0, moved, x)
    else:
        p = load_elements(preconditioner, at, n, 0.0, MASKED)
        moved = tl.where(is_marked(p), x, x - lr * (p * direction + decay * x))
    store_elements(parameters, at, n, moved, MASKED)
    if COPY:
        store_elements(copy, at, n, moved, MASKED)


@triton.jit(do_not_specialize=("dim", *LAYOUT))
def apply(
    parameters,
    preconditioner,
    live_bytes,
    shared,
    copy,
    step,
    dim,
    chunk8,
    row_words,
    stride_words,
    n_scales,
    SCALE_BLOCK: tl.constexpr,
    COPY: tl.constexpr,
    ROWS: tl.constexpr,
    TILES: tl.constexpr,
):
    """Program (p, j): span p of chunk j. ``shared`` is seen as words (n_chunks, row_words); of these the last n_scales
    are scales.
    """
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    j = tl.program_id(1)
    SPAN: tl.constexpr = ROWS * 32 * TILES
    start, begin = chunk_start(j, chunk8), span_of(p, SPAN)
    n = span_length(tl.minimum(tl.cast(chunk8, tl.int64) * 8, dim - start), begin, SPAN)
    parameters += start + begin
    if preconditioner is not None:
        preconditioner += start + begin
    if live_bytes is not None:
        live_bytes += j.to(tl.int64) * chunk8 + begin // 8
    if COPY:
        copy += start + begin
    row = j.to(tl.int64) * stride_words
    scales = shared + row + row_words - n_scales
    words = shared + row + begin // 32
    lr = tl.load(step + LR)
    decay = tl.load(step + WEIGHT_DECAY)
    correction = tl.load(step + MOMENTUM_CORRECTION)
    tensors = (parameters, preconditioner, live_bytes, words, scales, copy, begin)
    if n == SPAN:
        for k in range(TILES):
            word, at = tile_of(k, ROWS)
            apply_tile(*tensors, word, at, n, lr, decay, correction, SCALE_BLOCK, COPY, False)
    else:
        for k in range(tl.cdiv(n, ROWS * 32)):
            word, at = tile_of(k, ROWS)
            apply_tile(*tensors, word, at, n, lr, decay, correction, SCALE_BLOCK, COPY, True)


def launch_apply(
    params: Tensor,
    preconditioner: Tensor | None,
    exchange: Exchange,
    step: StepScalars,
    params_copy: Tensor | None,
    live_bits: Tensor | None,
) -> None:
    """As :meth:`gpu_impl.Backend.apply` says."""
    layout = exchange.layout
    launch(
        apply,
        (cdiv(layout.chunk, SPAN), layout.n_chunks),
        params,
        preconditioner,
        live_bits,
        exchange.shared.view(WORDS),
        params_copy,
        step.values,
        layout.dim,
        layout.chunk // 8,
        layout.row_bytes // 4,
        exchange.row_stride // 4,
        layout.n_blocks,
        SCALE_BLOCK=layout.scale_block or 0,
        COPY=params_copy is not None,
        ROWS=ROWS,
        TILES=TILES,
    )
