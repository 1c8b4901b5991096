"""Signs as bits [C2, C4]: bit k of byte b is ``u[8b + k] >= 0``, so that +0.0 and -0.0 are both +1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import Array

Bytes = NDArray[np.uint8]

SIGNS_OF_BYTE = 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.int8) - 1
"""Row b holds the eight signs, -1 or +1, that byte b stands for (256, 8)."""


def pack_signs(u_D: Array) -> Bytes:
    """(D,) numbers -> (ceil(D/8),) bytes; the unused high bits of the last byte are 0."""
    return np.packbits(u_D >= 0, bitorder="little")


def unpack_signs(bits_B: Bytes, dim: int, scale: Any) -> Array:
    """The first ``dim`` signs times ``scale``, by one table row of eight numbers a byte."""
    if len(bits_B) < len(SIGNS_OF_BYTE):
        return SIGNS_OF_BYTE.take(bits_B, axis=0).reshape(-1)[:dim] * scale
    return (SIGNS_OF_BYTE * scale).take(bits_B, axis=0).reshape(-1)[:dim]
