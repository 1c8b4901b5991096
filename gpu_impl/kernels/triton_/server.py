"""server, tuned: one word of every worker's message for 32 elements, summed in the order of the workers."""

from __future__ import annotations

import triton
import triton.language as tl

from gpu_impl.kernels.state import Exchange, ServerState
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.block_scales import launch_server_blocks
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LAYOUT,
    ROWS,
    TILES,
    TOGETHER,
    error_of,
    is_dead,
    load_elements,
    load_words,
    marked_where,
    mean_of,
    norm_terms,
    span_length,
    span_of,
    spread,
    store_elements,
    store_signs,
    tile_of,
    zeros_in_place_of,
)
from gpu_impl.kernels.triton_.finish_scale import launch_finish_scale
from gpu_impl.kernels.triton_.launch import WORDS, is_power_of_two, launch, partials_of

WARPS = 2
"""Of a program: eight elements a thread, for which it reads each message once."""


@triton.jit
def message_of(received, word, n, i, last_word, stride_words, MASKED: tl.constexpr):
    """s_i q_i on one tile; the scale is the last word of the row."""
    row = received + tl.cast(i, tl.int64) * stride_words
    scale = tl.load(row + last_word).to(tl.float32, bitcast=True)
    return spread(load_words(row, word, n, MASKED), scale)


@triton.jit
def server_tile(
    received,
    w,
    reply,
    word,
    at,
    n,
    old_scale,
    n_workers,
    last_word,
    stride_words,
    TOGETHER: tl.constexpr,
    EXACT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """w <- (1/N) sum_i s_i q_i + (w - S sign(w)) on one tile: returns the new w."""
    old = load_elements(w, at, n, 0.0, MASKED)
    total = zeros_in_place_of(old, at)
    together = n_workers // TOGETHER * TOGETHER
    for i in range(0, together, TOGETHER):
        for k in tl.static_range(TOGETHER):
            total += message_of(received, word, n, i + k, last_word, stride_words, MASKED)
    for i in range(together, n_workers):
        total += message_of(received, word, n, i, last_word, stride_words, MASKED)
    mean = mean_of(total, n_workers, EXACT)
    new = marked_where(is_dead(old, at, n, MASKED), mean + error_of(old, old_scale))
    store_elements(w, at, n, new, MASKED)
    store_signs(reply, word, at, n, new, MASKED)
    return new


@triton.jit(do_not_specialize=("dim", *LAYOUT))
def server(
    received,
    w,
    w_scale,
    reply,
    partials,
    step,
    dim,
    n_workers,
    row_words,
    stride_words,
    L1: tl.constexpr,
    TOGETHER: tl.constexpr,
    EXACT: tl.constexpr,
    ROWS: tl.constexpr,
    TILES: tl.constexpr,
):
    """Program p: span p of the chunk. ``received`` (n_workers, row_words) and ``reply`` are words."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    SPAN: tl.constexpr = ROWS * 32 * TILES
    begin = span_of(p, SPAN)
    n = span_length(dim, begin, SPAN)
    w += begin
    reply += begin // 32
    received += begin // 32
    last_word = row_words - 1 - begin // 32
    old_scale = tl.load(w_scale)
    tensors = (received, w, reply)
    numbers = (old_scale, n_workers, last_word, stride_words)
    sums = tl.zeros([ROWS], tl.float64)
    if n == SPAN:
        for k in range(TILES):
            word, at = tile_of(k, ROWS)
            new = server_tile(*tensors, word, at, n, *numbers, TOGETHER, EXACT, False)
            sums += tl.sum(norm_terms(new, L1), axis=1)
    else:
        for k in range(tl.cdiv(n, ROWS * 32)):
            word, at = tile_of(k, ROWS)
            new = server_tile(*tensors, word, at, n, *numbers, TOGETHER, EXACT, True)
            sums += tl.sum(norm_terms(new, L1), axis=1)
    tl.store(partials + p, tl.sum(sums, axis=0))


server_kernel = server


def launch_server(server: ServerState, exchange: Exchange, step: StepScalars, l1: bool) -> None:
    """As :meth:`gpu_impl.Backend.server` says."""
    if exchange.layout.scale_block is not None:
        launch_server_blocks(server, exchange, step, l1)
        return
    w, layout, reply, n_workers = server.w, exchange.layout, exchange.reply, exchange.received.shape[0]
    grid, partials, _ = partials_of(w.shape[0], 1, ROWS * 32 * TILES, w.device)
    launch(
        server_kernel,
        grid[:1],
        exchange.received.view(WORDS),
        w,
        server.w_scale,
        reply.view(WORDS),
        partials,
        step.values,
        w.shape[0],
        n_workers,
        layout.row_bytes // 4,
        exchange.row_stride // 4,
        L1=l1,
        TOGETHER=TOGETHER,
        EXACT=is_power_of_two(n_workers),
        ROWS=ROWS,
        TILES=TILES,
        num_warps=WARPS,
    )
    live = exchange.live[server.chunk : server.chunk + 1]
    launch_finish_scale(partials, None, live, server.w_scale, reply.view(1, -1), layout.row_bytes, None, step, l1)
