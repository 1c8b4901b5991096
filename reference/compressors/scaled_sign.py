"""Scaled sign: one bit a coordinate and one scale. The compressor of 1-bit Adam.

    C(u) = s * sign(u)    s = ||u||_2 / sqrt(d)  ("l2", Tang et al. 2021, arXiv 2102.02888)
                          s = ||u||_1 / d        ("l1", Karimireddy et al. 2019, arXiv 1901.09847)

``l2`` keeps the norm of u, ``l1`` is the least-squares choice of s. With phi = ||u||_1^2 / (d ||u||_2^2) the error
||u - C(u)||^2 is exactly (1 - phi) ||u||^2 for l1 and 2 (1 - sqrt(phi)) ||u||^2 for l2 [L10, theorem T1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reference import arguments
from reference.arithmetic import EXACT, Array, is_exact, sum_of_magnitudes, sum_of_squares
from reference.bits import Bytes, pack_signs, unpack_signs
from reference.compressors.base import SCALAR_BYTES, Compressor, Message

SCALES = ("l1", "l2")


@dataclass(frozen=True)
class SignMessage(Message):
    """D bits, little-endian in each byte [C4], and the scale they are multiplied with."""

    bits_B: Bytes
    scale: Any
    dim: int
    scale_bytes: int = SCALAR_BYTES

    @property
    def nbytes(self) -> int:
        return self.bits_B.nbytes + self.scale_bytes

    def chunk(self, part: slice) -> SignMessage:
        bits_B = self.bits_B[part.start // 8 : -(-part.stop // 8)]
        return SignMessage(bits_B, self.scale, part.stop - part.start, self.scale_bytes)

    def decode(self) -> Array:
        return unpack_signs(self.bits_B, self.dim, self.scale)


def scale_of(u_D: Array, kind: str, n_live: int) -> Any:
    """The scale s of ``u_D`` in its own dtype; 0 if no coordinate is live. Sums run in float64, or exactly [C1].

    Raises:
        ValueError: ``kind`` is unknown, or is "l2" for Fractions, whose square root is irrational.
    """
    arguments.choice("scale", kind, SCALES)
    if is_exact(u_D) and kind == "l2":
        raise ValueError("scale='l2' takes a square root; arrays of Fractions need scale='l1'")
    if n_live == 0:
        return u_D.dtype.type(0)
    s = sum_of_magnitudes(u_D) / n_live if kind == "l1" else math.sqrt(sum_of_squares(u_D) / n_live)
    return s if u_D.dtype == EXACT else u_D.dtype.type(s)


@dataclass(frozen=True)
class ScaledSign(Compressor):
    """C(u) = s sign(u) with s = ||u||_2/sqrt(d) (``scale="l2"``) or ||u||_1/d (``scale="l1"``)."""

    scale: str = "l2"

    def __post_init__(self) -> None:
        arguments.choice("scale", self.scale, SCALES)

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> SignMessage:
        return SignMessage(pack_signs(u_D), scale_of(u_D, self.scale, n_live), u_D.size)
