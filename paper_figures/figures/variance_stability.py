"""Figure 2 of the paper: does the variance stop changing? As a whole, and layer by layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import ADAM, BLACK, DIGITS, ORANGE, SKY, TEXT, Experiment
from paper_figures.drawing import band, by_seed, legend_below, log_y, mark, note, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig

LONG_TEXT = replace(TEXT, steps=2000)
BETA2 = 0.99
PANELS: tuple[tuple[Experiment, str], ...] = ((LONG_TEXT, "Character transformer"), (DIGITS, "Digits MLP"))

LOOKS: dict[bool, tuple[str, dict[str, Any]]] = {
    True: ("a weight matrix", {"color": SKY}),
    False: ("biases or gains", {"color": ORANGE, "linestyle": (0, (4, 1.5))}),
}


def runs(scale: Scale) -> list[RunConfig]:
    """Adam with beta2 = 0.99: its memory, 100 steps, is short against the run, so that v shows the gradients."""
    return [
        config
        for experiment, _ in PANELS
        for config in experiment.runs(scale, (ADAM,), hyper={"beta2": BETA2}, probe="layers")
    ]


def draw(table: pd.DataFrame) -> Canvas:
    """||v_t||_1 over its value at the step at which the other figures freeze it: in all, and for each array."""
    canvas, panels = stacked(3.3, 3.3)
    for axes, (experiment, title) in zip(panels, PANELS, strict=True):
        here = table.loc[(table["problem"] == experiment.problem) & (table["step"] > 0)].dropna(
            axis="columns", how="all"
        )
        frozen_at = min(here["step"], key=lambda step: abs(step - experiment.freeze_step))
        for column in [name for name in here.columns if name.startswith("variance_l1[")]:
            step_T, norms_TS = by_seed(here, column)
            label, look = LOOKS[column[len("variance_l1[")].isupper()]  # matrices have capital names
            shown = label not in axes.get_legend_handles_labels()[1]
            relative_T = (norms_TS / norms_TS[step_T == frozen_at]).mean(axis=1)
            axes.plot(step_T, relative_T, linewidth=1.0, label=label if shown else "_", **look)
        step_T, norms_TS = by_seed(here, "variance_l1")
        band(axes, step_T, norms_TS / norms_TS[step_T == frozen_at], label="all of v", color=BLACK)
        mark(axes, frozen_at, "1 here")
        axes.set(ylabel="‖v‖₁ relative to step " + f"{frozen_at:g}", title=title, xlabel="steps")
        log_y(axes)
        legend_below(axes, ncols=3)
    note(canvas, seeds_note(table) + "; thin: one array, mean")
    return canvas


FIGURE = PaperFigure(
    name="variance_stability",
    title="Does the variance settle? Adam, β₂ = 0.99, by layer",
    beside="Tang et al. 2021, figure 2 (there: BERT-Large)",
    caption=(
        "The norm of v over its value at the step at which the other figures freeze it, for all of v and for "
        "every array of the network. The paper shows it settling on BERT after the warm-up. On these short runs "
        "it does not settle at that step: on the transformer it goes on growing before it is level, "
        "and single layers far more than others; on the digits, which are fitted to the last sample, "
        "gradients vanish and v falls by orders of magnitude, in step for all layers. That frozen "
        "runs keep up nevertheless says that a v that is wrong by a factor common to the layers is no more than a "
        "step size; the layers that go their own way are few. A step at which v is stable must be looked for, not "
        "assumed."
    ),
    draw=draw,
    runs=runs,
)
