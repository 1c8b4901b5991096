"""Random-k: keep k coordinates chosen uniformly (Stich et al. 2018). E||u - C(u)||^2 = (1 - k/D) ||u||^2.

Unscaled, hence biased: error feedback wants the contraction, not the unbiased estimate scaled by D/k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference.arithmetic import Array
from reference.compressors.sparse import SparseMessage, count_kept, keep
from reference.compressors.top_k import TopK


@dataclass(frozen=True)
class RandomK(TopK):
    """Keeps k = ceil(density D) coordinates drawn without replacement from the generator of this step."""

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> SparseMessage:
        return keep(u_D, rng.choice(u_D.size, size=count_kept(self.density, u_D.size), replace=False))
