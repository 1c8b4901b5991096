"""Operations of the readable kernels whose rounding is no matter of course."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.kernels.state import F32


def root(v: Tensor) -> Tensor:
    """Correctly rounded square root: torch's float32 one is off by a unit in the last place on the CPU (MKL's VML)."""
    return torch.sqrt(v.double()).to(F32)  # 53 >= 2*24 + 2 bits: rounding twice is rounding once (Figueroa 1995)


def preconditioner_of(v: Tensor, correction: float, eps: float) -> Tensor:
    """P = 1 / (sqrt(v / b2) + eps)."""
    return 1 / (root(v / torch.full_like(v[:1], correction)) + eps)


def master_of(params: Tensor, params_copy: Tensor | None) -> Tensor:
    """x in float32 (D,): the parameters, or their 16-bit copy where that was changed since it was rounded from them."""
    x = params.float()
    if params_copy is None:
        return x
    return torch.where(params.to(params_copy.dtype) == params_copy, x, params_copy.float())
