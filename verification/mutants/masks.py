"""Family: zero-variance coordinates, the variance floor, and gradients that are not finite."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class NoDeadCoordinates(BaseOptimizer):
    """Every coordinate counts as live: one without gradient jumps by lr S/eps (DeepSpeed 0.19.6)."""

    def live(self):
        return np.ones_like(self.v_D, np.bool_)


class DeadCoordinatesMove(BaseOptimizer):
    """Zero-variance coordinates are left out of compression but decay."""

    def move(self, m_D, denominator_D, live_D, g_D):
        super().move(m_D, denominator_D, np.ones_like(live_D), g_D)


class DeadCountedInScale(BaseOptimizer):
    """Zero-variance coordinates count in the worker's scale."""

    class collective(BaseCollective):  # noqa: D106, N801
        def worker_scale(self, u_D, live_D):
            return np.float32(self.norm_scale(u_D, u_D.size))


class DeadCountedAtServer(BaseOptimizer):
    """Zero-variance coordinates count in the server's scale."""

    class collective(BaseCollective):  # noqa: D106, N801
        def server_scale(self, w_C, live_C, scales):
            return np.float32(self.norm_scale(w_C, max(w_C.size, 1)))


class DeadMomentumKept(BaseOptimizer):
    """Momentum whose square underflowed is not forgotten at the freeze."""

    def freeze(self):
        kept_D = self.m_D
        super().freeze()
        self.m_D = kept_D


class DeadGetGradient(BaseOptimizer):
    """A gradient that arrives at a zero-variance coordinate after the freeze is applied, as by plain SGD."""

    def compressed_step(self, grads_ND):
        super().compressed_step(grads_ND)
        self.x_ND = np.where(self.v_D > 0, self.x_ND, self.x_ND - np.float32(self.hyper.lr) * grads_ND.mean(axis=0))


class AllDeadIsAllLive(BaseOptimizer):
    """When every coordinate is dead, the mask is taken for missing."""

    def live(self):
        live_D = super().live()
        return live_D if live_D.any() else ~live_D


class NoFloor(BaseOptimizer):
    """variance_floor is accepted and ignored."""

    def variance_floor(self, live_D):
        return 0.0


class FloorOverDead(BaseOptimizer):
    """The mean in the floor counts zero-variance coordinates."""

    def variance_floor(self, live_D):
        return self.hyper.variance_floor * float(self.v_D.mean())


class FloorRaisesDead(BaseOptimizer):
    """The floor raises zero-variance coordinates too, which makes them live."""

    def freeze(self):
        live_D = self.live()
        super().freeze()
        if self.hyper.variance_floor and live_D.any():
            self.v_D = np.maximum(self.v_D, np.float32(self.variance_floor(live_D)))


class FloorInTheWarmUp(BaseOptimizer):
    """The step of the freeze already uses the floor."""

    def denominator(self, v_D, correction):
        if not self.frozen and self.freezes_now() and (v_D > 0).any():
            v_D = np.maximum(v_D, np.float32(self.hyper.variance_floor * v_D[v_D > 0].mean()))
        return super().denominator(v_D, correction)


class FloorOfTheMaximum(BaseOptimizer):
    """kappa times the largest v."""

    def variance_floor(self, live_D):
        return self.hyper.variance_floor * float(self.v_D.max())


class FloorOverflows(BaseOptimizer):
    """The mean in the floor is summed in float32, and where that overflows there is no floor."""

    def variance_floor(self, live_D):
        with np.errstate(over="ignore"):
            total = float(self.v_D[live_D].sum(dtype=np.float32))
        return self.hyper.variance_floor * total / max(1, int(live_D.sum())) if np.isfinite(total) else 0.0


class FloorUsedNotStored(BaseOptimizer):
    """The floor is not stored but applied again in each denominator, to the mean over all coordinates."""

    def variance_floor(self, live_D):
        return 0.0

    def denominator(self, v_D, correction):
        if self.frozen:
            v_D = np.maximum(v_D, np.float32(self.hyper.variance_floor * v_D.mean()))
        return super().denominator(v_D, correction)


class NothingSkipped(BaseOptimizer):
    """NaN and Inf go through."""

    def must_skip(self, grads_ND):
        return False


class OnlyNaN(BaseOptimizer):
    """Only NaN is looked for."""

    def must_skip(self, grads_ND):
        return bool(np.isnan(grads_ND).any())


class OnlyInf(BaseOptimizer):
    """Only infinities are looked for."""

    def must_skip(self, grads_ND):
        return bool(np.isinf(grads_ND).any())


class OnlyTheFirstWorker(BaseOptimizer):
    """Only the first worker's gradient is looked at."""

    def must_skip(self, grads_ND):
        return not np.isfinite(grads_ND[0]).all()


class SumsOfInfinities(BaseOptimizer):
    """Finite is whatever does not sum to an infinity: +Inf and -Inf give NaN, which is not looked for."""

    def must_skip(self, grads_ND):
        with np.errstate(invalid="ignore"):
            total = grads_ND.sum()
        return bool(np.isinf(total) or np.isnan(grads_ND).any())


class SkippedStepCounts(BaseOptimizer):
    """A skipped step is counted."""

    def on_skip(self):
        self.t += 1


class ErrorsClearedOnSkip(BaseOptimizer):
    """A skipped step clears the residuals."""

    def on_skip(self):
        self.e_ND = np.zeros_like(self.e_ND)


class NaNReplacedByZero(BaseOptimizer):
    """NaN and Inf are replaced by 0 and the step is done."""

    def step(self, grads_ND):
        super().step(np.nan_to_num(grads_ND, nan=0.0, posinf=0.0, neginf=0.0))


class NotSkippedAfterTheFreeze(BaseOptimizer):
    """The check ends with the warm-up."""

    def must_skip(self, grads_ND):
        return not self.frozen and super().must_skip(grads_ND)
