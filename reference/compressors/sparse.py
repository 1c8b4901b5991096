"""A sparse message: the kept coordinates with their indices. What top-k and random-k send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import Array, is_exact, zeros
from reference.compressors.base import SCALAR_BYTES, Message


@dataclass(frozen=True)
class SparseMessage(Message):
    """``values_K`` at the ascending ``indices_K``; every other element decodes to 0."""

    indices_K: NDArray[np.int32]
    values_K: Array
    dim: int

    @property
    def nbytes(self) -> int:
        return 2 * SCALAR_BYTES * self.values_K.size

    def chunk(self, part: slice) -> SparseMessage:
        first, last = np.searchsorted(self.indices_K, (part.start, part.stop))
        return SparseMessage(
            self.indices_K[first:last] - np.int32(part.start), self.values_K[first:last], part.stop - part.start
        )

    def decode(self) -> Array:
        out_D = zeros(self.dim, self.values_K.dtype)
        out_D[self.indices_K] = self.values_K
        return out_D


def keep(u_D: Array, indices_K: NDArray[Any]) -> SparseMessage:
    """The message that keeps ``u_D`` at ``indices_K`` (any order)."""
    indices_K = np.sort(indices_K).astype(np.int32)
    return SparseMessage(indices_K, u_D[indices_K], u_D.size)


def largest(u_D: Array, count: int) -> NDArray[np.intp]:
    """Ascending indices of the ``count`` largest magnitudes (K,), all where there are fewer.

    Ties go to the larger index, so that the choice is deterministic; NaN counts as larger than any number.
    """
    magnitude_D, count = np.abs(u_D), min(count, u_D.size)
    if is_exact(u_D) or np.isnan(magnitude_D).any():
        return np.sort(np.argsort(magnitude_D, kind="stable")[u_D.size - count :])
    least = np.partition(magnitude_D, u_D.size - count)[u_D.size - count]  # the smallest that is kept
    above_K, equal_K = np.flatnonzero(magnitude_D > least), np.flatnonzero(magnitude_D == least)
    return np.sort(np.concatenate([above_K, equal_K[equal_K.size + above_K.size - count :]]))


def count_kept(density: float, dim: int) -> int:
    """How many of ``dim`` coordinates a density in (0, 1] keeps: at least one."""
    return max(1, math.ceil(density * dim))
