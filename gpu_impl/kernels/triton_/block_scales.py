"""compress and server with block scales [C13]: the scale of a block is known where its elements are.

A tile is (BLOCKS, UNITS, UNIT) elements: some blocks of B elements, each in units of one word of a message, or of one
byte where B is no multiple of 32. A block longer than a tile is read in several; its sum is kept between them. So one
pass gives u, bits and scales, and no program waits for another.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.layout import Layout
from gpu_impl.kernels.state import F32, Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LAYOUT,
    TOGETHER,
    chunk_start,
    error_of,
    is_dead,
    is_one,
    load_elements,
    marked_where,
    mean_of,
    norm_terms,
    store_elements,
    zeros_in_place_of,
)
from gpu_impl.kernels.triton_.launch import WORDS, cdiv, is_power_of_two, launch

TILE = 1024
"""Elements that a program has at a time."""


@triton.jit
def tile_at(p, k, SCALE_BLOCK: tl.constexpr, BLOCKS: tl.constexpr, UNITS: tl.constexpr, UNIT: tl.constexpr):
    """Blocks (BLOCKS,), units (BLOCKS, UNITS) and elements (BLOCKS, UNITS, UNIT) of tile k of program p in a chunk.

    An element behind the end of its block is given as the largest number there is, which is behind every end.
    """
    block = p.to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    inside = k * UNITS + tl.arange(0, UNITS)
    unit = block[:, None] * (SCALE_BLOCK // UNIT) + inside[None, :]
    unit = tl.where(inside[None, :] < SCALE_BLOCK // UNIT, unit, 2**60 // UNIT)
    return block, unit, unit[:, :, None] * UNIT + tl.arange(0, UNIT)[None, None, :]


@triton.jit
def signs_in(rows, unit, n, scale, UNIT: tl.constexpr, MASKED: tl.constexpr):
    """+scale or -scale by the bits of a row, (BLOCKS, UNITS, UNIT); ``scale`` (BLOCKS,)."""
    if MASKED:  # noqa: SIM108 - of an if, Triton compiles one branch only
        bits = tl.load(rows + unit, mask=unit * UNIT < n, other=0)
    else:
        bits = tl.load(rows + unit)
    scale = scale[:, None, None]
    return tl.where(is_one(bits.to(tl.int32)[:, :, None], tl.arange(0, UNIT)[None, None, :]), scale, -scale)


@triton.jit
def send_signs(rows, unit, at, n, values, UNIT: tl.constexpr):
    """The bits ``values >= 0`` into a row; 0 behind the end of the chunk [C2, C4]."""
    one = (values >= 0) & (at < n)
    bit = tl.full([1, 1, UNIT], 1, tl.int32) << tl.arange(0, UNIT)[None, None, :]
    words = tl.sum(tl.where(one, bit, 0), axis=2)
    tl.store(rows + unit, words.to(rows.dtype.element_ty), mask=unit * UNIT < n)


@triton.jit
def scale_from(sums, live, L1: tl.constexpr):
    """The scales (BLOCKS,) from their sums; 0 where nothing is live [C1]."""
    mean = sums / tl.maximum(live, 1).to(tl.float64)
    if not L1:
        mean = tl.sqrt(mean)
    return mean.to(tl.float32)


@triton.jit
def block_sums(values, L1: tl.constexpr):
    """What is summed for the scales, by block (BLOCKS,)."""
    return tl.sum(tl.sum(norm_terms(values, L1), axis=2), axis=1)


@triton.jit(do_not_specialize=LAYOUT)
def compress_blocks(
    grad,
    preconditioner,
    u,
    u_scale,
    live,
    shared,
    message,
    shared_scales,
    message_scales,
    ignored_partials,
    step,
    dim,
    chunk8,
    n_scales,
    stride_units,
    row_floats,
    stride_floats,
    beta,
    complement,
    FIRST: tl.constexpr,
    KEEP: tl.constexpr,
    L1: tl.constexpr,
    SCALE_BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    UNITS: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Program (p, j): BLOCKS blocks of chunk j. ``shared`` and ``message`` are seen as units, and as scales."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    j = tl.program_id(1).to(tl.int64)
    start = chunk_start(j, chunk8)
    n = tl.minimum(tl.cast(chunk8, tl.int64) * 8, dim - start)
    grad += start
    u += start
    if preconditioner is not None:
        preconditioner += start
    shared += j * stride_units
    message += j * stride_units
    first_scale = j * stride_floats + row_floats - n_scales

    block = p.to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    is_block = block < n_scales
    old_scale = tl.load(u_scale + j * n_scales + block, mask=is_block, other=0.0)
    momentum_scale = tl.load(shared_scales + first_scale + block, mask=is_block, other=0.0)
    sums = tl.zeros([BLOCKS], tl.float64)
    ignored = tl.zeros([BLOCKS], tl.int32)
    for k in range(tl.cdiv(SCALE_BLOCK, UNITS * UNIT)):
        _, unit, at = tile_at(p, k, SCALE_BLOCK, BLOCKS, UNITS, UNIT)
        g = load_elements(grad, at, n, 0.0, True)
        old = load_elements(u, at, n, 0.0, True)
        dead = is_dead(old, at, n, True)
        if FIRST:
            momentum = old
            error = tl.zeros_like(old)
        else:
            momentum = signs_in(shared, unit, n, momentum_scale, UNIT, True)
            error = error_of(old, old_scale[:, None, None])
        gradient = g * factor
        if preconditioner is not None:
            gradient *= load_elements(preconditioner, at, n, 0.0, True)
        new = marked_where(dead, (complement * gradient + beta * momentum) + error)
        if KEEP:
            store_elements(grad, at, n, old, True)
        store_elements(u, at, n, new, True)
        send_signs(message, unit, at, n, new, UNIT)
        sums += block_sums(new, L1)
        ignored += tl.sum(tl.sum((dead & (g != 0)).to(tl.int32), axis=2), axis=1)
    scale = scale_from(sums, tl.load(live + j * n_scales + block, mask=is_block, other=0), L1)
    tl.store(u_scale + j * n_scales + block, scale, mask=is_block)
    tl.store(message_scales + first_scale + block, scale, mask=is_block)
    tl.store(ignored_partials + j * tl.num_programs(0) + p, tl.sum(ignored, axis=0))


@triton.jit
def server_blocks_tile(
    received,
    received_scales,
    w,
    reply,
    block,
    unit,
    at,
    n,
    old_scale,
    n_workers,
    stride_units,
    stride_floats,
    is_block,
    TOGETHER: tl.constexpr,
    EXACT: tl.constexpr,
    UNIT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """w <- (1/N) sum_i s_i q_i + (w - S sign(w)) on one tile: returns the new w."""
    old = load_elements(w, at, n, 0.0, MASKED)
    total = zeros_in_place_of(old, at)
    together = n_workers // TOGETHER * TOGETHER
    for i in range(0, together, TOGETHER):
        for k in tl.static_range(TOGETHER):
            row = tl.cast(i + k, tl.int64)
            scale = tl.load(received_scales + row * stride_floats + block, mask=is_block, other=0.0)
            total += signs_in(received + row * stride_units, unit, n, scale, UNIT, MASKED)
    for i in range(together, n_workers):
        row = tl.cast(i, tl.int64)
        scale = tl.load(received_scales + row * stride_floats + block, mask=is_block, other=0.0)
        total += signs_in(received + row * stride_units, unit, n, scale, UNIT, MASKED)
    mean = mean_of(total, n_workers, EXACT)
    new = marked_where(is_dead(old, at, n, MASKED), mean + error_of(old, old_scale[:, None, None]))
    store_elements(w, at, n, new, MASKED)
    send_signs(reply, unit, at, n, new, UNIT)
    return new


@triton.jit(do_not_specialize=LAYOUT)
def server_blocks(
    received,
    received_scales,
    w,
    w_scale,
    live,
    reply,
    reply_scales,
    step,
    dim,
    n_workers,
    n_scales,
    stride_units,
    row_floats,
    stride_floats,
    L1: tl.constexpr,
    TOGETHER: tl.constexpr,
    EXACT: tl.constexpr,
    SCALE_BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    UNITS: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Program p: BLOCKS blocks of the chunk."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    n = tl.cast(dim, tl.int64)
    block = p.to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    is_block = block * SCALE_BLOCK < n
    old_scale = tl.load(w_scale + block, mask=is_block, other=0.0)
    first_scale = row_floats - n_scales
    sums = tl.zeros([BLOCKS], tl.float64)
    tensors = (received, received_scales + first_scale, w, reply)
    numbers = (old_scale, n_workers, stride_units, stride_floats, is_block)
    if SCALE_BLOCK % (UNITS * UNIT) == 0 and (p.to(tl.int64) + 1) * BLOCKS * SCALE_BLOCK <= n:
        for k in range(SCALE_BLOCK // (UNITS * UNIT)):
            _, unit, at = tile_at(p, k, SCALE_BLOCK, BLOCKS, UNITS, UNIT)
            new = server_blocks_tile(*tensors, block, unit, at, n, *numbers, TOGETHER, EXACT, UNIT, False)
            sums += block_sums(new, L1)
    else:
        for k in range(tl.cdiv(SCALE_BLOCK, UNITS * UNIT)):
            _, unit, at = tile_at(p, k, SCALE_BLOCK, BLOCKS, UNITS, UNIT)
            new = server_blocks_tile(*tensors, block, unit, at, n, *numbers, TOGETHER, EXACT, UNIT, True)
            sums += block_sums(new, L1)
    scale = scale_from(sums, tl.load(live + block, mask=is_block, other=0), L1)
    tl.store(w_scale + block, scale, mask=is_block)
    tl.store(reply_scales + first_scale + block, scale, mask=is_block)


def shape_for(layout: Layout) -> tuple[int, torch.dtype, dict[str, int]]:
    """Programs of a chunk, what messages are seen as, and the shape of a tile."""
    size = layout.block
    unit, dtype = (32, WORDS) if size % 32 == 0 else (8, torch.uint8)
    width = min(TILE, 1 << (size - 1).bit_length())
    blocks = TILE // width
    shape = {"SCALE_BLOCK": size, "BLOCKS": blocks, "UNITS": width // unit, "UNIT": unit}
    return cdiv(layout.n_blocks, blocks), dtype, shape


def launch_compress_blocks(
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
    """As :meth:`gpu_impl.Backend.compress` says, with block scales."""
    layout = exchange.layout
    programs, units, shape = shape_for(layout)
    counts = torch.zeros(layout.n_chunks, programs, dtype=torch.int32, device=grad.device)  # of a skipped step too
    launch(
        compress_blocks,
        (programs, layout.n_chunks),
        grad,
        preconditioner,
        worker.u,
        worker.u_scale,
        exchange.live,
        exchange.shared.view(units),
        exchange.message.view(units),
        exchange.shared.view(F32),
        exchange.message.view(F32),
        counts,
        step.values,
        layout.dim,
        layout.chunk // 8,
        layout.n_blocks,
        exchange.row_stride // units.itemsize,
        layout.row_bytes // 4,
        exchange.row_stride // 4,
        beta1,
        1 - beta1,
        FIRST=first,
        KEEP=keep_old,
        L1=l1,
        **shape,
    )
    worker.ignored.add_(counts.sum())


def launch_server_blocks(server: ServerState, exchange: Exchange, step: StepScalars, l1: bool) -> None:
    """As :meth:`gpu_impl.Backend.server` says, with block scales."""
    layout, reply = exchange.layout, exchange.reply
    programs, units, shape = shape_for(layout)
    launch(
        server_blocks,
        (programs,),
        exchange.received.view(units),
        exchange.received.view(F32),
        server.w,
        server.w_scale,
        exchange.live_in(server.chunk),
        reply.view(units),
        reply.view(F32),
        step.values,
        server.w.shape[0],
        exchange.received.shape[0],
        layout.n_blocks,
        exchange.row_stride // units.itemsize,
        layout.row_bytes // 4,
        exchange.row_stride // 4,
        L1=l1,
        TOGETHER=TOGETHER,
        EXACT=is_power_of_two(exchange.received.shape[0]),
        **shape,
    )
