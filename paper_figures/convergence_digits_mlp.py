"""Nonconvex: a multilayer perceptron on the digits, training loss against steps and bytes."""

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
        "mlp",
        lr=1e-3,
        steps=2000,
        freeze_step=FREEZE_STEP,
        seeds=range(5 if scale is Scale.QUICK else 20),
        record_every=20,
    )


def draw(table: pd.DataFrame) -> Canvas:
    """Two panels: against steps and against bytes."""
    return loss_curves(
        table, LINE_UP, column="loss", ylabel="training loss (cross-entropy, nats)", freeze_step=FREEZE_STEP
    )


FIGURE = PaperFigure(
    name="convergence_digits_mlp",
    title="Digits MLP (64-128-64-10, D = 17,226, N = 8): Adam's steps for a fraction of the bytes",
    beside="Tang et al. 2021, figures 1 and 4 (there: BERT), with the ablations of its CIFAR-10 comparison",
    caption=(
        "Training loss. 1-bit Adam lies on Adam with v frozen and nothing compressed: compression costs nothing, and "
        "what is lost against Adam at the end is the price of freezing v early, at step 200. After the freeze a step "
        "costs a thirtieth of the bytes. As published, without a variance floor (κ = 0), most seeds diverge within a "
        "few steps of the freeze: coordinates behind units that rarely fire have a tiny v and are thrown far. Without "
        "error feedback every seed diverges. Naive error-compensated Adam is more than ten times behind."
    ),
    runs=configurations,
    draw=draw,
)
