"""What an earlier run leaves on an instance: settings, masks and snapshots that are not made anew."""

from __future__ import annotations

from dataclasses import replace

from verification.mutants.base_optimizer import BaseOptimizer


class ScaleOfTheFirstStart(BaseOptimizer):
    """The scale function is chosen once an instance: another start with another scale keeps it."""

    def start(self, params_D, n_workers, hyper):
        self.first_scale = getattr(self, "first_scale", hyper.scale)
        super().start(params_D, n_workers, hyper)
        self.reducer.kind = self.first_scale


class CorrectionOfTheFirstStart(BaseOptimizer):
    """Whether the bias is corrected is decided once an instance."""

    def start(self, params_D, n_workers, hyper):
        self.first = getattr(self, "first", hyper.bias_correction)
        super().start(params_D, n_workers, replace(hyper, bias_correction=self.first))


class MaskKeptAtLoad(BaseOptimizer):
    """The mask of zero-variance coordinates is made once a start: a load into a used instance keeps it."""

    mask_D = None

    def start(self, params_D, n_workers, hyper):
        self.mask_D = None
        super().start(params_D, n_workers, hyper)

    def live(self):
        if self.mask_D is None:
            self.mask_D = super().live()
        return self.mask_D


class SnapshotCachedByStep(BaseOptimizer):
    """A snapshot is made once for each step and N: after a load or a start at the same step it is the old one."""

    def snapshot(self):
        seen = getattr(self, "seen", None)
        if seen is None or seen.step != self.t or seen.params_ND.shape != self.x_ND.shape:
            self.seen = super().snapshot()
        return self.seen
