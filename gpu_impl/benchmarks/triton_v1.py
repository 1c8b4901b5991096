"""The backend "triton-v1": compress, server and apply in the most direct form, each element looking up its own byte.

Kept for the comparison with the tuned kernels; no optimizer uses it. One program a block:
 no words, no whole-tile paths. Eight
neighbours load the same byte, loads are masked everywhere (so they are four bytes wide), and there are many partials.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.state import F32, Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.backend import TritonBackend
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LR,
    MOMENTUM_CORRECTION,
    WEIGHT_DECAY,
    as_float32,
    error_of,
    is_dead,
    is_marked,
    load_params,
    marked_where,
    norm_terms,
    rounded_to,
)
from gpu_impl.kernels.triton_.finish_scale import launch_finish_scale
from gpu_impl.kernels.triton_.launch import cdiv, launch, partials_of

BLOCK = 1024


@triton.jit
def decode_v1(row, at, inside, scale):
    """+scale or -scale by the bit of each element [C4]."""
    bits = tl.load(row + at // 8, mask=inside, other=0).to(tl.int32)
    return tl.where(((bits >> (at % 8).to(tl.int32)) & 1) != 0, scale, -scale)


@triton.jit
def send_v1(row, first, n, values, inside, BLOCK: tl.constexpr):
    """The signs as bytes: eight neighbours are one row of a sum [C2]."""
    ones = ((values >= 0) & inside).to(tl.int32)
    bits = tl.reshape(ones, [BLOCK // 8, 8]) << tl.arange(0, 8)[None, :]
    byte = first // 8 + tl.arange(0, BLOCK // 8)
    tl.store(row + byte, tl.sum(bits, axis=1).to(tl.uint8), mask=byte * 8 < n)


@triton.jit
def compress_v1(
    grad,
    u,
    u_scale,
    shared,
    message,
    shared_scales,
    partials,
    ignored_partials,
    step,
    dim,
    chunk,
    row_bytes,
    row_stride,
    beta,
    complement,
    FIRST: tl.constexpr,
    KEEP: tl.constexpr,
    L1: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program (p, j): block p of chunk j. u <- (1-beta1) g + beta1 m-bar + (u - s sign(u))."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1).to(tl.int64)
    start = j * chunk
    n = tl.minimum(tl.cast(chunk, tl.int64), dim - start)
    at = p * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = as_float32(tl.load(grad + start + at, mask=inside, other=0.0))
    old = tl.load(u + start + at, mask=inside, other=0.0)
    dead = is_dead(old, at, n, True)
    if FIRST:
        momentum = old
        error = tl.zeros_like(old)
    else:
        momentum = decode_v1(
            shared + j * row_stride, at, inside, tl.load(shared_scales + (j * row_stride + row_bytes) // 4 - 1)
        )
        error = error_of(old, tl.load(u_scale))
    new = marked_where(dead, (complement * (g * factor) + beta * momentum) + error)
    if KEEP:
        tl.store(grad + start + at, old, mask=inside)
    tl.store(u + start + at, new, mask=inside)
    send_v1(message + j * row_stride, p * BLOCK, n, new, inside, BLOCK)
    index = j * tl.num_programs(0) + p
    tl.store(partials + index, tl.sum(norm_terms(new, L1), axis=0))
    tl.store(ignored_partials + index, tl.sum((dead & (g != 0)).to(tl.int32), axis=0))


@triton.jit
def server_v1(
    received,
    received_scales,
    w,
    w_scale,
    reply,
    partials,
    step,
    dim,
    n_workers,
    row_bytes,
    row_stride,
    L1: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program p: block p of the chunk. w <- (1/N) sum_i s_i q_i + (w - S sign(w))."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0).to(tl.int64)
    at = p * BLOCK + tl.arange(0, BLOCK)
    inside = at < dim
    old = tl.load(w + at, mask=inside, other=0.0)
    total = tl.zeros([BLOCK], tl.float32)
    for worker in range(n_workers):
        i = tl.cast(worker, tl.int64)
        total += decode_v1(
            received + i * row_stride, at, inside, tl.load(received_scales + (i * row_stride + row_bytes) // 4 - 1)
        )
    count = tl.zeros([BLOCK], tl.float32) + tl.cast(n_workers, tl.float32)
    new = marked_where(is_dead(old, at, dim, True), tl.div_rn(total, count) + error_of(old, tl.load(w_scale)))
    tl.store(w + at, new, mask=inside)
    send_v1(reply, p * BLOCK, dim, new, inside, BLOCK)
    tl.store(partials + p, tl.sum(norm_terms(new, L1), axis=0))


@triton.jit
def apply_v1(
    parameters,
    preconditioner,
    shared,
    shared_scales,
    copy,
    step,
    dim,
    chunk,
    row_bytes,
    row_stride,
    COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program (p, j): block p of chunk j. x <- x - gamma (P m-bar + lambda x)."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1).to(tl.int64)
    start = j * chunk
    n = tl.minimum(tl.cast(chunk, tl.int64), dim - start)
    at = p * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    scale = tl.load(shared_scales + (j * row_stride + row_bytes) // 4 - 1)
    momentum = decode_v1(shared + j * row_stride, at, inside, tl.div_rn(scale, tl.load(step + MOMENTUM_CORRECTION)))
    preconditioned = tl.load(preconditioner + start + at, mask=inside, other=0.0)
    if COPY:
        copy += start
    x = load_params(parameters + start, copy, at, n, COPY, True)
    moved = x - tl.load(step + LR) * (preconditioned * momentum + tl.load(step + WEIGHT_DECAY) * x)
    moved = tl.where(is_marked(preconditioned), x, moved)
    tl.store(parameters + start + at, rounded_to(moved, parameters.dtype.element_ty), mask=inside)
    if COPY:
        tl.store(copy + at, rounded_to(moved, copy.dtype.element_ty), mask=inside)


class TritonV1Backend(TritonBackend):
    """The direct form of compress, server and apply, without extensions; the rest is shared."""

    name = "triton-v1"
    extensions = ()

    @staticmethod
    def _compress(
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
        layout, stride = exchange.layout, exchange.row_stride
        grid, partials, counts = partials_of(layout.chunk, layout.n_chunks, BLOCK, grad.device)
        launch(
            compress_v1,
            grid,
            grad,
            worker.u,
            worker.u_scale,
            exchange.shared,
            exchange.message,
            exchange.shared.view(F32),
            partials,
            counts,
            step.values,
            layout.dim,
            layout.chunk,
            layout.row_bytes,
            stride,
            beta1,
            1 - beta1,
            FIRST=first,
            KEEP=keep_old,
            L1=l1,
            BLOCK=BLOCK,
        )
        rows = exchange.message
        launch_finish_scale(partials, counts, exchange.live, worker.u_scale, rows, stride, worker.ignored, step, l1)

    @staticmethod
    def _server(server: ServerState, exchange: Exchange, step: StepScalars, l1: bool) -> None:
        w, received, row_bytes, reply = server.w, exchange.received, exchange.layout.row_bytes, exchange.reply
        grid, partials, _ = partials_of(w.shape[0], 1, BLOCK, w.device)
        buffers = (received, received.view(F32), w, server.w_scale, reply, partials, step.values)
        sizes = (w.shape[0], received.shape[0], row_bytes, exchange.row_stride)
        launch(server_v1, grid[:1], *buffers, *sizes, L1=l1, BLOCK=BLOCK)
        live = exchange.live[server.chunk : server.chunk + 1]
        launch_finish_scale(partials, None, live, server.w_scale, reply.view(1, -1), row_bytes, None, step, l1)

    @staticmethod
    def _apply(
        params: Tensor,
        preconditioner: Tensor | None,
        exchange: Exchange,
        step: StepScalars,
        params_copy: Tensor | None,
        live_bits: Tensor | None,
    ) -> None:
        layout = exchange.layout
        launch(
            apply_v1,
            (cdiv(layout.chunk, BLOCK), layout.n_chunks),
            params,
            preconditioner,
            exchange.shared,
            exchange.shared.view(F32),
            params_copy,
            step.values,
            layout.dim,
            layout.chunk,
            layout.row_bytes,
            exchange.row_stride,
            COPY=params_copy is not None,
            BLOCK=BLOCK,
        )
