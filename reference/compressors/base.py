"""What a compressor is: it encodes a buffer into a message, and anyone can decode the message without the buffer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import Array

SCALAR_BYTES = 4
"""A number on the wire is fp32 (or int32), whatever precision the simulation runs in."""


class Message(ABC):
    """What crosses the wire for a buffer of ``dim`` numbers."""

    dim: int

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes on the wire."""

    @abstractmethod
    def chunk(self, part: slice) -> Message:
        """The message for the elements of ``part`` alone; ``part.start`` is a multiple of 8."""

    def bytes_between(self, edges_J: NDArray[np.int64]) -> NDArray[np.int64]:
        """``nbytes`` of the chunks from each edge to the next; all edges but the last are multiples of 8."""
        return np.array([self.chunk(slice(*part)).nbytes for part in pairwise(edges_J.tolist())], np.int64)

    @abstractmethod
    def decode(self) -> Array:
        """The numbers (dim,) that a receiver reads out of the message."""


class Compressor(ABC):
    """A map C: R^D -> R^D that needs few bits; see the theorems T1 (contraction) and T5 (what feedback makes of it)."""

    @abstractmethod
    def encode(self, u_D: Array, n_live: int, rng: np.random.Generator) -> Message:
        """Encode ``u_D`` (D,), of which ``n_live`` coordinates are live; dead ones hold 0 and do not count [C1, C6]."""
