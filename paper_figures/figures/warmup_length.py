"""How long must the warm-up be? T_w swept: as published but for the floor, without it, and with bias correction."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import ADAM, BLACK, DIGITS, ONE_BIT, ONE_BIT_CORRECTED, ONE_BIT_NO_FLOOR
from paper_figures.claims.statistics import final, paired
from paper_figures.drawing import last_by, legend_below, log_x, log_y, note, of, stacked, sweep_points
from paper_figures.figure import PaperFigure, Scale
from paper_figures.numbers import diverged, share_of, times
from reference.experiments import RunConfig

SMALL = replace(DIGITS, lr=1e-2, problem_args={"hidden_sizes": [32, 32]}, steps=400, record_every=200, n_seeds=20)
FREEZE_STEPS = (1, 3, 10, 30, 100, 200)
SHOWN = (ONE_BIT, ONE_BIT_NO_FLOOR, ONE_BIT_CORRECTED)


def runs(scale: Scale) -> list[RunConfig]:
    """Three algorithms x T_w, and Adam."""
    return SMALL.runs(scale, (ADAM,)) + [
        config
        for freeze_step in FREEZE_STEPS
        for config in SMALL.runs(scale, SHOWN, hyper={"freeze_step": freeze_step}, tags={"freeze_step": freeze_step})
    ]


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """By algorithm and T_w: the loss over Adam's, how many seeds diverge, and how many end above Adam's."""
    adam, found = final(table, ADAM.label), {}
    for one in SHOWN:
        for freeze_step in FREEZE_STEPS:
            runs_here = final(table.loc[table["freeze_step"] == freeze_step], one.label)
            log_S, name = paired(runs_here, adam), f"{one.label}, {freeze_step}"
            found |= {
                name: times(log_S),
                f"{name}, diverge": diverged(runs_here),
                f"{name}, above": share_of(log_S > 0),
            }
    return found


def draw(table: pd.DataFrame) -> Canvas:
    """Loss at the last step against T_w."""
    canvas, (axes,) = stacked(4.2)
    ceiling = float(table.loc[table["step"] == 0, "loss"].max())
    for algorithm, marker in zip(SHOWN, "os^", strict=True):
        x, loss_XS = last_by(of(table, algorithm), "freeze_step", "loss")
        sweep_points(
            axes, x, loss_XS, ceiling=ceiling, label=algorithm.label, marker=marker, color=algorithm.color,
            linestyle=algorithm.linestyle,
        )  # fmt: skip
    adam = of(table, ADAM)
    last = adam.loc[adam["step"] == adam["step"].max(), "loss"]
    axes.axhspan(last.min(), last.max(), color=BLACK, alpha=0.25, linewidth=0, label="Adam, range of its seeds")
    axes.set(xlabel="warm-up T_w (steps)", ylabel=f"training loss at step {adam['step'].max():,}")
    log_x(axes)
    log_y(axes)
    legend_below(axes)
    note(canvas, f"line: median, points: {table['seed'].nunique()} seeds, crosses: ended above their start")
    return canvas


FIGURE = PaperFigure(
    name="warmup_length",
    title="Too short a warm-up fails (digits MLP 64-32-32-10)",
    beside="ours; the paper says that a warm-up is needed and gives 14 to 22 % of the steps",
    caption=(
        "Loss after 400 steps at γ = 1e-2 for all, by the length of the warm-up. There is a cliff. Frozen after one "
        "step 1-bit Adam diverges on {1-bit Adam, 1, diverge} seeds, after three on {1-bit Adam, 3, diverge}, after "
        "ten on {1-bit Adam, 10, diverge}. Over Adam's loss it ends at {1-bit Adam, 10} for T_w = 10, {1-bit Adam, "
        "30} for 30, {1-bit Adam, 100} for 100 and {1-bit Adam, 200} for 200. Much of the cliff is no matter of "
        "noise: without bias correction, as published, v has only reached the share 1−β₂^T_w of its size, so that an "
        "early freeze makes every later step larger, by 1/√(1−β₂^T_w). With bias correction a freeze after one step "
        "already trains: it ends at {1-bit Adam, bias correction, 1} over Adam's loss, at {1-bit Adam, bias "
        "correction, 10} for T_w = 10 and {1-bit Adam, bias correction, 100} for 100. There the correction makes the "
        "steps of the same γ shorter. Without a variance floor (κ = 0) {1-bit Adam, κ = 0, 1, diverge} seeds diverge "
        "for T_w = 1, and {1-bit Adam, κ = 0, 200, diverge} for 200."
    ),
    draw=draw,
    numbers=numbers,
    runs=runs,
)
