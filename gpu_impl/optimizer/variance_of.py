"""The freeze undone: a v from which P comes out to the bit, for states that have v where a run has P."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.kernels.arithmetic import preconditioner_of
from gpu_impl.kernels.marks import is_marked
from gpu_impl.kernels.state import F32, SMALLEST

INFINITY_BITS = 0x7F800000
"""Infinity in float32."""


def variance_of(preconditioner: Tensor, eps: float, correction: float, dtype: torch.dtype = F32) -> Tensor:
    """A v (D,) that ``freeze`` turns into exactly this P (D,) float32, once rounded to ``dtype``; 0 where dead."""
    dead = is_marked(preconditioner)
    wanted = torch.where(dead, 1.0, preconditioner)
    root = (1 / wanted.double() - eps).clamp(min=0)
    v = (root * root * correction).to(F32).clamp(min=SMALLEST)  # nearly always right
    wrong = ~dead & (_rounded(v, correction, eps, dtype) != wanted)
    if bool(wrong.any()):
        v[wrong] = _searched(wanted[wrong], eps, correction, dtype)
    return torch.where(dead, 0.0, v)


def _rounded(v: Tensor, correction: float, eps: float, dtype: torch.dtype) -> Tensor:
    """P of this v, in float32."""
    return preconditioner_of(v, correction, eps).to(dtype).float()


def _searched(wanted: Tensor, eps: float, correction: float, dtype: torch.dtype) -> Tensor:
    """The least v whose P is at most ``wanted``: P falls with v, and each of its roundings keeps the order.

    Positive floats are in the order of their bits, so halving an interval of bit patterns 31 times finds one.
    """
    low = torch.ones_like(wanted, dtype=torch.int32)
    high = torch.full_like(low, INFINITY_BITS)
    for _ in range(31):
        middle = low + (high - low) // 2
        too_small = _rounded(middle.view(F32), correction, eps, dtype) > wanted
        low, high = torch.where(too_small, middle + 1, low), torch.where(too_small, high, middle)
    v = high.view(F32)
    if not torch.equal(_rounded(v, correction, eps, dtype), wanted):
        raise RuntimeError("P can't be inverted: this is a bug in variance_of")
    return v
