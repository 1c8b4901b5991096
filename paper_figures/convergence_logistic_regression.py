"""Convex: logistic regression on the breast cancer data, f(x) - f* against steps and bytes."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import LINE_UP, runs
from paper_figures.figure import PaperFigure, Scale
from paper_figures.loss_curves import loss_curves
from reference.experiments import RunConfig

FREEZE_STEP = 200


def configurations(scale: Scale) -> list[RunConfig]:
    """5 seeds, or 20 at full scale."""
    return runs(
        "logistic_regression",
        lr=3e-3,
        steps=1500,
        freeze_step=FREEZE_STEP,
        seeds=range(5 if scale is Scale.QUICK else 20),
        record_every=10,
    )


def draw(table: pd.DataFrame) -> Canvas:
    """The two panels."""
    return loss_curves(
        table, LINE_UP, column="excess_loss", ylabel="loss above the optimum, f(x) − f*", freeze_step=FREEZE_STEP
    )


FIGURE = PaperFigure(
    name="convergence_logistic_regression",
    title="Logistic regression: 1-bit Adam follows Adam, without error feedback or with a compressed variance it does not",
    beside="Tang et al. 2021, figure 4 (there: BERT), with the ablations of its CIFAR-10 comparison",
    caption="TODO",
    runs=configurations,
    draw=draw,
)
