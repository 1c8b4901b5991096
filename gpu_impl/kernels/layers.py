"""Layers of a flat buffer: consecutive parts of it, one a parameter, each with the padding behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

BLOCK = 16384
"""Elements of a partial sum at most, as in vector.h; counted from the start of a layer."""


@dataclass(frozen=True, eq=False)
class Layers:
    """Where they lie.

    Attributes:
        sizes: elements of each layer.
        device: where numbers of layers are.
    """

    sizes: tuple[int, ...]
    device: torch.device

    @classmethod
    def of(cls, sizes: Sequence[int], device: torch.device | str = "cpu") -> Layers:
        """Layers of these sizes."""
        return cls(tuple(sizes), torch.device(device))

    @property
    def dim(self) -> int:
        """D, elements of all layers."""
        return sum(self.sizes)

    @cached_property
    def lengths(self) -> Tensor:
        """The sizes (L,) int64."""
        return torch.tensor(self.sizes, dtype=torch.int64, device=self.device)

    @cached_property
    def tasks(self) -> Tensor:
        """Parts of one layer (K, 3) int64: first element, the one behind the last, layer; at most a block each."""
        starts = [0, *accumulate(self.sizes)]
        rows = [
            (start + at, start + min(at + BLOCK, size), layer)
            for layer, (start, size) in enumerate(zip(starts, self.sizes, strict=False))
            for at in range(0, size, BLOCK)
        ]
        return torch.tensor(rows, dtype=torch.int64, device=self.device).view(-1, 3)

    @cached_property
    def parts(self) -> Tensor:
        """The number of tasks of each layer (L,) int64."""
        return torch.tensor([-(-size // BLOCK) for size in self.sizes], dtype=torch.int64, device=self.device)

    @cached_property
    def are_aligned(self) -> bool:
        """Whether every layer starts and ends at a multiple of eight elements, as those of an optimizer do."""
        return all(size % 8 == 0 for size in self.sizes)

    def spread(self, values: Tensor) -> Tensor:
        """For each element the number of its layer (D,), of (L,)."""
        return values.repeat_interleave(self.lengths, output_size=self.dim)

    def reduce(self, values: Tensor, how: str) -> Tensor:
        """The "sum" or "max" over each layer (L,) of ``values`` (D,)."""
        return segment_reduce(values, how, self.lengths)


def segment_reduce(values: Tensor, how: str, lengths: Tensor) -> Tensor:
    """The "sum" or "max" over each of the consecutive parts of these lengths (L,) of ``values``, of one dimension.

    A GPU reduces those by many threads each, those of several dimensions by one; and that the lengths fit is not asked
    again, for the answer would stop it.
    """
    return torch.segment_reduce(values, how, lengths=lengths, unsafe=True)
