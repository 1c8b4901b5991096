"""The passes of a step of LAMB and of 1-bit LAMB. A program works on a part of one layer."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.layers import Layers, segment_reduce
from gpu_impl.kernels.state import F64
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.elements import (
    GRADIENT_FACTOR,
    LR,
    MARK,
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
def edge(pointer, ALIGNED: tl.constexpr):
    """An element that a task begins or ends at. ALIGNED: known to be a multiple of 8, so masked loads are 16 bytes."""
    element = tl.load(pointer)
    return tl.multiple_of(element, 8) if ALIGNED else element


@triton.jit
def update_of(x, m, v, step, variance_correction, eps):
    """R = P (m / b1) + lambda x."""
    root = tl.sqrt_rn(tl.div_rn(v, tl.zeros_like(v) + variance_correction))
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
    ALIGNED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program p: task p."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    start = edge(tasks + 3 * p, ALIGNED)
    stop = edge(tasks + 3 * p + 1, ALIGNED)
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
        r = update_of(x, m, v, step, tl.load(step + VARIANCE_CORRECTION), eps).to(tl.float64)
        wide = x.to(tl.float64)
        of_x += wide * wide
        of_r += r * r
    tl.store(partials + p, tl.sum(of_x, axis=0))
    tl.store(partials + tl.num_programs(0) + p, tl.sum(of_r, axis=0))


@triton.jit
def lamb_move(
    parameters,
    momentum,
    variance,
    copy,
    step,
    tasks,
    trust,
    frozen_correction,
    eps,
    COPY: tl.constexpr,
    FROZEN: tl.constexpr,
    ALIGNED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program p: task p."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124
        return
    p = tl.program_id(0)
    start = edge(tasks + 3 * p, ALIGNED)
    stop = edge(tasks + 3 * p + 1, ALIGNED)
    ratio = tl.load(trust + tl.load(tasks + 3 * p + 2))
    correction = frozen_correction if FROZEN else tl.load(step + VARIANCE_CORRECTION)
    for first in range(start, stop, TILE):
        at = first + tl.arange(0, TILE)
        x = load_params(parameters, copy, at, stop, COPY, True)
        m = load_elements(momentum, at, stop, 0.0, True)
        v = load_elements(variance, at, stop, 0.0, True)
        moved = x - tl.load(step + LR) * (update_of(x, m, v, step, correction, eps) * ratio)
        if FROZEN:
            moved = tl.where(v == 0, x, moved)  # [C6]
        store_elements(parameters, at, stop, moved, True)
        if COPY:
            store_elements(copy, at, stop, moved, True)


@triton.jit
def lamb_form(
    u,
    momentum,
    buffer,
    grad,
    tasks,
    scale,
    counts,
    factor,
    beta1,
    complement1,
    ALIGNED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program p: task p."""
    p = tl.program_id(0)
    start = edge(tasks + 3 * p, ALIGNED)
    stop = edge(tasks + 3 * p + 1, ALIGNED)
    s = tl.load(scale + tl.load(tasks + 3 * p + 2))
    count = tl.zeros([TILE], tl.int32)
    for first in range(start, stop, TILE):
        at = first + tl.arange(0, TILE)
        dead = load_elements(u, at, stop, 0.0, True).to(tl.int32, bitcast=True) == MARK
        g = load_elements(grad, at, stop, 0.0, True) * factor
        wanted = s * (beta1 * load_elements(momentum, at, stop, 0.0, True) + complement1 * g)
        store_elements(buffer, at, stop, tl.where(dead, 0.0, wanted), True)
        count += (dead & (g != 0)).to(tl.int32)
    tl.store(counts + p, tl.sum(count, axis=0))


@triton.jit
def larger(a, b):
    """The larger one, or NaN if there is one."""
    return tl.where((b > a) | (b != b), b, a)  # noqa: PLR0124


@triton.jit
def lamb_refresh(
    u,
    momentum,
    fresh,
    buffer,
    variance,
    tasks,
    scale,
    partials,
    wide_eps,
    beta1,
    complement1,
    beta2,
    complement2,
    ALIGNED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program p: task p."""
    p = tl.program_id(0)
    start = edge(tasks + 3 * p, ALIGNED)
    stop = edge(tasks + 3 * p + 1, ALIGNED)
    s = tl.load(scale + tl.load(tasks + 3 * p + 2))
    eps = tl.load(wide_eps)
    largest = tl.zeros([TILE], tl.float64)
    for first in range(start, stop, TILE):
        at = first + tl.arange(0, TILE)
        dead = load_elements(u, at, stop, 0.0, True).to(tl.int32, bitcast=True) == MARK
        average = tl.where(dead, 0.0, load_elements(buffer, at, stop, 0.0, True))
        mean = tl.div_rn(average, tl.zeros_like(average) + s)
        apart = mean - beta1 * load_elements(momentum, at, stop, 0.0, True)
        rebuilt = tl.div_rn(apart, tl.zeros_like(apart) + complement1)
        new = beta2 * load_elements(fresh, at, stop, 0.0, True) + complement2 * (rebuilt * rebuilt)
        store_elements(momentum, at, stop, mean, True)
        store_elements(fresh, at, stop, new, True)
        v = load_elements(variance, at, stop, 0.0, True)
        ratio = (tl.sqrt(v.to(tl.float64)) + eps) / (tl.sqrt(new.to(tl.float64)) + eps)
        largest = larger(largest, tl.where((v > 0) & (v < float("inf")), ratio, 0.0))
    tl.store(partials + p, tl.reduce(largest, 0, larger))


def shape_of(layers: Layers) -> dict[str, Any]:
    """What the kernels are compiled for."""
    return {"ALIGNED": layers.are_aligned, "TILE": TILE}


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
    """As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_moments` says."""
    tasks = layers.tasks
    partials = torch.zeros(2 * tasks.shape[0], dtype=F64, device=params.device)
    rows = (params, momentum, variance, grad, params_copy, step.values, tasks, partials)
    constants = (beta1, 1 - beta1, beta2, 1 - beta2, eps)
    launch(lamb_moments, (tasks.shape[0],), *rows, *constants, COPY=params_copy is not None, **shape_of(layers))
    squares.copy_(segment_reduce(partials, "sum", layers.parts.repeat(2)).view(2, -1).T)


def launch_lamb_move(
    params: Tensor,
    momentum: Tensor,
    variance: Tensor,
    step: StepScalars,
    layers: Layers,
    trust: Tensor,
    eps: float,
    params_copy: Tensor | None,
    frozen_correction: float | None,
) -> None:
    """As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_move` says."""
    tasks = layers.tasks
    rows = (params, momentum, variance, params_copy, step.values, tasks, trust)
    correction, how = (
        frozen_correction or 0.0,
        {"COPY": params_copy is not None, "FROZEN": frozen_correction is not None},
    )
    launch(lamb_move, (tasks.shape[0],), *rows, correction, eps, **how, **shape_of(layers))


def launch_lamb_form(
    u: Tensor,
    momentum: Tensor,
    buffer: Tensor,
    grad: Tensor,
    layers: Layers,
    scale: Tensor,
    ignored: Tensor,
    factor: float,
    beta1: float,
) -> None:
    """As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_form` says."""
    tasks = layers.tasks
    counts = torch.zeros(tasks.shape[0], dtype=torch.int32, device=u.device)
    rows = (u, momentum, buffer, grad, tasks, scale, counts)
    launch(lamb_form, (tasks.shape[0],), *rows, factor, beta1, 1 - beta1, **shape_of(layers))
    ignored.add_(counts.sum())


def launch_lamb_refresh(
    u: Tensor,
    momentum: Tensor,
    fresh: Tensor,
    buffer: Tensor,
    variance: Tensor,
    layers: Layers,
    scale: Tensor,
    largest: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_refresh` says."""
    tasks = layers.tasks
    wide_eps = torch.full((1,), eps, dtype=F64, device=u.device)  # numbers are passed in float32
    partials = torch.zeros(tasks.shape[0], dtype=F64, device=u.device)
    rows = (u, momentum, fresh, buffer, variance, tasks, scale, partials, wide_eps)
    launch(lamb_refresh, (tasks.shape[0],), *rows, beta1, 1 - beta1, beta2, 1 - beta2, **shape_of(layers))
    largest.copy_(segment_reduce(partials, "max", layers.parts))
