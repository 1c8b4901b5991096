"""Which gradients are skipped, and what a skipped step leaves [C8]."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_optimizer import BaseOptimizer


class FinitenessBySum(BaseOptimizer):
    """A step is skipped if the sum of all elements is not finite: large ones overflow in it."""

    def must_skip(self, grads_ND):
        return not np.isfinite(grads_ND.sum())


class FinitenessByMean(BaseOptimizer):
    """A step is skipped if the sum over the workers is not finite: large numbers at one coordinate overflow in it."""

    def must_skip(self, grads_ND):
        return not np.isfinite(grads_ND.sum(axis=0)).all()


class FinitenessByWorker(BaseOptimizer):
    """A step is skipped if the sum of a worker's elements is not finite: large ones of one worker overflow in it."""

    def must_skip(self, grads_ND):
        return not np.isfinite(grads_ND.sum(axis=1)).all()


class LargestTakenForInfinite(BaseOptimizer):
    """A step is skipped if a gradient is the largest float32, which is finite."""

    def must_skip(self, grads_ND):
        return super().must_skip(grads_ND) or bool((np.abs(grads_ND) >= np.finfo(np.float32).max).any())


class SecondSkipInARow(BaseOptimizer):
    """The second skipped step in a row clears the worker errors."""

    skipped = False

    def start(self, params_D, n_workers, hyper):
        self.skipped = False
        super().start(params_D, n_workers, hyper)

    def must_skip(self, grads_ND):
        skip = super().must_skip(grads_ND)
        if skip and self.skipped:
            self.e_ND = np.zeros_like(self.e_ND)
        self.skipped = skip
        return skip
