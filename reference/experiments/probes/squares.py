"""Why Adam on compressed gradients has the wrong variance: v split into what it should be and what compression adds."""

from __future__ import annotations

import numpy as np

from reference.arithmetic import Array
from reference.experiments.probes.base import Probe
from reference.optimizers import Optimizer
from reference.optimizers.adam import Adam
from reference.optimizers.base import mean_over_workers
from reference.problems import Problem
from reference.state import State


class Squares(Probe):
    """T4a: with message c = g-bar + Delta_{t-1} - Delta_t, v = average of c^2 = exact + cross + square.

    Columns, sums over coordinates of averages with Adam's beta2, in float64:
        exact_variance_l1: of g-bar^2, what Adam would have at these gradients.
        cross_variance: of 2 g-bar (Delta_{t-1} - Delta_t), which telescopes where the gradient is stationary.
        square_variance: of (Delta_{t-1} - Delta_t)^2, which never cancels.
    and the 90th over the 10th percentile, over the coordinates where the exact average is positive:
        spread: of sqrt(v), by which Adam's step sizes differ between coordinates.
        exact_spread: of the root of the exact average.
    """

    def __init__(self, problem: Problem, optimizer: Optimizer) -> None:
        super().__init__(problem, optimizer)
        if not isinstance(optimizer, Adam):
            raise ValueError("the probe 'squares' needs an optimizer with a variance")
        self.beta2 = optimizer.beta2
        self.averages_3D = np.zeros((3, problem.dim))

    def observe(self, before: State, grads_ND: Array, after: State) -> None:
        grad_D = mean_over_workers(grads_ND).astype(np.float64)
        change_D = before.total_error.astype(np.float64) - after.total_error
        new = np.array([grad_D**2, 2 * grad_D * change_D, change_D**2])
        self.averages_3D = self.beta2 * self.averages_3D + (1 - self.beta2) * new

    def row(self, state: State) -> dict[str, float]:
        exact_D, cross_D, square_D = self.averages_3D
        return {
            "exact_variance_l1": float(exact_D.sum()),
            "cross_variance": float(cross_D.sum()),
            "square_variance": float(square_D.sum()),
            "spread": percentile_ratio(state.variance[exact_D > 0]),
            "exact_spread": percentile_ratio(exact_D[exact_D > 0]),
        }


def percentile_ratio(variance_D: Array) -> float:
    """90th over 10th percentile of sqrt(v); NaN where there is nothing to compare."""
    if not variance_D.size or not np.isfinite(variance_D).all():
        return float("nan")
    low, high = np.percentile(np.sqrt(variance_D.astype(np.float64)), [10, 90])
    return float(high / low) if low > 0 else float("nan")
