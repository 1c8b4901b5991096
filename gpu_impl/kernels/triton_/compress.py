"""compress, tuned: one pass over whole words, wide loads, 16 tiles a program so that partial sums are few."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.state import Exchange, WorkerState
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.block_scales import launch_compress_blocks
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LAYOUT,
    ROWS,
    SPAN,
    TILES,
    chunk_start,
    error_of,
    is_dead,
    load_elements,
    load_words,
    marked_where,
    norm_terms,
    span_length,
    span_of,
    spread,
    store_elements,
    store_signs,
    tile_of,
)
from gpu_impl.kernels.triton_.finish_scale import launch_finish_scale
from gpu_impl.kernels.triton_.launch import WORDS, launch, partials_of


@triton.jit
def compress_tile(
    grad,
    preconditioner,
    u,
    words_in,
    words_out,
    word,
    at,
    n,
    factor,
    old_scale,
    shared_scale,
    beta,
    complement,
    FIRST: tl.constexpr,
    KEEP: tl.constexpr,
    MASKED: tl.constexpr,
):
    """u <- (1-beta1) g + beta1 m-bar + (u - s sign(u)) on one tile: returns the new u and the ignored gradients."""
    g = load_elements(grad, at, n, 0.0, MASKED)
    old = load_elements(u, at, n, 0.0, MASKED)
    dead = is_dead(old, at, n, MASKED)
    if FIRST:
        momentum = old
        error = tl.zeros_like(old)
    else:
        momentum = spread(load_words(words_in, word, n, MASKED), shared_scale)
        error = error_of(old, old_scale)
    gradient = g * factor
    if preconditioner is not None:
        gradient *= load_elements(preconditioner, at, n, 0.0, MASKED)
    new = marked_where(dead, (complement * gradient + beta * momentum) + error)
    if KEEP:
        store_elements(grad, at, n, old, MASKED)
    store_elements(u, at, n, new, MASKED)
    store_signs(words_out, word, at, n, new, MASKED)
    return new, (dead & (g != 0)).to(tl.int32)


@triton.jit(do_not_specialize=("dim", *LAYOUT))
def compress(
    grad,
    preconditioner,
    u,
    u_scale,
    shared,
    message,
    partials,
    ignored_partials,
    step,
    dim,
    chunk8,
    row_words,
    stride_words,
    beta,
    complement,
    FIRST: tl.constexpr,
    KEEP: tl.constexpr,
    L1: tl.constexpr,
    ROWS: tl.constexpr,
    TILES: tl.constexpr,
):
    """Program (p, j): span p of chunk j. ``shared`` and ``message`` are seen as words (n_chunks, row_words)."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    j = tl.program_id(1)
    SPAN: tl.constexpr = ROWS * 32 * TILES
    start, begin = chunk_start(j, chunk8), span_of(p, SPAN)
    n = span_length(tl.minimum(tl.cast(chunk8, tl.int64) * 8, dim - start), begin, SPAN)
    grad += start + begin
    u += start + begin
    if preconditioner is not None:
        preconditioner += start + begin
    row = j.to(tl.int64) * stride_words
    shared_scale = tl.load(shared + row + row_words - 1).to(tl.float32, bitcast=True)
    words_in = shared + row + begin // 32
    words_out = message + row + begin // 32
    old_scale = tl.load(u_scale)

    sums = tl.zeros([ROWS], tl.float64)
    ignored = tl.zeros([ROWS], tl.int32)
    if n == SPAN:
        for k in range(TILES):
            word, at = tile_of(k, ROWS)
            new, lost = compress_tile(
                grad,
                preconditioner,
                u,
                words_in,
                words_out,
                word,
                at,
                n,
                factor,
                old_scale,
                shared_scale,
                beta,
                complement,
                FIRST,
                KEEP,
                False,
            )
            sums += tl.sum(norm_terms(new, L1), axis=1)
            ignored += tl.sum(lost, axis=1)
    else:
        for k in range(tl.cdiv(n, ROWS * 32)):
            word, at = tile_of(k, ROWS)
            new, lost = compress_tile(
                grad,
                preconditioner,
                u,
                words_in,
                words_out,
                word,
                at,
                n,
                factor,
                old_scale,
                shared_scale,
                beta,
                complement,
                FIRST,
                KEEP,
                True,
            )
            sums += tl.sum(norm_terms(new, L1), axis=1)
            ignored += tl.sum(lost, axis=1)
    index = j.to(tl.int64) * tl.num_programs(0) + p
    tl.store(partials + index, tl.sum(sums, axis=0))
    tl.store(ignored_partials + index, tl.sum(ignored, axis=0))


def launch_compress(
    grad: Tensor,
    worker: WorkerState,
    exchange: Exchange,
    step: StepScalars,
    beta1: float,
    l1: bool,
    first: bool,
    keep_old: bool,
    preconditioner: Tensor | None,
) -> None:
    """As :meth:`gpu_impl.Backend.compress` says."""
    layout = exchange.layout
    if layout.scale_block is not None:
        launch_compress_blocks(grad, worker, exchange, step, beta1, l1, first, keep_old, preconditioner)
        return
    grid, partials, counts = partials_of(layout.chunk, layout.n_chunks, SPAN, grad.device)
    launch(
        compress,
        grid,
        grad,
        preconditioner,
        worker.u,
        worker.u_scale,
        exchange.shared.view(WORDS),
        exchange.message.view(WORDS),
        partials,
        counts,
        step.values,
        layout.dim,
        layout.chunk // 8,
        layout.row_bytes // 4,
        exchange.row_stride // 4,
        beta1,
        1 - beta1,
        FIRST=first,
        KEEP=keep_old,
        L1=l1,
        ROWS=ROWS,
        TILES=TILES,
    )
    rows, stride = exchange.message, exchange.row_stride
    launch_finish_scale(partials, counts, exchange.live, worker.u_scale, rows, stride, worker.ignored, step, l1)
