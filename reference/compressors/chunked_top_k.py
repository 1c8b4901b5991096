"""Chunked top-k with two bits a value: what SparseLoCo sends (Sarfi et al. 2025, arXiv 2508.15706).

In every chunk of ``chunk_size`` numbers the ``kept`` largest magnitudes are kept. An index counts from the start of its
chunk, so it needs log2(chunk_size) bits. A kept value is its sign and one bit that chooses between two magnitudes of
the chunk: the mean of the kept magnitudes that reach their common mean, and the mean of the others. Each is the
least-squares choice for its group, so ||u - C(u)|| <= ||u||, and it is smaller unless u is 0.

The paper quantises to two bits by a table of quantiles; the two means are ours, because they need no table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference import arguments
from reference.arithmetic import Array, is_exact, zeros
from reference.bits import Bytes
from reference.compressors.base import SCALAR_BYTES, Compressor, Message
from reference.compressors.sparse import SparseMessage, keep, largest


def pack(numbers_K: NDArray[np.int64], n_bits: int) -> Bytes:
    """(K,) numbers below 2^n_bits, each in that many bits, little-endian."""
    planes_KB = (numbers_K[:, None] >> np.arange(n_bits)) & 1
    return np.packbits(planes_KB.astype(np.uint8), bitorder="little")


def unpack(bytes_B: Bytes, n_bits: int, count: int) -> NDArray[np.int64]:
    """The first ``count`` numbers that :func:`pack` put there."""
    bits = np.unpackbits(bytes_B, count=count * n_bits, bitorder="little")
    return bits.reshape(count, n_bits).astype(np.int64) @ (1 << np.arange(n_bits))


@dataclass(frozen=True)
class ChunkedMessage(Message):
    """Indices inside their chunks, codes of the values (bit 0: sign, bit 1: which magnitude), two magnitudes a chunk.

    Attributes:
        index_B, code_B: packed indices and codes, in the order of the chunks.
        magnitudes_C2: the smaller and the larger magnitude of each chunk (C, 2).
        chunk_size, kept: of the compressor; the last chunk may be shorter and keep fewer.
        dim: D.
    """

    index_B: Bytes
    code_B: Bytes
    magnitudes_C2: Array
    chunk_size: int
    kept: int
    dim: int

    @property
    def nbytes(self) -> int:
        return self.index_B.nbytes + self.code_B.nbytes + SCALAR_BYTES * self.magnitudes_C2.size

    def chunk(self, part: slice) -> SparseMessage:
        """A part need not begin where a chunk does: its numbers then travel as they are."""
        values_D = self.decode()[part]
        return keep(values_D, np.flatnonzero(values_D))

    def decode(self) -> Array:
        starts_C = np.arange(0, self.dim, self.chunk_size)
        counts_C = np.minimum(self.kept, np.minimum(self.chunk_size, self.dim - starts_C))
        total = int(counts_C.sum())
        chunk_K = np.repeat(np.arange(len(starts_C)), counts_C)
        code_K = unpack(self.code_B, 2, total)
        magnitude_K = self.magnitudes_C2[chunk_K, code_K >> 1]
        out_D = zeros(self.dim, self.magnitudes_C2.dtype)
        index_K = starts_C[chunk_K] + unpack(self.index_B, index_bits(self.chunk_size), total)
        out_D[index_K] = np.where(code_K & 1, magnitude_K, -magnitude_K)
        return out_D


def index_bits(chunk_size: int) -> int:
    """Bits of an index inside a chunk."""
    return max(1, (chunk_size - 1).bit_length())


@dataclass(frozen=True)
class ChunkedTopK(Compressor):
    """The ``kept`` largest magnitudes of every ``chunk_size`` numbers; ties go to the larger index."""

    chunk_size: int = 4096
    kept: int = 64

    def __post_init__(self) -> None:
        arguments.integer("chunk_size", self.chunk_size)
        if arguments.integer("kept", self.kept) > self.chunk_size:
            raise ValueError(f"kept must be at most chunk_size = {self.chunk_size}, got {self.kept!r}")

    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> ChunkedMessage:
        indices, codes, magnitudes = [], [], []
        for start in range(0, u_D.size, self.chunk_size):
            u_C = u_D[start : start + self.chunk_size]
            index_K = largest(u_C, self.kept)
            size_K = np.abs(u_C[index_K]) if is_exact(u_D) else np.abs(u_C[index_K]).astype(np.float64)
            large_K = size_K >= size_K.sum() / size_K.size
            groups = [size_K[~large_K], size_K[large_K]]
            magnitudes.append([group.sum() / max(1, group.size) for group in groups])
            indices.append(index_K)
            codes.append((u_C[index_K] >= 0).astype(np.int64) + 2 * large_K)
        return ChunkedMessage(
            pack(np.concatenate(indices), index_bits(self.chunk_size)),
            pack(np.concatenate(codes), 2),
            np.array(magnitudes, u_D.dtype) + zeros(1, u_D.dtype),  # the empty sum, an int, becomes a Fraction
            self.chunk_size,
            self.kept,
            u_D.size,
        )
