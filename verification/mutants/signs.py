"""Family: the sign of zero, and other signs."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective


class ZeroIsMinus(BaseCollective):
    """A worker's zero is -1."""

    def worker_bits(self, u_D):
        return u_D > 0


class ServerZeroIsMinus(BaseCollective):
    """The server's zero is -1: only an exact tie shows it."""

    def server_signs(self, w_C):
        return np.where(w_C > 0, np.float32(1), np.float32(-1))


class NegativeZeroIsMinus(BaseCollective):
    """-0.0 is -1, in the message and in the error."""

    def worker_bits(self, u_D):
        return ~np.signbit(u_D)


class ThreeValuedSign(BaseCollective):
    """A worker's zero is sent as 0 (np.sign)."""

    def worker_signs(self, u_D, bits_B):
        self.signs = getattr(self, "signs", [])
        self.signs.append(np.sign(u_D))
        return np.sign(u_D)

    def allreduce(self, *arguments, **keywords):
        self.signs = []
        return super().allreduce(*arguments, **keywords)

    def server_input(self, parts, error_C, j):
        chunk = self.chunks(self.signs[0].size, len(parts))[j]
        ternary = [np.abs(part_C) * signs_D[chunk] for part_C, signs_D in zip(parts, self.signs, strict=True)]
        return super().server_input(np.array(ternary), error_C, j)


class ThreeValuedServer(BaseCollective):
    """The server's zero is sent as 0 (np.sign)."""

    def server_signs(self, w_C):
        return np.sign(w_C)


class SubnormalIsZero(BaseCollective):
    """Subnormal numbers are flushed before the sign is taken, so that negative ones are sent as +1."""

    def worker_bits(self, u_D):
        return (u_D >= 0) | (np.abs(u_D) < np.finfo(np.float32).tiny)


class TiesAtRandom(BaseCollective):
    """A zero at the server is sent as +1 or -1 at random."""

    generator = np.random.default_rng(0)

    def server_signs(self, w_C):
        tie_C = np.where(self.generator.random(w_C.size) < 0.5, np.float32(1), np.float32(-1))
        return np.where(np.abs(w_C) < 1e-7, tie_C, np.where(w_C > 0, np.float32(1), np.float32(-1)))


class SignOfTheBuffer(BaseCollective):
    """The bit is that of the buffer, without the residual."""

    def worker_input(self, buffer_D, error_D):
        self.buffer_D = buffer_D
        return buffer_D + error_D

    def worker_bits(self, u_D):
        return self.buffer_D >= 0


class IdleWorkerSaysMinus(BaseCollective):
    """A worker whose u is all zero sends -1 with scale 0 and charges a unit error for it."""

    def worker_error(self, u_D, s, signs_D, i):
        return u_D - s * signs_D if u_D.any() else np.full_like(u_D, 1e-3)


class TinyIsZero(BaseCollective):
    """What is below 1e-20 is set to zero at the worker, so it is never sent nor remembered."""

    def worker_input(self, buffer_D, error_D):
        u_D = buffer_D + error_D
        return np.where(np.abs(u_D) < 1e-20, np.float32(0), u_D)


class ServerBitsOfFirstWorker(BaseCollective):
    """With three or more workers the server sends the first worker's bits instead of a majority."""

    def server_input(self, parts, error_C, j):
        self.first_C = parts[0] if len(parts) >= 3 else None
        return super().server_input(parts, error_C, j)

    def server_signs(self, w_C):
        signs_of = w_C if self.first_C is None else self.first_C
        return np.where(signs_of >= 0, np.float32(1), np.float32(-1))


class AlternatingOrder(BaseCollective):
    """Every second call adds the messages in the other order: the last bit of the server error depends on it."""

    calls = 0

    def allreduce(self, *arguments, **keywords):
        self.calls += 1
        return super().allreduce(*arguments, **keywords)

    def server_input(self, parts, error_C, j):
        return super().server_input(parts if self.calls % 2 else parts[::-1], error_C, j)
