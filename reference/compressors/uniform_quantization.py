"""Uniform k-bit quantisation: 2L + 1 equally spaced levels on [-max|u|, max|u|], L = 2^(k-1) - 1, nearest level.

C(u) = h * rint(u / h)    h = max|u| / L      ||u - C(u)||_inf <= h / 2
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reference import arguments
from reference.arithmetic import Array, is_exact
from reference.bits import Bytes
from reference.compressors.base import SCALAR_BYTES, Compressor, Message


@dataclass(frozen=True)
class LevelsMessage(Message):
    """k bit planes of the level numbers shifted to 0 ... 2L, each packed like signs [C4], and the spacing h."""

    planes_KB: Bytes
    spacing: Any
    dim: int

    @property
    def nbytes(self) -> int:
        return self.planes_KB.nbytes + SCALAR_BYTES

    def chunk(self, part: slice) -> LevelsMessage:
        columns = slice(part.start // 8, -(-part.stop // 8))
        return replace(self, planes_KB=self.planes_KB[:, columns], dim=part.stop - part.start)

    def decode(self) -> Array:
        k = len(self.planes_KB)
        planes_KD = np.unpackbits(self.planes_KB, axis=1, count=self.dim, bitorder="little")
        weights_K = 2 ** np.arange(k, dtype=np.int16)
        levels_D = weights_K @ planes_KD.astype(np.int16) - np.int16(2 ** (k - 1) - 1)
        return levels_D.astype(self.spacing.dtype) * self.spacing


@dataclass(frozen=True)
class UniformQuantization(Compressor):
    """Nearest of 2^k - 1 equally spaced levels, 2 <= k <= 8; 0 is a level, so a zero stays a zero."""

    n_bits: int = 4

    def __post_init__(self) -> None:
        arguments.integer("n_bits", self.n_bits, 2)
        if self.n_bits > 8:
            raise ValueError(f"n_bits must lie in 2 ... 8, got {self.n_bits!r}")

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> LevelsMessage:
        if is_exact(u_D):
            raise TypeError("uniform quantisation rounds: it takes float32 or float64, not Fractions")
        top = 2 ** (self.n_bits - 1) - 1
        largest = np.abs(u_D).max()
        # u / max|u| first: the quotient u / h could overflow where h is subnormal.
        unit_D = u_D / largest if largest > 0 else np.zeros_like(u_D)
        levels_D = (np.rint(unit_D * top) + top).astype(np.uint8)
        planes_KD = (levels_D >> np.arange(self.n_bits, dtype=np.uint8)[:, None]) & np.uint8(1)
        return LevelsMessage(np.packbits(planes_KD, axis=1, bitorder="little"), largest / u_D.dtype.type(top), u_D.size)
