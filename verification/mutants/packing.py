"""Family: eight signs in a byte, and getting them out again."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective


def _signs(bits_D):
    return bits_D.astype(np.float32) * 2 - 1


class BigEndianReader(BaseCollective):
    """Bits are read in the other order than they were written."""

    def unpack(self, bits_B, dim):
        return _signs(np.unpackbits(bits_B, count=dim, bitorder="big"))


class BigEndianTail(BaseCollective):
    """Only the last, partial byte is read in the other order."""

    def unpack(self, bits_B, dim):
        signs_D = super().unpack(bits_B, dim)
        if tail := dim % 8:
            signs_D[-tail:] = _signs(np.unpackbits(bits_B[-1:], count=tail, bitorder="big"))
        return signs_D


class TailForgotten(BaseCollective):
    """The last, partial byte is not written: its elements arrive as +1."""

    def pack(self, bits_D):
        whole = bits_D.size // 8 * 8
        return np.packbits(np.where(np.arange(bits_D.size) < whole, bits_D, True), bitorder="little")


class InvertedUint8(BaseCollective):
    """The decoder takes ~ of uint8 for logical not, and loses every sign (GRACE)."""

    def worker_message(self, signs_D, s):
        return np.broadcast_to(np.float32(s), signs_D.shape).copy()

    def worker_signs(self, u_D, bits_B):
        return np.ones_like(u_D)


class SignsArriveInverted(BaseCollective):
    """The receiver reads 0 as +1; the sender's own account is right."""

    def worker_message(self, signs_D, s):
        return -s * signs_D


class SixteenBitIndex(BaseCollective):
    """Element numbers wrap at 2^16."""

    def unpack(self, bits_B, dim):
        return super().unpack(bits_B, dim)[np.arange(dim) % 2**16]


class SwappedBytes(BaseCollective):
    """Bytes are swapped in 16-bit words, where there are whole ones."""

    def unpack(self, bits_B, dim):
        whole = bits_B.size // 2 * 2
        swapped_B = np.concatenate([bits_B[:whole].reshape(-1, 2)[:, ::-1].reshape(-1), bits_B[whole:]])
        return super().unpack(swapped_B, dim)

    def worker_signs(self, u_D, bits_B):
        return np.where(u_D >= 0, np.float32(1), np.float32(-1))


class LastBlockOf128(BaseCollective):
    """The last, partial block of 128 is taken for a whole one when it has one element: that one is lost."""

    def pack(self, bits_D):
        bits_D = bits_D.copy()
        if bits_D.size > 128 and bits_D.size % 128 == 1:
            bits_D[-1] = True
        return np.packbits(bits_D, bitorder="little")


class ReaderStartsOneLate(BaseCollective):
    """From the second chunk on a server reads each worker's bits one element late."""

    def server_input(self, parts, error_C, j):
        return super().server_input(np.roll(parts, 1, axis=1) if j else parts, error_C, j)
