"""The launcher of ``decode.c``."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gpu_impl.kernels.cpu.call import Keep, Launcher, code_of, preconditioner_arguments
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import Exchange


def _record(keep: Keep, exchange: Exchange, preconditioner: Tensor | None, values: Gradient) -> tuple[Any, ...]:
    return (
        *keep.pieces(values),
        code_of(values),
        *preconditioner_arguments(preconditioner),
        exchange.addresses[-1],
        *exchange.sizes,
    )


decode = Launcher("onebit_decode", "pllipipllllll", _record)
"""As :meth:`gpu_impl.Backend.decode` says."""
