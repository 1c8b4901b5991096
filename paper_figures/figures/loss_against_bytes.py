"""Loss against bytes on the wire, on four problems: the runs of the convergence figures, another axis."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.against_bytes import draw_panels, numbers_of
from paper_figures.algorithms import (
    ADAM,
    DIGITS,
    DOUBLE_SQUEEZE,
    FROZEN,
    LOCAL,
    LOGISTIC,
    MOMENTUM,
    NAIVE,
    ONE_BIT,
    PATCHES,
    TEXT,
)  # fmt: skip
from paper_figures.drawing import legend_below, note, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig

SHOWN = (ADAM, ONE_BIT, NAIVE, MOMENTUM, DOUBLE_SQUEEZE, LOCAL)
PANELS = (
    (DIGITS, "loss", "training loss", "Digits MLP, D = 17,226"),
    (TEXT, "held_out_loss", "held-out loss", "Character transformer, D = 19,040"),
    (PATCHES, "held_out_loss", "held-out loss", "Denoising autoencoder, D = 24,928"),
    (LOGISTIC, "excess_loss", "f(x) − f*", "Logistic regression, D = 31"),
)


def runs(scale: Scale) -> list[RunConfig]:
    """Those of the convergence figures, FROZEN with them: it sends 32 bits, for the claims."""
    return [config for experiment, *_ in PANELS for config in experiment.runs(scale, (*SHOWN, FROZEN))]


def draw(table: pd.DataFrame) -> Canvas:
    """A panel a problem; bytes are the mean over workers, the same for every seed."""
    canvas, panels = stacked(3.3, 2.9, 2.9, 2.9)
    draw_panels(panels, table, PANELS, SHOWN, "bytes sent by a worker")
    legend_below(panels[0])
    note(canvas, seeds_note(table))
    return canvas


FIGURE = PaperFigure(
    name="loss_against_bytes",
    title="Loss against bytes sent (N = 8)",
    beside="ours; the paper plots samples and seconds",
    caption=(
        "The runs of the convergence figures against what a worker has sent, warm-up counted. 1-bit Adam follows Adam "
        "through the warm-up, and from the freeze on falls almost vertically. It sends {digits MLP: 1-bit Adam, "
        "bytes} (digits), {character transformer: 1-bit Adam, bytes} (transformer), {denoising autoencoder: 1-bit "
        "Adam, bytes} (autoencoder) and {logistic regression: 1-bit Adam, bytes} (logistic regression, where scales "
        "are most of a compressed step) of Adam's bytes; the warm-up is most of its bill. What the figure also shows: "
        "an algorithm that compresses from the first step needs no expensive warm-up. Two-sided error-compensated SGD "
        "sends {character transformer: SGD: two-sided EF-SGD, bytes} of 1-bit Adam's bytes. It ends {character "
        "transformer: SGD: two-sided EF-SGD} on the transformer, {denoising autoencoder: SGD: two-sided EF-SGD} on "
        "the autoencoder, {logistic regression: SGD: two-sided EF-SGD} on logistic regression and {digits MLP: SGD: "
        "two-sided EF-SGD} on the digits."
    ),
    draw=draw,
    numbers=partial(numbers_of, panels=PANELS, algorithms=SHOWN[1:]),
    runs=runs,
)
