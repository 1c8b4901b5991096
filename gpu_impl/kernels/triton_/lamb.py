"""lamb_moments and lamb_move: the two passes of a step of LAMB. A program works on a part of one layer."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.layers import BLOCK, Layers
from gpu_impl.kernels.state import F64
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LR,
    MOMENTUM_CORRECTION,
    VARIANCE_CORRECTION,
    WEIGHT_DECAY,
    load_elements,
    load_params,
    store_elements,
)
from gpu_impl.kernels.triton_.launch import launch

TILE = 1024


@triton.jit
def update_of(x, m, v, step, eps):
    """R = P (m / b1) + lambda x."""
    root = tl.sqrt_rn(tl.div_rn(v, tl.zeros_like(v) + tl.load(step + VARIANCE_CORRECTION)))
    preconditioner = tl.div_rn(tl.zeros_like(v) + 1.0, root + eps)
    m_hat = tl.div_rn(m, tl.zeros_like(m) + tl.load(step + MOMENTUM_CORRECTION))
    return preconditioner * m_hat + tl.load(step + WEIGHT_DECAY) * x


@triton.jit
def lamb_moments(
    parameters,
    momentum,
    variance,
    grad,
    copy,
    step,
    tasks,
    partials,
    beta1,
    complement1,
    beta2,
    complement2,
    eps,
    COPY: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program p: task p."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    start = tl.load(tasks + 3 * p)
    stop = tl.load(tasks + 3 * p + 1)
    of_x = tl.zeros([TILE], tl.float64)
    of_r = tl.zeros([TILE], tl.float64)
    for first in range(start, stop, TILE):
        at = first + tl.arange(0, TILE)
        g = load_elements(grad, at, stop, 0.0, True) * factor
        m = beta1 * load_elements(momentum, at, stop, 0.0, True) + complement1 * g
        v = beta2 * load_elements(variance, at, stop, 0.0, True) + complement2 * (g * g)
        store_elements(momentum, at, stop, m, True)
        store_elements(variance, at, stop, v, True)
        x = load_params(parameters, copy, at, stop, COPY, True)
        r = update_of(x, m, v, step, eps).to(tl.float64)
        wide = x.to(tl.float64)
        of_x += wide * wide
        of_r += r * r
    tl.store(partials + 2 * p, tl.sum(of_x, axis=0))
    tl.store(partials + 2 * p + 1, tl.sum(of_r, axis=0))


@triton.jit
def lamb_move(
    parameters,
    momentum,
    variance,
    copy,
    step,
    tasks,
    trust,
    eps,
    COPY: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program p: task p."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124
        return
    p = tl.program_id(0)
    start = tl.load(tasks + 3 * p)
    stop = tl.load(tasks + 3 * p + 1)
    ratio = tl.load(trust + tl.load(tasks + 3 * p + 2))
    for first in range(start, stop, TILE):
        at = first + tl.arange(0, TILE)
        x = load_params(parameters, copy, at, stop, COPY, True)
        m = load_elements(momentum, at, stop, 0.0, True)
        v = load_elements(variance, at, stop, 0.0, True)
        moved = x - tl.load(step + LR) * (update_of(x, m, v, step, eps) * ratio)
        store_elements(parameters, at, stop, moved, True)
        if COPY:
            store_elements(copy, at, stop, moved, True)


def launch_lamb_moments(
    params: Tensor,
    momentum: Tensor,
    variance: Tensor,
    grad: Tensor,
    step: StepScalars,
    layers: Layers,
    squares: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    params_copy: Tensor | None,
) -> None:
    """As :meth:`gpu_impl.kernels.family.FamilyKernels.lamb_moments` says."""
    tasks = layers.tasks
    partials = torch.zeros(tasks.shape[0], 2, dtype=F64, device=params.device)
    rows = (params, momentum, variance, grad, params_copy, step.values, tasks, partials)
    constants = (beta1, 1 - beta1, beta2, 1 - beta2, eps)
    launch(lamb_moments, (tasks.shape[0],), *rows, *constants, COPY=params_copy is not None, TILE=TILE)
    squares.copy_(torch.segment_reduce(partials, "sum", lengths=-(-layers.lengths // BLOCK), axis=0))


def launch_lamb_move(
    params: Tensor,
    momentum: Tensor,
    variance: Tensor,
    step: StepScalars,
    layers: Layers,
    trust: Tensor,
    eps: float,
    params_copy: Tensor | None,
) -> None:
    """As :meth:`gpu_impl.kernels.family.FamilyKernels.lamb_move` says."""
    tasks = layers.tasks
    rows = (params, momentum, variance, params_copy, step.values, tasks, trust)
    launch(lamb_move, (tasks.shape[0],), *rows, eps, COPY=params_copy is not None, TILE=TILE)
