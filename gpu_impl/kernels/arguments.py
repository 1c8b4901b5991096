"""Checks of kernel arguments: one sentence that names the argument, what it must be, and what was given."""

from __future__ import annotations

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
SCALES = ("l1", "l2")
FROZEN_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""What P can be rounded to at the freeze [C14]."""


def check_tensor(
    name: str,
    tensor: Tensor,
    shape: tuple[int, ...],
    dtypes: torch.dtype | tuple[torch.dtype, ...],
    device: torch.device | None = None,
    *,
    contiguous: bool = True,
) -> None:
    """Check a kernel argument: kernels see raw memory, so nothing is converted or copied behind the caller's back.

    Raises:
        TypeError: no tensor, or the wrong dtype or layout.
        ValueError: wrong shape, not contiguous, or on another device than ``device``.
    """
    if (
        isinstance(tensor, Tensor)
        and tensor.shape == shape
        and (tensor.dtype is dtypes or (isinstance(dtypes, tuple) and tensor.dtype in dtypes))
        and tensor.layout is torch.strided
        and (tensor.is_contiguous() or not contiguous)
        and (device is None or tensor.device == device)
    ):
        return
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    allowed = dtypes if isinstance(dtypes, tuple) else (dtypes,)
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} must be dense, got layout {tensor.layout}")
    if tensor.dtype not in allowed:
        wanted = " or ".join(str(dtype) for dtype in allowed)
        raise TypeError(f"{name} must have dtype {wanted}, got {tensor.dtype}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
    if contiguous and not tensor.is_contiguous():
        raise ValueError(f"{name} must be contiguous: pass {name}.contiguous(), or a slice of one flat buffer")
    if device is not None and tensor.device != device:
        raise ValueError(f"{name} must be on {device} like the other arguments, got {tensor.device}")


def check_scale(scale: str) -> None:
    """Raise ValueError unless ``scale`` is "l1" or "l2" [C1]."""
    if scale not in SCALES:
        raise ValueError(f"scale must be 'l1' or 'l2', got {scale!r}")


def check_scale_block(scale_block: int | None) -> None:
    """Raise ValueError unless ``scale_block`` is None or a multiple of 8 [C13]."""
    if scale_block is None:
        return
    whole = isinstance(scale_block, int) and not isinstance(scale_block, bool)
    if not whole or not 8 <= scale_block < 2**63 or scale_block % 8:  # an offset of elements has 64 bits
        below = " below 2^63" if whole and scale_block >= 2**63 else ""
        hint = ": write .item() behind it for Python's number" if hasattr(scale_block, "item") else ""
        raise ValueError(f"scale_block must be None or a positive multiple of 8{below}, got {scale_block!r}{hint}")


def check_beta(name: str, beta: float) -> None:
    """Raise ValueError unless 0 <= beta < 1."""
    if not 0 <= beta < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {beta!r}")
