"""The launchers of ``lamb_compressed.c``: one function in C works before the exchange, or after it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_impl.kernels.cpu.call import Keep, Launcher, address, code_of
from gpu_impl.kernels.cpu.lamb import tasks_of
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.pieces import Gradient

FIELDS = "ppppp" + "plli" + "plll" + "pppp" + "fffff" + "d"
"""State; gradient; tasks; scales, ratios and a count; constants."""


def _form(
    keep: Keep,
    u: Tensor,
    momentum: Tensor,
    buffer: Tensor,
    grad: Gradient,
    layers: Layers,
    scale: Tensor,
    ignored: Tensor,
    factor: float,
    beta1: float,
) -> tuple[Any, ...]:
    keep.append(layers)
    return (
        *map(address, (u, momentum, buffer)),
        *(None, None),
        *keep.pieces(grad),
        code_of(grad),
        *tasks_of(layers),
        *(address(scale), None, None, address(ignored)),
        *(factor, beta1, 1 - beta1, 0.0, 0.0),
        0.0,
    )


def _refresh(
    keep: Keep,
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
) -> tuple[Any, ...]:
    partials = torch.empty(layers.tasks.shape[0], dtype=torch.float64)
    keep += [partials, layers]
    return (
        *map(address, (u, momentum, buffer, fresh, variance)),
        *(None, 0, 0, 0),
        *tasks_of(layers),
        *(address(scale), address(partials), address(largest), None),
        *(0.0, beta1, 1 - beta1, beta2, 1 - beta2),
        eps,
    )


lamb_form = Launcher("onebit_lamb_compressed", FIELDS, _form)
"""As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_form` says."""

lamb_refresh = Launcher("onebit_lamb_compressed", FIELDS, _refresh)
"""As :meth:`gpu_impl.kernels.lamb.LambKernels.lamb_refresh` says."""
