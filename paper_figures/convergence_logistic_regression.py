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
    """Two panels: against steps and against bytes."""
    return loss_curves(
        table, LINE_UP, column="excess_loss", ylabel="loss above the optimum, f(x) − f*", freeze_step=FREEZE_STEP
    )


FIGURE = PaperFigure(
    name="convergence_logistic_regression",
    title="Logistic regression (breast cancer, D = 31, N = 8): error feedback is what matters",
    beside="Tang et al. 2021, figure 4 (there: BERT), with the ablations of its CIFAR-10 comparison",
    caption=(
        "Loss above the optimum. 1-bit Adam, with or without a variance floor, lies on Adam and on Adam with v frozen: "
        "neither freezing nor compressing costs a step. Without error feedback it stops improving at the freeze. The "
        "naive variant keeps up here, for the problem is convex and small; the digits MLP shows where it does not. "
        "With 31 parameters the scales that ride with the bits are half of the traffic, so the saving is small."
    ),
    runs=configurations,
    draw=draw,
)
