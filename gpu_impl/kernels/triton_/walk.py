"""walk: a step of 0/1 Adam in which no worker is met, fused."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.elements import GRADIENT_FACTOR, LR, WEIGHT_DECAY, load_elements, store_elements
from gpu_impl.kernels.triton_.launch import cdiv, launch

BLOCK = 1024


@triton.jit
def walk(
    parameters,
    met,
    walked,
    momentum,
    accumulated,
    variance,
    grad,
    copy,
    step,
    floor,
    counts,
    dim,
    beta1,
    complement1,
    eps,
    COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program p: block p."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    p = tl.program_id(0)
    at = p.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = load_elements(met, at, dim, 0.0, True)
    w = load_elements(walked, at, dim, 0.0, True)
    v = load_elements(variance, at, dim, 0.0, True)
    live = (v > 0) & (v < float("inf"))
    g = load_elements(grad, at, dim, 0.0, True)
    m = beta1 * load_elements(momentum, at, dim, 0.0, True) + complement1 * (g * factor)
    gamma = tl.load(step + LR)
    u = load_elements(accumulated, at, dim, 0.0, True) + gamma * m
    lowest = tl.load(floor)
    root = tl.sqrt_rn(tl.where(v > lowest, v, lowest))
    preconditioner = tl.div_rn(tl.zeros_like(v) + 1.0, root + eps)
    w = w + gamma * (preconditioner * m + tl.load(step + WEIGHT_DECAY) * x)
    w = tl.where(live, w, 0.0)
    store_elements(momentum, at, dim, m, True)
    store_elements(accumulated, at, dim, u, True)
    store_elements(walked, at, dim, w, True)
    store_elements(parameters, at, dim, x - w, True)
    if COPY:
        store_elements(copy, at, dim, x - w, True)
    tl.store(counts + p, tl.sum(((live == 0) & (g != 0)).to(tl.int32), axis=0))


def launch_walk(
    params: Tensor,
    met: Tensor,
    walked: Tensor,
    momentum: Tensor,
    accumulated: Tensor,
    variance: Tensor,
    grad: Tensor,
    step: StepScalars,
    ignored: Tensor,
    floor: Tensor,
    beta1: float,
    eps: float,
    params_copy: Tensor | None,
) -> None:
    """As :meth:`gpu_impl.kernels.zero_one.ZeroOneKernels.walk` says."""
    n = cdiv(params.shape[0], BLOCK)
    counts = torch.zeros(n, dtype=torch.int32, device=params.device)
    rows = (params, met, walked, momentum, accumulated, variance, grad, params_copy, step.values, floor, counts)
    constants = (params.shape[0], beta1, 1 - beta1, eps)
    launch(walk, (n,), *rows, *constants, COPY=params_copy is not None, BLOCK=BLOCK)
    ignored.add_(counts.sum())
