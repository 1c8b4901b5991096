"""Thirty steps of warm-up with bias correction: loss against bytes over whole runs, beside Adam and a usual warm-up."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.against_bytes import draw_panels
from paper_figures.algorithms import (
    ADAM,
    ADAM_CORRECTED,
    DIGITS,
    LOGISTIC,
    NO_FEEDBACK,
    ONE_BIT,
    ONE_BIT_CORRECTED,
    PATCHES,
    SHORT,
    TEXT,
)  # fmt: skip
from paper_figures.claims.claim import number
from paper_figures.claims.problems import PROBLEMS
from paper_figures.drawing import legend_below, note, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.numbers import against, beside, fewer, over, prefixed, times_within
from reference.experiments import RunConfig

SHOWN = (ADAM_CORRECTED, ONE_BIT, ONE_BIT_CORRECTED, SHORT)
PANELS = (
    (TEXT, "held_out_loss", "held-out loss", "Character transformer, D = 19,040, 1,000 steps"),
    (PATCHES, "held_out_loss", "held-out loss", "Denoising autoencoder, D = 24,928, 900 steps"),
    (DIGITS, "loss", "training loss", "Digits MLP, D = 17,226, 2,000 steps"),
    (LOGISTIC, "excess_loss", "f(x) − f*", "Logistic regression, D = 31, 1,500 steps"),
)


def runs(scale: Scale) -> list[RunConfig]:
    """What is drawn; without feedback, for the claims; and Adam without bias correction, for docs/choosing.md."""
    return [config for experiment, *_ in PANELS for config in experiment.runs(scale, (*SHOWN, NO_FEEDBACK, ADAM))]


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """On each problem: 1-bit Adam's warm-ups against Adam with bias correction, and the short against the usual ones;
    Adam without bias correction against it.
    """
    found = {}
    for experiment, column, *_ in PANELS:
        here = table.loc[table["problem"] == experiment.problem]
        said = against(here, (ONE_BIT, ONE_BIT_CORRECTED, SHORT), ADAM_CORRECTED, column)
        said["short over usual"] = times_within(over(here, SHORT, ONE_BIT, column))
        said["short beside usual"] = beside(over(here, SHORT, ONE_BIT, column), "that")
        said["short over usual, corrected"] = times_within(over(here, SHORT, ONE_BIT_CORRECTED, column))
        said["usual over short, bytes"] = number(fewer(here, SHORT, ONE_BIT))
        said["Adam, uncorrected"] = beside(over(here, ADAM, ADAM_CORRECTED, column), "Adam with bias correction")
        said["short beside uncorrected"] = beside(over(here, SHORT, ADAM, column), "that Adam")
        found |= prefixed(PROBLEMS[experiment.problem][0], said)
    return found


def draw(table: pd.DataFrame) -> Canvas:
    """A panel a problem; a dot where the run ends."""
    canvas, panels = stacked(2.9, 2.9, 2.9, 3.1)
    draw_panels(panels, table, PANELS, SHOWN, "bytes sent by a worker, warm-up counted")
    legend_below(panels[-1], ncols=1)
    note(canvas, seeds_note(table) + "; each at its own best step size")
    return canvas


FIGURE = PaperFigure(
    name="short_warmup",
    title="Thirty steps of warm-up, with bias correction (N = 8)",
    beside="ours; the paper warms up for 14 % to 22 % of the steps, without bias correction",
    caption=(
        "Whole runs against what a worker has sent. With bias correction and a warm-up of 30 steps 1-bit Adam sends "
        "{character transformer: 1-bit Adam, T_w = 30, fewer} times fewer bytes than Adam on the transformer, "
        "{denoising autoencoder: 1-bit Adam, T_w = 30, fewer} times fewer on the autoencoder. Its held-out loss ends "
        "{character transformer: 1-bit Adam, T_w = 30} with bias correction on the transformer, and {denoising "
        "autoencoder: 1-bit Adam, T_w = 30} with bias correction on the autoencoder. 1-bit Adam with the usual "
        "warm-up and no correction sends {character transformer: usual over short, bytes} times as much there; beside "
        "that the short one ends at {character transformer: short over usual} and {denoising autoencoder: short over "
        "usual} times its loss, and beside a usual warm-up with correction at {character transformer: short over "
        "usual, corrected} and {denoising autoencoder: short over usual, corrected}. On the digits, which are learnt "
        "by heart, gradients vanish, Adam's v with them, and a frozen v stays behind: the loss is {digits MLP: 1-bit "
        "Adam, T_w = 30, within} times Adam's with the short warm-up, {digits MLP: 1-bit Adam, bias correction, "
        "within} times with the usual one, and {digits MLP: 1-bit Adam, within} times with that and no correction. On "
        "the logistic regression, with 31 parameters, scales are most of a compressed step, and {logistic regression: "
        "1-bit Adam, T_w = 30, fewer} times is all that is saved; the loss is {logistic regression: 1-bit Adam, T_w = "
        "30, within} times Adam's."
    ),
    draw=draw,
    numbers=numbers,
    runs=runs,
)
