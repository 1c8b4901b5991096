"""The launcher of ``walk.c``."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gpu_impl.kernels.cpu.call import Keep, Launcher, address, code_of, copy_arguments
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.step_scalars import StepScalars


def _record(
    keep: Keep,
    params: Tensor,
    met: Tensor,
    walked: Tensor,
    momentum: Tensor,
    accumulated: Tensor,
    variance: Tensor,
    grad: Gradient,
    step: StepScalars,
    ignored: Tensor,
    floor: Tensor,
    beta1: float,
    eps: float,
    params_copy: Tensor | None,
) -> tuple[Any, ...]:
    return (
        *map(address, (params, met, walked, momentum, accumulated, variance)),
        *keep.pieces(grad),
        code_of(grad),
        *copy_arguments(params_copy),
        step.address,
        address(ignored),
        address(floor),
        params.shape[0],
        beta1,
        1 - beta1,
        eps,
    )


walk = Launcher("onebit_walk", "pppppppllipippplfff", _record)
"""As :meth:`gpu_impl.kernels.zero_one.ZeroOneKernels.walk` says."""
