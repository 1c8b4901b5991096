"""Plain sign: C(u) = sign(u), no scale (signSGD, Bernstein et al. 2018, arXiv 1802.04434).

Not a contraction for any ||u|| away from sqrt(d): with error feedback its errors need not stay bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference.arithmetic import Array, as_scalar
from reference.bits import pack_signs
from reference.compressors.base import Compressor
from reference.compressors.scaled_sign import SignMessage


@dataclass(frozen=True)
class PlainSign(Compressor):
    """C(u) = sign(u) in {-1, +1}^D: D bits and nothing else."""

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> SignMessage:
        one = as_scalar(1, u_D.dtype) if u_D.dtype == object else u_D.dtype.type(1)
        return SignMessage(pack_signs(u_D), one, u_D.size, scale_bytes=0)
