"""The launchers of ``lamb.c``: one function in C makes either pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_impl.kernels.cpu.call import Keep, Launcher, address, code_of, copy_arguments
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.step_scalars import StepScalars

FIELDS = "ppp" + "plli" + "pi" + "p" + "plll" + "ppp" + "ffffff"
"""Parameters and state; gradient; copy; scalars; tasks; sums and trust ratios; constants."""


def _moments(
    keep: Keep,
    params: Tensor,
    momentum: Tensor,
    variance: Tensor,
    grad: Gradient,
    step: StepScalars,
    layers: Layers,
    squares: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    params_copy: Tensor | None,
) -> tuple[Any, ...]:
    partials = torch.empty(2 * layers.tasks.shape[0], dtype=torch.float64)
    keep += [partials, layers]
    return (
        *map(address, (params, momentum, variance)),
        *keep.pieces(grad),
        code_of(grad),
        *copy_arguments(params_copy),
        step.address,
        *tasks_of(layers),
        address(partials),
        address(squares),
        None,
        0.0,
        beta1,
        1 - beta1,
        beta2,
        1 - beta2,
        eps,
    )


def _move(
    keep: Keep,
    params: Tensor,
    momentum: Tensor,
    variance: Tensor,
    step: StepScalars,
    layers: Layers,
    trust: Tensor,
    eps: float,
    params_copy: Tensor | None,
    frozen_correction: float | None,
) -> tuple[Any, ...]:
    keep.append(layers)
    return (
        *map(address, (params, momentum, variance)),
        *(None, 0, 0, 0),
        *copy_arguments(params_copy),
        step.address,
        *tasks_of(layers),
        *(None, None, address(trust)),
        frozen_correction or 0.0,
        *(0.0, 0.0, 0.0, 0.0, eps),
    )


def tasks_of(layers: Layers) -> tuple[int, int, int, int]:
    """Address and number of the tasks, number of layers, elements."""
    return layers.tasks.data_ptr(), layers.tasks.shape[0], len(layers.sizes), layers.dim


lamb_moments = Launcher("onebit_lamb", FIELDS, _moments)
"""As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_moments` says."""

lamb_move = Launcher("onebit_lamb", FIELDS, _move)
"""As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_move` says."""
