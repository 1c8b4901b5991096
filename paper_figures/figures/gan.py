"""A generative adversarial network: Adam and 1-bit Adam on a game instead of a minimisation."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import (
    ADAM,
    FROZEN,
    GREY,
    NO_FEEDBACK,
    ONE_BIT,
    ORANGE,
    PURPLE,
    Algorithm,
    Experiment,
)
from paper_figures.claims.statistics import paired, whole_curve
from paper_figures.drawing import band, by_seed, legend_below, log_y, look, mark, note, of, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.numbers import diverged, share_of, times_within
from reference.experiments import RunConfig
from reference.problems.gan import GAN

GAME = Experiment("gan", lr=3e-4, steps=3000, freeze_step=600, record_every=100, n_seeds=10)
BLOCKS = Algorithm("blocks of 32", "one_bit_adam", ORANGE, (0, (3, 1)), {"scale_block": 32}, True)
UPDATE = Algorithm("update form", "one_bit_adam", PURPLE, (0, (5, 1, 1, 1)), {"compress": "update"}, True)
SHOWN = (ADAM, ONE_BIT, FROZEN, BLOCKS, UPDATE, NO_FEEDBACK)


def runs(scale: Scale) -> list[RunConfig]:
    """beta1 = 0.5, as is usual for such games; a warm-up of 20 %, as in the paper."""
    return GAME.runs(scale, SHOWN, hyper={"beta1": 0.5})


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """Distance over Adam's, the mean after the freeze; how many seeds diverge; the share of the gap that is closed."""
    runs_of = {one.label: whole_curve(table, one.label, since=GAME.freeze_step) for one in SHOWN}
    adam, published, dense = (runs_of[one.label] for one in (ADAM, ONE_BIT, FROZEN))
    gap = float(paired(published, dense).mean()) or float("nan")
    found = {"seeds": str(len(adam.seeds_S))}
    for label, one in runs_of.items():
        log_S = paired(one, adam)
        found |= {label: times_within(log_S), f"{label}, diverge": diverged(one)}
        found[f"{label}, above"] = share_of(log_S > 0)
        found[f"{label}, closed"] = f"{100 * float(paired(published, one).mean()) / gap:.0f} %"
    return found


def draw(table: pd.DataFrame) -> Canvas:
    """Distance of generated to held-out digits against steps."""
    canvas, (axes,) = stacked(4.2)
    for algorithm in SHOWN:
        step_T, distance_TS = by_seed(of(table, algorithm), "loss")
        start = float(distance_TS[0].mean())
        band(axes, step_T, distance_TS, ceiling=30 * start, **look(algorithm))
    floor = GAN().real_distance
    axes.axhline(floor, color=GREY, linewidth=1.0)
    axes.annotate(
        "training digits themselves", (0.0, floor), xycoords=("axes fraction", "data"), xytext=(6, 3),
        textcoords="offset points", fontsize=9, color="#444444",
    )  # fmt: skip
    mark(axes, GAME.freeze_step, "v frozen")
    axes.set(xlabel="steps", ylabel="distance to held-out digits")
    log_y(axes)
    legend_below(axes)
    note(canvas, seeds_note(table))
    return canvas


FIGURE = PaperFigure(
    name="gan",
    title="A small GAN on digits (D = 965, N = 8)",
    beside="Tang et al. 2021, the DCGAN experiment on CelebA",
    caption=(
        "Sliced Wasserstein distance between generated and held-out digits, in the space of four principal "
        "components, at one step size for all. All that follows is the mean over the compression stage, with its 95 % "
        "interval. The run with v frozen and 32 bits (green) is {v frozen, 32 bits} times as far from the digits as "
        "Adam. 1-bit Adam, with one magnitude a chunk, is {1-bit Adam} times as far, and {1-bit Adam, diverge} seeds "
        "diverge, against the paper's finding of equal pictures. With a scale for every 32 elements the distance is "
        "{blocks of 32} times Adam's, in the update form {update form} times: of the gap {blocks of 32, closed} and "
        "{update form, closed} are closed. Without error feedback it is {1-bit, no feedback} times. All of them are "
        "far from the grey line, the distance of the training digits themselves."
    ),
    draw=draw,
    numbers=numbers,
    runs=runs,
)
