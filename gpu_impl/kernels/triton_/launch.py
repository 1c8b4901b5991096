"""How a launcher starts a Triton kernel: on the current stream, and nothing waits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_impl.kernels.state import F64
from gpu_impl.kernels.triton_.elements import LAUNCH

WORDS = torch.int32
"""What messages are seen as."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Launch a kernel; ``num_warps`` among the options says how many it has, where it is not the usual number."""
    kernel[grid](*arguments, **(LAUNCH | options))


def cdiv(n: int, block: int) -> int:
    """Blocks of a buffer."""
    return -(-n // block)


def is_power_of_two(n: int) -> bool:
    """Whether 1/n is a number in binary, so that a product with it is the quotient."""
    return n & (n - 1) == 0


def partials_of(length: int, n_chunks: int, span: int, device: torch.device) -> tuple[tuple[int, int], Tensor, Tensor]:
    """The grid over ``n_chunks`` chunks, and one partial sum and one count for each of its programs."""
    grid = (cdiv(length, span), n_chunks)
    sums = torch.empty(grid[0] * grid[1], dtype=F64, device=device)
    return grid, sums, torch.empty_like(sums, dtype=torch.int32)
