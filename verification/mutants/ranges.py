"""Faults of some sizes alone: lengths of blocks and warm-ups, numbers of workers and elements."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class LongBlocksCutOff(BaseCollective):
    """Of a block only the first 1024 elements enter its scale."""

    def norm_scale(self, u, count):
        cut = u.size > 1024 and self.block is not None
        return super().norm_scale(u[:1024], 1024) if cut else super().norm_scale(u, count)


class MiddlingWarmUp(BaseOptimizer):
    """After a warm-up of 10 to 16 steps the denominator is half as large."""

    def divisor(self, correction):
        return super().divisor(correction) * np.float32(0.5 if 10 <= self.hyper.freeze_step <= 16 else 1)


class SomeWorkersUnheard(BaseOptimizer):
    """On 17 to 32 workers those from the seventeenth on send the first one's gradient."""

    def sent_gradient(self, i, grad_D):
        self.first_D = grad_D if i == 0 else self.first_D
        return super().sent_gradient(i, self.first_D if i > 15 and self.n <= 32 else grad_D)


class MoreThan64Workers(BaseOptimizer):
    """From the sixty-fifth worker on gradients count double."""

    def sent_gradient(self, i, grad_D):
        return super().sent_gradient(i, grad_D) * np.float32(2 if i > 63 else 1)


class LargeInUpdates(BaseOptimizer):
    """In the update form a server with D > 131072 has no error."""

    def exchange(self, local_ND, live_D):
        self.E_D = self.E_D * np.float32(self.E_D.size <= 131072 or self.hyper.compress == "momentum")
        super().exchange(local_ND, live_D)


class LargeInBlocks(BaseOptimizer):
    """With blocks a server with D > 131072 has no error."""

    def exchange(self, local_ND, live_D):
        self.E_D = self.E_D * np.float32(self.E_D.size <= 131072 or self.hyper.scale_block is None)
        super().exchange(local_ND, live_D)


class Between16384And65536(BaseOptimizer):
    """A server with 16384 < D < 65536 has no error."""

    def exchange(self, local_ND, live_D):
        self.E_D = self.E_D * np.float32(not 16384 < self.E_D.size < 65536)
        super().exchange(local_ND, live_D)


class SmallParametersFlushed(BaseOptimizer):
    """After a step parameters below the smallest normal number are 0, on hardware that keeps such numbers."""

    def step(self, grads_ND):
        super().step(grads_ND)
        self.x_ND = np.where(np.abs(self.x_ND) < np.finfo(self.x_ND.dtype).tiny, 0, self.x_ND)
