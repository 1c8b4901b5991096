"""Scaled sign: one bit a coordinate and one scale. The compressor of 1-bit Adam.

    C(u) = s * sign(u)    s = ||u||_2 / sqrt(d)  ("l2", Tang et al. 2021, arXiv 2102.02888)
                          s = ||u||_1 / d        ("l1", Karimireddy et al. 2019, arXiv 1901.09847)

``l2`` keeps the norm of u, ``l1`` is the least-squares choice of s. With phi = ||u||_1^2 / (d ||u||_2^2) the error
||u - C(u)||^2 is exactly (1 - phi) ||u||^2 for l1 and 2 (1 - sqrt(phi)) ||u||^2 for l2 [L10, theorem T1].

With block scales [C13] every block of u has an s of its own, and contracts by itself [theorems T1j to T1l]:
dist-EF-blockSGDM, Zheng, Huang, Kwok 2019 (arXiv 1905.10936).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference import arguments
from reference.arithmetic import EXACT, Array, is_exact, power_to_divide_by, root_mean_square, sum_of_magnitudes
from reference.bits import Bytes, pack_signs, unpack_signs
from reference.compressors.base import SCALAR_BYTES, Compressor, Message

SCALES = ("l1", "l2")
Starts = NDArray[np.intp]


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
        return SignMessage(_bytes_of(self.bits_B, part), self.scale, part.stop - part.start, self.scale_bytes)

    def bytes_between(self, edges_J: NDArray[np.int64]) -> NDArray[np.int64]:
        return _steps(-(-edges_J // 8)) + self.scale_bytes

    def decode(self) -> Array:
        return unpack_signs(self.bits_B, self.dim, self.scale)


@dataclass(frozen=True)
class BlockSignMessage(Message):
    """D bits and the scale of every block of them [C13].

    Attributes:
        bits_B: bits, little-endian in each byte (ceil(D/8),).
        scales_K: scales of the blocks (K,).
        starts_K: where the blocks begin (K,), multiples of 8, the first is 0.
        dim: D.
    """

    bits_B: Bytes
    scales_K: Array
    starts_K: Starts
    dim: int

    @property
    def nbytes(self) -> int:
        return self.bits_B.nbytes + SCALAR_BYTES * self.scales_K.size

    def chunk(self, part: slice) -> BlockSignMessage:
        """The blocks of ``part``, which begins and ends between two blocks."""
        inside_K = (self.starts_K >= part.start) & (self.starts_K < part.stop)
        starts_K = self.starts_K[inside_K] - part.start
        return BlockSignMessage(_bytes_of(self.bits_B, part), self.scales_K[inside_K], starts_K, part.stop - part.start)

    def bytes_between(self, edges_J: NDArray[np.int64]) -> NDArray[np.int64]:
        return _steps(-(-edges_J // 8)) + SCALAR_BYTES * _steps(np.searchsorted(self.starts_K, edges_J))

    def decode(self) -> Array:
        if len(self.starts_K) == 1:
            return unpack_signs(self.bits_B, self.dim, self.scales_K[0])
        lengths_K = _steps(np.append(self.starts_K, self.dim))
        return unpack_signs(self.bits_B, self.dim, 1) * np.repeat(self.scales_K, lengths_K)


def _steps(edges_J: NDArray[Any]) -> NDArray[Any]:
    """From each number to the next (J - 1,); ``np.diff`` takes three times as long for the few that there are."""
    return edges_J[1:] - edges_J[:-1]


def _bytes_of(bits_B: Bytes, part: slice) -> Bytes:
    return bits_B[part.start // 8 : -(-part.stop // 8)]


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
    s = sum_of_magnitudes(u_D) / n_live if kind == "l1" else root_mean_square(u_D, n_live)
    return s if u_D.dtype == EXACT else u_D.dtype.type(s)


def scales_of(u_D: Array, kind: str, starts_K: Starts, n_live_K: NDArray[np.intp]) -> Array:
    """The scales (K,) of the blocks of ``u_D`` that begin at ``starts_K``, as :func:`scale_of` has them one by one."""
    wide_D, count_K = u_D if is_exact(u_D) else u_D.astype(np.float64), np.maximum(n_live_K, 1)
    if kind == "l1":
        return (np.add.reduceat(np.abs(wide_D), starts_K) / count_K).astype(u_D.dtype)
    units_K = power_to_divide_by(np.maximum.reduceat(np.abs(wide_D), starts_K))
    if (units_K != 1).any():
        wide_D = wide_D / np.repeat(units_K, _steps(np.append(starts_K, wide_D.size)))
    return (np.sqrt(np.add.reduceat(wide_D * wide_D, starts_K) / count_K) * units_K).astype(u_D.dtype)


@dataclass(frozen=True)
class ScaledSign(Compressor):
    """C(u) = s sign(u) with s = ||u||_2/sqrt(d) (``scale="l2"``) or ||u||_1/d (``scale="l1"``)."""

    scale: str = "l2"

    def __post_init__(self) -> None:
        arguments.choice("scale", self.scale, SCALES)

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> SignMessage:
        return SignMessage(pack_signs(u_D), scale_of(u_D, self.scale, n_live), u_D.size)

    def encode_blocks(self, u_D: Array, starts_K: Starts, n_live_K: NDArray[np.intp]) -> BlockSignMessage:
        """Encode ``u_D`` (D,) with a scale for each of the blocks that begin at ``starts_K`` [C13].

        ``n_live_K`` counts their live coordinates; a block without any has the scale 0.
        """
        if is_exact(u_D) and self.scale == "l2":
            raise ValueError("scale='l2' takes a square root; arrays of Fractions need scale='l1'")
        return BlockSignMessage(pack_signs(u_D), scales_of(u_D, self.scale, starts_K, n_live_K), starts_K, u_D.size)
