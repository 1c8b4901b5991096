"""Dead coordinates [C6] in u, w and P: where the mark is, the bit pattern of -0.0, and what follows from it."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.kernels.layout import Layout, in_blocks
from gpu_impl.kernels.state import F32, F64, I64, U8


def is_marked(values: Tensor) -> Tensor:
    """Where ``values`` (float32 or bfloat16) is exactly -0.0, the mark of a dead coordinate."""
    bits = torch.int32 if values.dtype == F32 else torch.int16
    return values.view(bits) == torch.iinfo(bits).min


def live_in(variance: Tensor) -> Tensor:
    """Where v > 0 and has not overflowed (D,)."""
    return (variance > 0) & torch.isfinite(variance)


def floor_of(variance: Tensor, variance_floor: float) -> Tensor:
    """kappa times the mean of live v, () float32 [C7]."""
    live = live_in(variance)
    mean = torch.where(live, variance, 0.0).sum(dtype=F64) / live.sum().clamp(min=1)
    return (variance_floor * mean).to(F32)


def live_counts(u: Tensor, layout: Layout) -> Tensor:
    """How many coordinates of u (D,) are live in each chunk, or in each block of it [C13]: (n_chunks * K,) int64."""
    return in_blocks(~is_marked(u), layout, layout.n_chunks).sum(dim=1, dtype=I64)


def live_bits_of(preconditioner: Tensor) -> Tensor | None:
    """A bit for every live coordinate of P (D,), bit k of byte b for element 8b + k; None where all are live.

    Waits for a GPU.
    """
    dead = is_marked(preconditioner)
    if not bool(dead.any()):
        return None
    live = torch.nn.functional.pad(~dead, (0, -dead.shape[0] % 8)).view(-1, 8)
    weights = 2 ** torch.arange(8, dtype=U8, device=dead.device)
    return (live * weights).sum(dim=1, dtype=U8)


def has_overflown(preconditioner: Tensor) -> bool:
    """Whether P (D,) is 0 somewhere without a mark, for v has overflowed there. Waits for a GPU."""
    return bool(((preconditioner == 0) & ~is_marked(preconditioner)).any())


def moves_of(preconditioner: Tensor) -> Tensor:
    """What ``apply`` needs in place of P (D,) for y-bar = P m-bar [C12]: 1, or P itself where it is 0 or marked."""
    return torch.where(preconditioner == 0, preconditioner, 1.0)
