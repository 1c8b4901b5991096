"""What makes a method of a backend: a check of the arguments, and the computation of the same name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from torch import Tensor

from gpu_impl.kernels.arguments import FLOATS, check_tensor
from gpu_impl.kernels.state import F32
from gpu_impl.kernels.step_scalars import StepScalars

Arguments = tuple[Any, ...] | None
"""Of a computation, checked; None: there is nothing to do."""

P = ParamSpec("P")

CHECKS: dict[str, Callable[..., Arguments]] = {}
"""By kernel: what makes the arguments of its computation from those of the method."""


def kernel(check: Callable[Concatenate[Any, P], Arguments]) -> Callable[Concatenate[Any, P], None]:
    """The method of a kernel, from its check: computes with what that returns."""
    name = check.__name__
    CHECKS[name] = check

    @functools.wraps(check)
    def method(self: Any, *given: P.args, **named: P.kwargs) -> None:
        arguments = check(self, *given, **named)
        if arguments is not None:
            getattr(self, f"_{name}")(*arguments)

    return method


def check_params(params: Tensor, params_copy: Tensor | None, step: StepScalars, dim: int) -> None:
    """Check parameters (D,), their 16-bit copy, if there is one, and where the scalars are.

    Raises:
        TypeError, ValueError: one of them does not fit.
    """
    check_tensor("params", params, (dim,), FLOATS)
    if params.device != step.device:
        raise ValueError(f"step must be on {params.device} like the other arguments, got {step.device}")
    if params_copy is not None:
        if params.dtype != F32:
            raise TypeError(f"params_copy needs float32 params, the master copy, got {params.dtype}")
        check_tensor("params_copy", params_copy, (dim,), FLOATS[1:], params.device)
