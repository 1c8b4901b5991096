"""Identity: C(u) = u, 32 bits a coordinate. With it 1-bit Adam is Adam with a frozen variance [L3]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference.arithmetic import Array
from reference.compressors.base import SCALAR_BYTES, Compressor, Message


@dataclass(frozen=True)
class DenseMessage(Message):
    """The numbers themselves."""

    values_D: Array

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.values_D.size

    @property
    def nbytes(self) -> int:
        return SCALAR_BYTES * self.dim

    def chunk(self, part: slice) -> DenseMessage:
        return DenseMessage(self.values_D[part])

    def decode(self) -> Array:
        return self.values_D.copy()


@dataclass(frozen=True)
class Identity(Compressor):
    """C(u) = u."""

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> DenseMessage:
        return DenseMessage(u_D.copy())
