"""Figure 2 of the paper: does the variance stop changing? As a whole, and layer by layer."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import ADAM, BLACK, DIGITS, ORANGE, SKY, TEXT, Experiment
from paper_figures.drawing import band, by_seed, legend_below, log_y, mark, note, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig

LONG_TEXT = replace(TEXT, steps=2000)
BETA2 = 0.99
PANELS: tuple[tuple[Experiment, str], ...] = ((LONG_TEXT, "Character transformer"), (DIGITS, "Digits MLP"))


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
        arrays = [name for name in here.columns if name.startswith("variance_l1[")]
        for column in (*arrays, "variance_l1"):
            step_T, norms_TS = by_seed(here, column)
            relative_TS = norms_TS / norms_TS[step_T == frozen_at]
            if column == "variance_l1":
                band(axes, step_T, relative_TS, label="all of v", color=BLACK)
                continue
            is_matrix = column.removesuffix("]")[-2].isupper() or column[-2].isupper()
            label = ("a weight matrix" if is_matrix else "biases and gains") if column in (arrays[0], arrays[1]) else ""
            axes.plot(
                step_T, relative_TS.mean(axis=1), linewidth=1.0, color=SKY if is_matrix else ORANGE,
                linestyle="solid" if is_matrix else (0, (4, 1.5)), label=label or "_",
            )  # fmt: skip
        mark(axes, frozen_at, "1 here")
        axes.set(ylabel="‖v‖₁ relative to step " + f"{frozen_at:g}", title=title, xlabel="steps")
        log_y(axes)
        legend_below(axes, ncols=3)
    note(canvas, seeds_note(table) + "; thin: one array, mean")
    return canvas


FIGURE = PaperFigure(
    name="variance_stability",
    title="Does the variance settle? Adam with β₂ = 0.99, layer by layer",
    beside="Tang et al. 2021, figure 2 (there: BERT-Large)",
    caption="TODO",
    draw=draw,
    runs=runs,
)
