"""Family: a run that does not start where it must."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_optimizer import BaseOptimizer


class StartsAtHalf(BaseOptimizer):
    """The parameters are halved when a run starts."""

    def start(self, params_D, n_workers, hyper):
        super().start(params_D * np.float32(0.5), n_workers, hyper)


class StartsWithAMomentum(BaseOptimizer):
    """The momentum starts at 1e-3 in place of 0."""

    def start(self, params_D, n_workers, hyper):
        super().start(params_D, n_workers, hyper)
        self.m_D = self.m_D + np.float32(1e-3)


class CountsFromOne(BaseOptimizer):
    """The counter of steps starts at 1: a warm-up of one step less."""

    def start(self, params_D, n_workers, hyper):
        super().start(params_D, n_workers, hyper)
        self.t = 1
