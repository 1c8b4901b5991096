"""Family: what goes wrong around a run: starting, saving, looking, and the counters that are kept beside the state."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class SaveDamages(BaseOptimizer):
    """save() hands the server error over and leaves zeros behind."""

    def checkpoint(self):
        state = super().checkpoint()
        self.E_D = np.zeros_like(self.E_D)
        return state


class SaveRounds(BaseOptimizer):
    """save() rounds the running momentum to float16 with its copy."""

    def checkpoint(self):
        with np.errstate(over="ignore"):
            self.m_D = self.m_D.astype(np.float16).astype(np.float32)
        return super().checkpoint()


class SnapshotCompletes(BaseOptimizer):
    """The server error of a step is only added up when somebody looks."""

    def exchange(self, local_ND, live_D):
        if not hasattr(self, "late_D") or self.late_D.size != self.E_D.size:
            self.late_D = np.zeros_like(self.E_D)
        super().exchange(local_ND, live_D)
        self.late_D, self.E_D = self.E_D, np.zeros_like(self.E_D)

    def snapshot(self):
        if getattr(self, "late_D", np.zeros(0)).size == self.E_D.size:
            self.E_D = self.E_D + self.late_D
            self.late_D = np.zeros_like(self.E_D)
        return super().snapshot()


class StartKeepsErrors(BaseOptimizer):
    """start() on a used instance keeps its worker errors where the sizes agree."""

    def start(self, params_D, n_workers, hyper):
        old_ND = getattr(self, "e_ND", None)
        super().start(params_D, n_workers, hyper)
        if old_ND is not None and old_ND.shape == self.e_ND.shape:
            self.e_ND = old_ND


class StartKeepsTheStep(BaseOptimizer):
    """start() on a used instance goes on counting its steps in the bias correction."""

    earlier = 0

    def start(self, params_D, n_workers, hyper):
        self.earlier += getattr(self, "t", 0)
        super().start(params_D, n_workers, hyper)

    def corrections(self, t_momentum, t_variance):
        return super().corrections(t_momentum + self.earlier, t_variance)


class SkipsCounted(BaseOptimizer):
    """The bias correction counts skipped steps."""

    skipped = 0

    def on_skip(self):
        self.skipped += 1

    def corrections(self, t_momentum, t_variance):
        return super().corrections(t_momentum + self.skipped, t_variance)


class CorrectionStartsAtLoad(BaseOptimizer):
    """The bias correction after a load counts from the step of the load."""

    loaded = 0

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.loaded = self.t

    def corrections(self, t_momentum, t_variance):
        return super().corrections(max(1, t_momentum - self.loaded), t_variance)


class DeadErrorsFilledByResize(BaseOptimizer):
    """A resize fills the errors of zero-variance coordinates with the mean of the others."""

    def resize(self, n_workers):
        super().resize(n_workers)
        if self.frozen:
            self.e_ND = np.where(self.v_D > 0, self.e_ND, self.e_ND.mean() + np.float32(1e-3))


class MaskLostAtLoad(BaseOptimizer):
    """After a load every coordinate counts as live."""

    mask_lost = False

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.mask_lost = True

    def live(self):
        return np.ones_like(self.v_D, np.bool_) if self.mask_lost else super().live()


class FloorOfTheCorrected(BaseOptimizer):
    """The floor is kappa times the mean of the corrected v."""

    def variance_floor(self, live_D):
        return super().variance_floor(live_D) / self.corrections(self.t, self.t)[1]


class FloorLostAtLoad(BaseOptimizer):
    """A run that is loaded in its warm-up freezes without a floor."""

    floor_lost = False

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.floor_lost = not self.frozen

    def variance_floor(self, live_D):
        return 0.0 if self.floor_lost else super().variance_floor(live_D)


class DeadNotLookedAt(BaseOptimizer):
    """NaN and Inf are looked for on live coordinates alone, once frozen; elsewhere they are taken for 0."""

    def must_skip(self, grads_ND):
        return super().must_skip(grads_ND[:, self.v_D > 0] if self.frozen else grads_ND)

    def compressed_step(self, grads_ND):
        super().compressed_step(np.where(np.isfinite(grads_ND), grads_ND, np.float32(0)))


class SequentialSums(BaseCollective):
    """Squares are added in blocks of 2^17 terms, one after another, in float32."""

    def norm_scale(self, u, count):
        if count <= 2**16:
            return super().norm_scale(u, count)
        terms = np.abs(u) if self.kind == "l1" else np.square(u, dtype=np.float32)
        total = np.add.accumulate(terms.astype(np.float32))[-1] / np.float32(count)
        return total if self.kind == "l1" else np.sqrt(total)


class RemainderLost(BaseCollective):
    """What is left of D after whole bytes is not sent by the server, which knows of it."""

    def server_signs(self, w_C):
        Q_C = super().server_signs(w_C).copy()
        Q_C[w_C.size - w_C.size % 8 :] = 0
        return Q_C
