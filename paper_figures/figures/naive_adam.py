"""Figure 1 of the paper: Adam on compressed gradients falls behind; and why: its variance, taken apart."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import ADAM, BLACK, DIGITS, GREEN, NAIVE, ONE_BIT, PURPLE, VERMILION
from paper_figures.drawing import band, by_seed, legend_below, log_y, look, note, of, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig

PARTS = (
    ("variance_l1", "v of naive Adam", PURPLE, "solid"),
    ("exact_variance_l1", "average of g² (what v should be)", BLACK, (0, (5, 2))),
    ("square_variance", "average of (Δ' − Δ)²", VERMILION, (0, (1, 1))),
)
SPREADS = (
    ("exact_spread", "of the average of g²", BLACK, (0, (5, 2))),
    ("spread", "of v of naive Adam", PURPLE, "solid"),
)


def runs(scale: Scale) -> list[RunConfig]:
    """Adam and 1-bit Adam as in the convergence figure; naive Adam with its variance taken apart."""
    return DIGITS.runs(scale, (ADAM, ONE_BIT)) + DIGITS.runs(scale, (NAIVE,), probe="squares")


def draw(table: pd.DataFrame) -> Canvas:
    """Loss; the parts of v; how much v differs between coordinates."""
    canvas, (loss, parts, spreads) = stacked(3.1, 3.1, 2.7)
    for algorithm in (ADAM, ONE_BIT, NAIVE):
        band(loss, *by_seed(of(table, algorithm), "loss"), **look(algorithm))
    loss.set(ylabel="training loss (nats)", title="Naive compressed Adam falls behind")
    naive = of(table, NAIVE)
    naive = naive.loc[naive["step"] > 0]
    for axes, columns in ((parts, PARTS), (spreads, SPREADS)):
        for column, label, color, dashes in columns:
            band(axes, *by_seed(naive, column), label=label, color=color, linestyle=dashes)
    parts.set(ylabel="sum over coordinates", title="Its variance is the square of its errors")
    spreads.set(xlabel="steps", ylabel="90th : 10th percentile", title="and the same for all: √v between coordinates")
    spreads.axhline(1, color=GREEN, linewidth=0.8)
    for axes in (loss, parts, spreads):
        log_y(axes)
        legend_below(axes, ncols=3 if axes is loss else 1)
    note(canvas, seeds_note(table))
    return canvas


FIGURE = PaperFigure(
    name="naive_adam",
    title="Why Adam cannot simply be given compressed gradients",
    beside="Tang et al. 2021, figure 1 (there: ResNet-18 on CIFAR-10)",
    caption=(
        "Top: Adam on compressed gradients, with error feedback, ends far above Adam, each at its own "
        "best step size, while 1-bit Adam stays near it. Middle, why: what naive Adam averages is not g² but the "
        "square of g plus the change of the residual error Δ. In the mean of the gradients the errors telescope; "
        "in the squares they do not (theorem T4a), and the square of Δ' − Δ makes up nearly all of v: it lies on "
        "v itself, far above the average of g² along the same run. Bottom: and since a bit has one "
        "magnitude, v is the same for all coordinates (T4b). The average of g² spans a wide range between "
        "the 10th and the 90th percentile of its roots; v of naive Adam spans almost nothing. So naive Adam is "
        "momentum SGD with one step size."
    ),
    draw=draw,
    runs=runs,
)
