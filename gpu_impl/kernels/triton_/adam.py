"""adam: the warm-up step, fused; there is one rung, for nothing in it needs tuning beyond wide loads."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

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
from gpu_impl.kernels.triton_.launch import cdiv, launch

BLOCK = 1024


@triton.jit
def adam_block(
    parameters,
    momentum,
    variance,
    grad,
    copy,
    step,
    at,
    n,
    factor,
    beta1,
    complement1,
    beta2,
    complement2,
    eps,
    COPY: tl.constexpr,
    MASKED: tl.constexpr,
):
    """m, v and x on one block."""
    g = load_elements(grad, at, n, 0.0, MASKED) * factor
    m = beta1 * load_elements(momentum, at, n, 0.0, MASKED) + complement1 * g
    v = beta2 * load_elements(variance, at, n, 0.0, MASKED) + complement2 * (g * g)
    root = tl.sqrt_rn(tl.div_rn(v, tl.zeros_like(v) + tl.load(step + VARIANCE_CORRECTION)))
    preconditioner = tl.div_rn(tl.zeros_like(v) + 1.0, root + eps)
    direction = preconditioner * tl.div_rn(m, tl.zeros_like(m) + tl.load(step + MOMENTUM_CORRECTION))
    x = load_params(parameters, copy, at, n, COPY, MASKED)
    moved = x - tl.load(step + LR) * (direction + tl.load(step + WEIGHT_DECAY) * x)
    store_elements(momentum, at, n, m, MASKED)
    store_elements(variance, at, n, v, MASKED)
    store_elements(parameters, at, n, moved, MASKED)
    if COPY:
        store_elements(copy, at, n, moved, MASKED)


@triton.jit(do_not_specialize=("dim",))
def adam(
    parameters,
    momentum,
    variance,
    grad,
    copy,
    step,
    dim,
    beta1,
    complement1,
    beta2,
    complement2,
    eps,
    COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program p: block p."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    first = tl.program_id(0).to(tl.int64) * BLOCK
    at = first + tl.arange(0, BLOCK)
    if first + BLOCK <= dim:
        adam_block(
            parameters,
            momentum,
            variance,
            grad,
            copy,
            step,
            at,
            dim,
            factor,
            beta1,
            complement1,
            beta2,
            complement2,
            eps,
            COPY,
            False,
        )
    else:
        adam_block(
            parameters,
            momentum,
            variance,
            grad,
            copy,
            step,
            at,
            dim,
            factor,
            beta1,
            complement1,
            beta2,
            complement2,
            eps,
            COPY,
            True,
        )


def launch_adam(
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
    """As :meth:`gpu_impl.Backend.adam` says."""
    launch(
        adam,
        (cdiv(params.shape[0], BLOCK),),
        params,
        momentum,
        variance,
        grad,
        params_copy,
        step.values,
        params.shape[0],
        beta1,
        1 - beta1,
        beta2,
        1 - beta2,
        eps,
        COPY=params_copy is not None,
        BLOCK=BLOCK,
    )
