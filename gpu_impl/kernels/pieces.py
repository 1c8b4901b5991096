"""A gradient where autograd left it: pieces of a flat buffer, each at an address of its own, read without a copy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import check_tensor
from gpu_impl.kernels.state import I64

START, STOP, ADDRESS = range(3)


@dataclass(frozen=True, eq=False)
class Pieces:
    """A flat gradient (D,) in the memory of the CPU that lies in pieces; what lies between them is 0.

    Attributes:
        table: a row a piece (n, 3) int64: its first element, the one behind its last, and its address, or 0 where the
            piece is 0. In the order of the elements. Addresses may change from step to step; who writes them keeps what
            is there alive.
        base: the element at which this gradient begins.
        dim: D.
        dtype: of all pieces.
    """

    table: Tensor
    base: int
    dim: int
    dtype: torch.dtype


Gradient = Tensor | Pieces


def check_gradient(
    grad: Gradient, dim: int, dtypes: torch.dtype | tuple[torch.dtype, ...], device: torch.device
) -> None:
    """Check a gradient argument.

    Raises:
        TypeError, ValueError: it is not of that length, of these dtypes or on that device.
    """
    if not isinstance(grad, Pieces):
        check_tensor("grad", grad, (dim,), dtypes, device)
        return
    check_tensor("table of grad", grad.table, (grad.table.shape[0], 3), I64, device)
    if grad.dim != dim:
        raise ValueError(f"grad must have shape {(dim,)}, got {(grad.dim,)}")
    allowed = dtypes if isinstance(dtypes, tuple) else (dtypes,)
    if grad.dtype not in allowed:
        raise TypeError(f"grad must have dtype {' or '.join(map(str, allowed))}, got {grad.dtype}")


def length_and_device(grad: Gradient) -> tuple[int, torch.device]:
    """D and where it is.

    Raises:
        TypeError, ValueError: no gradient, or an empty one.
    """
    if isinstance(grad, Pieces):
        return grad.dim, grad.table.device
    if not isinstance(grad, Tensor):
        raise TypeError(f"grad must be a torch.Tensor, got {type(grad).__name__}")
    if grad.ndim == 0 or not grad.shape[0]:
        raise ValueError(f"grad must be a flat buffer of at least one element, got shape {tuple(grad.shape)}")
    return grad.shape[0], grad.device
