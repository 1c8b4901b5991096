"""||v||_1 of each named array of the problem: which layers' variance settles, and when."""

from __future__ import annotations

from reference.arithmetic import sum_of_magnitudes
from reference.experiments.probes.base import Probe
from reference.optimizers import Optimizer
from reference.problems import Problem
from reference.problems.layout import Layout
from reference.state import State


class Layers(Probe):
    """Columns ``variance_l1[NAME]``, a NAME for every array of the problem's layout; they add up to ``variance_l1``."""

    def __init__(self, problem: Problem, optimizer: Optimizer) -> None:
        super().__init__(problem, optimizer)
        layout = getattr(problem, "layout", None)
        if not isinstance(layout, Layout):
            raise ValueError(f"the probe 'layers' needs a problem with named arrays, {problem.name} has none")
        self.layout = layout

    def row(self, state: State) -> dict[str, float]:
        views = self.layout.views(state.variance)
        return {f"variance_l1[{name}]": float(sum_of_magnitudes(array)) for name, array in views.items()}
