"""Top-k: keep the k largest magnitudes (Stich et al. 2018, arXiv 1809.07599). ||u - C(u)||^2 <= (1 - k/D) ||u||^2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference import arguments
from reference.arithmetic import Array
from reference.compressors.base import Compressor
from reference.compressors.sparse import SparseMessage, count_kept, keep, largest


@dataclass(frozen=True)
class TopK(Compressor):
    """Keeps k = ceil(density D) coordinates; ties go to the larger index."""

    density: float = 0.01

    def __post_init__(self) -> None:
        arguments.number("density", self.density, strict=True)
        if self.density > 1:
            raise ValueError(f"density must lie in (0, 1], got {self.density!r}")

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> SparseMessage:
        return keep(u_D, largest(u_D, count_kept(self.density, u_D.size)))
