"""The variance floor kappa [C7] swept, with the floor of theorem T7l drawn in."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import ADAM, DIGITS, FROZEN, ONE_BIT
from paper_figures.claims.statistics import final, paired
from paper_figures.drawing import last_by, legend_below, log_y, mark, note, of, stacked, sweep_points
from paper_figures.figure import PaperFigure, Scale
from paper_figures.numbers import beside, diverged
from reference.experiments import RunConfig
from theory import variance_floor

HARD = replace(DIGITS, lr=3e-3, steps=600, record_every=300)
FLOORS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
AT_ZERO = 1e-14  # where a logarithmic axis shows kappa = 0


def runs(scale: Scale) -> list[RunConfig]:
    """1-bit Adam x kappa, Adam, and v frozen with 32 bits and no floor."""
    swept = [
        config
        for kappa in FLOORS
        for config in HARD.runs(scale, (ONE_BIT,), hyper={"variance_floor": kappa}, tags={"kappa": kappa})
    ]
    return swept + HARD.runs(scale, (ADAM,)) + HARD.runs(scale, (FROZEN,), hyper={"variance_floor": 0.0})


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """How many seeds diverge at each kappa; where the default floor, the largest one and v frozen end beside Adam."""
    adam = final(table, ADAM.label)
    swept = {kappa: final(table.loc[table["kappa"] == kappa], ONE_BIT.label) for kappa in FLOORS}
    found = {f"κ = {kappa:g}, diverge": diverged(one) for kappa, one in swept.items()}
    found |= {f"κ = {kappa:g}": beside(paired(one, adam), ADAM.label) for kappa, one in swept.items()}
    return found | {"32 bits": beside(paired(final(table, FROZEN.label), adam), ADAM.label)}


def draw(table: pd.DataFrame) -> Canvas:
    """Loss at the last step against kappa."""
    canvas, (axes,) = stacked(4.2)
    ceiling = float(table.loc[table["step"] == 0, "loss"].max())
    x, loss_XS = last_by(of(table, ONE_BIT), "kappa", "loss")
    sweep_points(axes, x.clip(min=AT_ZERO), loss_XS, ceiling=ceiling, label=ONE_BIT.label, color=ONE_BIT.color)
    for algorithm, label in ((ADAM, "Adam"), (FROZEN, "v frozen, 32 bits, κ = 0")):
        rows = of(table, algorithm)
        last = rows.loc[rows["step"] == rows["step"].max(), "loss"]
        axes.axhspan(last.min(), last.max(), color=algorithm.color, alpha=0.3, linewidth=0, label=label)
    mark(axes, variance_floor(0.9, 0.999), "T7l", top=0.8)
    axes.set(xscale="log", xlabel="variance floor κ", ylabel=f"training loss at step {table['step'].max():,}")
    axes.set_xticks([AT_ZERO, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2], ["0", *(f"1e-{k}" for k in range(12, 0, -2))])
    log_y(axes)
    legend_below(axes)
    note(canvas, f"line: median, points: {table['seed'].nunique()} seeds, crosses: ended above their start")
    return canvas


FIGURE = PaperFigure(
    name="variance_floor",
    title="How large a variance floor κ? (digits MLP, γ = 3e-3)",
    beside="ours; the paper has no floor (κ = 0)",
    caption=(
        "The published algorithm is κ = 0: here {κ = 0, diverge} seeds diverge, for one bit has one magnitude, and a "
        "coordinate with a tiny v is thrown far. At κ = 1e-8 {κ = 1e-08, diverge} do, at 1e-7 {κ = 1e-07, diverge}. "
        "With the default, 1e-3, it ends {κ = 0.001}; v frozen with 32 bits (green) ends {32 bits}, and without a "
        "floor. The dotted line is the floor of theorem T7l, 1e-3, at which the bound on one-bit steps for noise is "
        "Adam's own worst step. It is proved for the l1 scale; these runs use l2, where it needs flat vectors (T7j), "
        "and on this network, at this step size, there is room to spare. Too large a floor costs little: at κ = 0.1 "
        "it ends {κ = 0.1}."
    ),
    draw=draw,
    numbers=numbers,
    runs=runs,
)
