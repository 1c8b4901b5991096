"""Correct collectives, vectorised over workers, each with another arithmetic."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from verification.protocol import Array, Scale


def blocks_of(dim: int, c: int, b: int | None) -> list[slice]:
    """What shares a scale at the servers: chunks of ``c`` elements, or blocks of ``b`` from a chunk's start on."""
    chunks = [(start, min(start + c, dim)) for start in range(0, dim, c)]
    return [slice(at, min(at + (b or c), stop)) for start, stop in chunks for at in range(start, stop, b or c)]


class Vectorised:
    """All workers at once; sums by NumPy's own pairwise float32 summation."""

    dtype: ClassVar[str] = "float32"
    scale: ClassVar[Scale] = "l2"
    scale_block: ClassVar[int | None] = None
    chunk_multiple: ClassVar[int] = 8
    server_chunks: ClassVar[int | None] = None

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array
    ) -> tuple[Array, Array, Array]:
        n, dim = buffers_ND.shape
        u_ND = buffers_ND + worker_errors_ND
        k = self.server_chunks or n
        c = self.chunk_multiple * -(-dim // (self.chunk_multiple * k))
        blocks = blocks_of(dim, c, self.scale_block)
        whole = [slice(0, dim)] if self.scale_block is None else blocks
        s_ND = np.concatenate([self.magnitudes(u_ND, part) for part in whole], axis=1)
        q_ND = self.sign(u_ND)
        w_D = self.average(s_ND * q_ND, server_error_D)
        Q_D = self.server_sign(w_D, s_ND[:, 0])
        output_D = np.concatenate([self.magnitudes(w_D[None], part)[0] for part in blocks]) * Q_D
        return output_D, u_ND - s_ND * q_ND, w_D - output_D

    def magnitudes(self, u_ND: Array, part: slice) -> Array:
        """The scale of every row on ``part``, at each of its elements."""
        s_N = np.array([self.scale_of(u_D[part]) for u_D in u_ND], dtype=self.dtype)
        return np.repeat(s_N[:, None], part.stop - part.start, axis=1)

    def sign(self, u: Array) -> Array:
        """+1 for u >= 0."""
        return np.where(u >= 0, 1, -1).astype(self.dtype)

    def server_sign(self, w_D: Array, s_N: Array) -> Array:
        """The same, at the server."""
        return self.sign(w_D)

    def total(self, terms: Array) -> Any:
        """Sum of a vector of terms of moderate size."""
        return terms.sum(dtype=self.dtype)

    def scale_of(self, u: Array) -> Array:
        """l2 or l1, the numbers scaled by a power of two so that no square overflows or vanishes."""
        largest = np.abs(u).max()
        if largest == 0:
            return np.dtype(self.dtype).type(0)
        unit = np.ldexp(np.dtype(self.dtype).type(1), min(int(np.frexp(largest)[1]), np.finfo(self.dtype).maxexp - 8))
        r = np.abs(u) / unit
        if self.scale == "l1":
            return self.total(r) / r.dtype.type(r.size) * unit
        return self.root_mean_square(r) * unit

    def root_mean_square(self, r: Array) -> Any:
        """Of numbers of moderate size."""
        return np.sqrt(self.total(r * r) / r.dtype.type(r.size))

    def average(self, messages_ND: Array, error_D: Array) -> Array:
        """(1/N) sum + error."""
        total_D = messages_ND[0]
        for message_D in messages_ND[1:]:
            total_D = total_D + message_D
        return total_D / total_D.dtype.type(len(messages_ND)) + error_D


class VectorisedL1(Vectorised):
    """The same with the l1 scale."""

    scale = "l1"


class Float64(Vectorised):
    """Everything in float64."""

    dtype = "float64"


class Float64L1(Float64):
    """Everything in float64, l1."""

    scale = "l1"


class Sequential(Vectorised):
    """Float32 sums one after another, in blocks of 2^15 for long buffers."""

    def total(self, terms: Array) -> Any:
        sums = [np.add.accumulate(terms[start : start + 2**15])[-1] for start in range(0, terms.size, 2**15)]
        return np.add.accumulate(np.array(sums, np.float32))[-1]


class Reversed(Sequential):
    """From the last element to the first, from the last worker to the first."""

    def total(self, terms: Array) -> Any:
        return super().total(terms[::-1])

    def average(self, messages_ND: Array, error_D: Array) -> Array:
        return super().average(messages_ND[::-1], error_D)


class ReciprocalRoot(Reversed):
    """Multiplies by the reciprocal of D and by that of the root, as hardware does that has no division."""

    def root_mean_square(self, r: Array) -> Any:
        mean = self.total(r * r) * (np.float32(1) / np.float32(r.size))
        return mean * (np.float32(1) / np.sqrt(mean))


class NormOfNorms(Vectorised):
    """The norm of the norms of its pieces, as gradients of many tensors are clipped: more roots that round."""

    def root_mean_square(self, r: Array) -> Any:
        norms = np.array([np.sqrt(self.total(piece * piece)) for piece in np.split(r, range(100, r.size, 100))])
        return np.sqrt(self.total(norms * norms)) / np.sqrt(r.dtype.type(r.size))


class Hypotenuse(Vectorised):
    """A tree of hypotenuses, none of which overflows."""

    def root_mean_square(self, r: Array) -> Any:
        size = r.size
        while r.size > 1:
            r = np.hypot(r[::2], np.pad(r[1::2], (0, r.size % 2)))
        return r[0] / np.sqrt(r.dtype.type(size))


class ByMaximum(VectorisedL1):
    """Numbers are divided by the largest one, so that no sum overflows; the quotients round."""

    def scale_of(self, u: Array) -> Array:
        largest = np.abs(u).max()
        if largest == 0:
            return np.dtype(self.dtype).type(0)
        return largest * (self.total(np.abs(u) / largest) / np.float32(u.size))


class Tree(VectorisedL1):
    """A balanced tree over blocks of 64, in float32."""

    def total(self, terms: Array) -> Any:
        blocks = np.pad(terms, (0, -terms.size % 64)).reshape(-1, 64)
        sums = np.add.accumulate(blocks, axis=1)[:, -1]
        while sums.size > 1:
            sums = np.pad(sums, (0, sums.size % 2))
            sums = sums[::2] + sums[1::2]
        return sums[0]


class Float64Sums(Vectorised):
    """Float32 numbers, float64 sums."""

    def total(self, terms: Array) -> Any:
        return np.float32(terms.sum(dtype=np.float64))


class Chunks32(Vectorised):
    """Chunks of whole 32-bit words."""

    chunk_multiple = 32


class Chunks128L1(VectorisedL1):
    """Chunks of whole thread blocks."""

    chunk_multiple = 128


class Blocks8(Vectorised):
    """A scale for every byte of signs."""

    scale_block = 8


class Blocks48L1(VectorisedL1):
    """Blocks that don't fit the chunks, and chunks of whole words."""

    scale_block = 48
    chunk_multiple = 32


class OneServer(Vectorised):
    """One server for all: Algorithm 1 to the letter."""

    server_chunks = 1


class DividedFirst(Vectorised):
    """Messages are divided by N before they are added, and the server error is added first."""

    def average(self, messages_ND: Array, error_D: Array) -> Array:
        total_D = error_D
        for message_D in messages_ND / np.float32(len(messages_ND)):
            total_D = total_D + message_D
        return total_D


class Fused(Vectorised):
    """Sums of squares and the server's average by fused multiply-adds: one rounding a step."""

    def average(self, messages_ND: Array, error_D: Array) -> Array:
        total_D = error_D.astype(np.float64)
        for message_D in messages_ND:
            total_D = (total_D + message_D.astype(np.float64) / len(messages_ND)).astype(np.float32).astype(np.float64)
        return total_D.astype(np.float32)


class OtherSignInDoubt(Vectorised):
    """The server takes the other sign wherever rounding could have led there, but not on an exact zero."""

    def server_sign(self, w_D: Array, s_N: Array) -> Array:
        doubt_D = (w_D != 0) & (np.abs(w_D) <= np.float32(2.0**-25) * s_N.mean())
        return np.where(doubt_D, -self.sign(w_D), self.sign(w_D))


COLLECTIVES: tuple[type, ...] = (
    Vectorised,
    VectorisedL1,
    Float64,
    Float64L1,
    Sequential,
    Reversed,
    ReciprocalRoot,
    NormOfNorms,
    Hypotenuse,
    ByMaximum,
    Tree,
    Float64Sums,
    Chunks32,
    Chunks128L1,
    Blocks8,
    Blocks48L1,
    OneServer,
    DividedFirst,
    Fused,
    OtherSignInDoubt,
)
