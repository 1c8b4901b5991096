"""Family: the scale of a message."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class _L1(BaseCollective):
    scale = "l1"


class PaddingCounted(BaseCollective):
    """The worker divides by the padded length (output shrinks by sqrt(d/d_pad); DeepSpeed 0.19.6)."""

    def worker_scale(self, u_D, live_D):
        return np.float32(self.norm_scale(u_D, 8 * -(-u_D.size // 8)))


class TailPaddingCounted(BaseCollective):
    """The server divides by the padded length of its chunk."""

    def server_scale(self, w_C, live_C, scales):
        return np.float32(self.norm_scale(w_C, 8 * -(-w_C.size // 8)))


class L1InsteadOfL2(BaseCollective):
    """The worker takes the mean of magnitudes where l2 is asked for."""

    def worker_scale(self, u_D, live_D):
        return np.float32(np.abs(u_D).mean())


class L2InsteadOfL1(_L1):
    """The server takes the root mean square where l1 is asked for."""

    def server_scale(self, w_C, live_C, scales):
        return np.float32(np.sqrt(np.square(w_C).mean())) if w_C.size else np.float32(0)


class MaximumForMean(BaseCollective):
    """The worker sends its largest magnitude."""

    def worker_scale(self, u_D, live_D):
        return np.float32(np.abs(u_D).max())


class RootForgotten(BaseCollective):
    """The server sends the mean square."""

    def server_scale(self, w_C, live_C, scales):
        return np.float32(self.norm_scale(w_C, max(w_C.size, 1)) ** 2)


class GuardedScale(BaseCollective):
    """max(scale, 1e-12), so that nothing is ever divided by zero."""

    def worker_scale(self, u_D, live_D):
        return max(super().worker_scale(u_D, live_D), np.float32(1e-12))


class EpsilonInTheRoot(BaseCollective):
    """sqrt(mean square + 1e-16)."""

    def worker_scale(self, u_D, live_D):
        return np.float32(np.sqrt(self.norm_scale(u_D, u_D.size) ** 2 + 1e-16))


class ScaleOfTheBuffer(BaseCollective):
    """The scale is that of the buffer, without the residual."""

    def worker_input(self, buffer_D, error_D):
        self.buffer_D = buffer_D
        return buffer_D + error_D

    def worker_scale(self, u_D, live_D):
        return np.float32(self.norm_scale(self.buffer_D, u_D.size))


class OneScaleForAllChunks(BaseCollective):
    """The server reuses the mean of the workers' scales instead of a scale of its own."""

    def server_scale(self, w_C, live_C, scales):
        return np.float32(np.mean(scales))


class TwoScales(BaseCollective):
    """Each half of a worker's message has its own scale, from 32 elements on."""

    def worker_message(self, signs_D, s):
        return signs_D * s

    def worker_scale(self, u_D, live_D):
        if u_D.size < 32:
            return super().worker_scale(u_D, live_D)
        half = u_D.size // 2
        scale_D = np.empty_like(u_D)
        scale_D[:half] = self.norm_scale(u_D[:half], half)
        scale_D[half:] = self.norm_scale(u_D[half:], u_D.size - half)
        return scale_D


class OneCountTooFew(BaseCollective):
    """The unbiased estimate: divided by d - 1."""

    def worker_scale(self, u_D, live_D):
        return np.float32(self.norm_scale(u_D, max(u_D.size - 1, 1)))


class SquaresInFloat32(BaseCollective):
    """Squares are formed in float32, and overflow from 1.9e19 on."""

    def norm_scale(self, u, count):
        with np.errstate(over="ignore"):
            return np.sqrt(float(np.square(u).sum(dtype=np.float32)) / max(count, 1))


class LongFloat32Sum(BaseCollective):
    """Squares are added one after another in float32."""

    def norm_scale(self, u, count):
        if u.size < 4096:
            return super().norm_scale(u, count)
        return np.sqrt(np.add.accumulate(np.square(u), dtype=np.float32)[-1] / count)


class LongFloat32SumL1(_L1):
    """Magnitudes are added one after another in float32."""

    def norm_scale(self, u, count):
        if u.size < 4096:
            return super().norm_scale(u, count)
        return np.add.accumulate(np.abs(u), dtype=np.float32)[-1] / count


class EndLeftOut(BaseCollective):
    """The sum of squares goes by vectors of eight, and from 16,384 elements on forgets what is left at the end."""

    def worker_scale(self, u_D, live_D):
        whole = u_D.size - u_D.size % 8 if u_D.size >= 16384 else u_D.size
        return np.float32(self.norm_scale(u_D[:whole], u_D.size))


class LongPaddingCounted(_L1):
    """From 16,384 elements on the worker divides by the padded length."""

    def worker_scale(self, u_D, live_D):
        return np.float32(self.norm_scale(u_D, 8 * -(-u_D.size // 8) if u_D.size >= 16384 else u_D.size))


class MagnitudesOverflow(_L1):
    """Magnitudes are added in float32, and overflow though their mean does not."""

    def norm_scale(self, u, count):
        with np.errstate(over="ignore"):
            return np.abs(u).sum(dtype=np.float32) / np.float32(count)


class ThroughLogarithms(BaseCollective):
    """A tail past 64 elements takes the scale through log and exp: a few ulp off, not the same at every magnitude."""

    def worker_scale(self, u_D, live_D):
        s = super().worker_scale(u_D, live_D)
        return np.exp(np.log(s), dtype=np.float32) if u_D.size > 64 and u_D.size % 64 and s > 0 else s


class UnitVectorSigns(BaseCollective):
    """The sign is u/|u|, which is NaN at 0."""

    def worker_message(self, signs_D, s):
        return s * signs_D

    def worker_signs(self, u_D, bits_B):
        with np.errstate(invalid="ignore"):
            return u_D / np.abs(u_D)


class HyperScaleIgnored(BaseOptimizer):
    """Hyper.scale is accepted and ignored: always l2."""

    def exchange(self, local_ND, live_D):
        self.reducer.kind = "l2"
        super().exchange(local_ND, live_D)
