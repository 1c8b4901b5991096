"""The readable backend: plain torch operations, on any device. The ladder starts here; the others equal it.

Each line is one rounding: no addcmul, lerp or ``alpha=``, which may fuse, and no division by a Python number, which
torch turns into a product with the reciprocal on CUDA.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from gpu_impl.kernels.arithmetic import master_of, preconditioner_of, root
from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.layout import Layout, by_element, in_blocks, scales_of
from gpu_impl.kernels.marks import floor_of, is_marked, live_in
from gpu_impl.kernels.state import F32, U8, Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import (
    GRADIENT_FACTOR,
    LR,
    MOMENTUM_CORRECTION,
    VARIANCE_CORRECTION,
    WEIGHT_DECAY,
    StepScalars,
)


@functools.cache
def _bit_weights(device: torch.device) -> Tensor:
    """1, 2, 4, ... 128, made on the device, once: bit k of a byte is element k [C4]."""
    return 2 ** torch.arange(8, dtype=U8, device=device)


def pack_rows(values_RC: Tensor) -> Tensor:
    """Signs of each row as bits (R, C/8), C a multiple of 8 [C2, C4]."""
    ones = (values_RC >= 0).view(values_RC.shape[0], -1, 8)
    return (ones * _bit_weights(values_RC.device)).sum(dim=2, dtype=U8)


def unpack_rows(bits_RB: Tensor) -> Tensor:
    """Bits of each row as +1.0 and -1.0, (R, 8B)."""
    ones = (bits_RB[:, :, None] & _bit_weights(bits_RB.device)) != 0
    return (2 * ones.to(F32) - 1).view(bits_RB.shape[0], -1)


def decode(message: Tensor, layout: Layout) -> Tensor:
    """The numbers that a message stands for: S_j Q_j on chunk j, (D,)."""
    signs_NC = unpack_rows(message[:, : layout.chunk // 8])
    scales = by_element(scales_of(message, layout.n_blocks).flatten(), layout, layout.n_chunks * layout.chunk)
    return (signs_NC.view(-1) * scales)[: layout.dim]


def error_of(u: Tensor, scale: Tensor, layout: Layout) -> Tensor:
    """delta = u - s sign(u), and 0 at dead coordinates; u (..., n) are whole buffers or chunks, s their scales."""
    scale = by_element(scale, layout, u.shape[-1])
    signed = torch.where(u >= 0, scale, -scale)
    return torch.where(is_marked(u), 0.0, u - signed)


def scales_for(u: Tensor, live: Tensor, layout: Layout, l1: bool) -> Tensor:
    """s (1,) float32, or with block scales of every block (K,): sums over the live coordinates in float64 [C1, C13].

    0 where none is live. ``u`` is a whole buffer or a chunk of it, ``live`` says how many of its blocks are.
    """
    wide = u.double()
    terms = wide.abs() if l1 else wide * wide
    if layout.scale_block is None:
        sums, counts = terms.sum().view(1), live.sum().view(1)
    else:
        sums, counts = in_blocks(terms, layout, live.shape[0] // layout.n_blocks).sum(dim=1), live
    mean = sums / counts.double().clamp(min=1)
    return (mean if l1 else mean.sqrt()).to(F32)


def padded(values: Tensor, length: int) -> Tensor:
    """``values`` with negative padding, whose bits are 0."""
    return torch.nn.functional.pad(values, (0, length - values.shape[0]), value=-1.0)


class TorchBackend(Backend):
    """See the module's docstring. A skipped step is selected away, so that nothing waits for the device."""

    name = "torch"

    @staticmethod
    def _pack(values: Tensor, bits: Tensor) -> None:
        bits.copy_(pack_rows(padded(values, 8 * bits.shape[0])[None])[0])

    @staticmethod
    def _unpack(bits: Tensor, scale: Tensor, values: Tensor) -> None:
        values.copy_((unpack_rows(bits[None])[0] * scale)[: values.shape[0]])

    @staticmethod
    def _gradient_norm(grad: Tensor, norm: Tensor) -> None:
        wide = grad.double()
        norm.copy_((wide * wide).sum().view(1))

    @staticmethod
    def _adam(
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        grad: Tensor,
        step: StepScalars,
        beta1: float,
        beta2: float,
        eps: float,
        params_copy: Tensor | None,
    ) -> None:
        go = ~torch.isnan(step.values[GRADIENT_FACTOR])
        g = grad.float() * step.values[GRADIENT_FACTOR]
        m = beta1 * momentum + (1 - beta1) * g
        v = beta2 * variance + (1 - beta2) * (g * g)
        preconditioner = 1 / (root(v / step.values[VARIANCE_CORRECTION]) + eps)
        direction = preconditioner * (m / step.values[MOMENTUM_CORRECTION])
        momentum.copy_(torch.where(go, m, momentum))
        variance.copy_(torch.where(go, v, variance))
        TorchBackend._descend(params, direction, go, step, params_copy)

    @staticmethod
    def _freeze(
        momentum: Tensor,
        variance: Tensor,
        eps: float,
        variance_floor: float,
        variance_correction: float,
        update: bool,
    ) -> None:
        is_live = live_in(variance)
        floored = torch.maximum(variance, floor_of(variance, variance_floor))
        preconditioner = preconditioner_of(floored, variance_correction, eps)
        variance.copy_(torch.where(variance > 0, preconditioner, -0.0))
        momentum.copy_(torch.where(is_live, (preconditioner * momentum if update else momentum) + 0.0, -0.0))

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
        u, layout = worker.u, exchange.layout
        go, dead = ~torch.isnan(step.values[GRADIENT_FACTOR]), is_marked(u)
        momentum = u if first else decode(exchange.shared, layout)
        error = torch.zeros_like(u) if first else error_of(u, worker.u_scale, layout)
        g = grad.float() * step.values[GRADIENT_FACTOR]
        new = (1 - beta1) * (g if preconditioner is None else g * preconditioner.float()) + beta1 * momentum
        new = torch.where(dead, -0.0, new + error)
        new_scale = scales_for(new, exchange.live, layout, l1)

        worker.ignored.add_(torch.where(go, (dead & (grad != 0)).sum(), 0))
        rows = padded(new, layout.n_chunks * layout.chunk).view(layout.n_chunks, -1)
        sent = new_scale.expand(layout.n_chunks) if layout.scale_block is None else new_scale
        TorchBackend._send(pack_rows(rows), sent.reshape(layout.n_chunks, -1), exchange.message, go)
        if keep_old:
            grad.copy_(torch.where(go, u, grad))
        u.copy_(torch.where(go, new, u))
        worker.u_scale.copy_(torch.where(go, new_scale, worker.u_scale))

    @staticmethod
    def _server(server: ServerState, exchange: Exchange, step: StepScalars, l1: bool) -> None:
        w, w_scale, received, layout = server.w, server.w_scale, exchange.received, exchange.layout
        go, dead, dim = ~torch.isnan(step.values[GRADIENT_FACTOR]), is_marked(w), w.shape[0]
        n_bytes = -(-dim // 8)
        sent_NC = unpack_rows(received[:, :n_bytes])[:, :dim]
        sent_NC = sent_NC * by_element(scales_of(received, layout.n_blocks), layout, dim)
        total = torch.zeros_like(w)
        for sent_C in sent_NC:
            total = total + sent_C
        n_workers = torch.full_like(w_scale[:1], received.shape[0])
        new = torch.where(dead, -0.0, total / n_workers + error_of(w, w_scale, layout))
        new_scale = scales_for(new, exchange.live_in(server.chunk), layout, l1)

        TorchBackend._send(pack_rows(padded(new, 8 * n_bytes)[None]), new_scale[None], exchange.reply[None], go)
        w.copy_(torch.where(go, new, w))
        w_scale.copy_(torch.where(go, new_scale, w_scale))

    @staticmethod
    def _apply(
        params: Tensor,
        preconditioner: Tensor | None,
        exchange: Exchange,
        step: StepScalars,
        params_copy: Tensor | None,
        live_bits: Tensor | None,
    ) -> None:
        go = ~torch.isnan(step.values[GRADIENT_FACTOR])
        direction = decode(exchange.shared, exchange.layout) / step.values[MOMENTUM_CORRECTION]
        if preconditioner is not None:
            go, direction = go & ~is_marked(preconditioner), preconditioner.float() * direction
        elif live_bits is not None:
            go = go & (unpack_rows(live_bits[None])[0][: params.shape[0]] > 0)
        TorchBackend._descend(params, direction, go, step, params_copy)

    @staticmethod
    def _decode(exchange: Exchange, preconditioner: Tensor | None, values: Tensor) -> None:
        momentum = decode(exchange.shared, exchange.layout)
        values.copy_(momentum if preconditioner is None else torch.where(preconditioner == 0, 0.0, momentum))

    @staticmethod
    def _descend(params: Tensor, direction: Tensor, go: Tensor, step: StepScalars, params_copy: Tensor | None) -> None:
        """x <- x - gamma (direction + lambda x) where ``go``; where the copy was changed, from there."""
        x = master_of(params, params_copy)
        moved = x - step.values[LR] * (direction + step.values[WEIGHT_DECAY] * x)
        params.copy_(torch.where(go, moved, x))
        if params_copy is not None:
            params_copy.copy_(params)

    @staticmethod
    def _send(bits_RB: Tensor, scales_RK: Tensor, message: Tensor, go: Tensor) -> None:
        """Write bits and scales into the rows of a message."""
        rows = torch.zeros_like(message)
        rows[:, : bits_RB.shape[1]] = bits_RB
        scales_of(rows, scales_RK.shape[1]).copy_(scales_RK)
        message.copy_(torch.where(go, rows, message))
