"""The picture of the README: held-out loss against bytes on the wire, two problems side by side."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.against_bytes import draw_panels, numbers_of
from paper_figures.algorithms import ADAM, DOUBLE_SQUEEZE, LOCAL, MOMENTUM, NAIVE, ONE_BIT, PATCHES, TEXT
from paper_figures.drawing import note, seeds_note
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig

SHOWN = (ADAM, ONE_BIT, NAIVE, MOMENTUM, DOUBLE_SQUEEZE, LOCAL)
PANELS = (
    (TEXT, "held_out_loss", "held-out loss (nats a character)", "Character transformer, D = 19,040"),
    (PATCHES, "held_out_loss", "held-out loss", "Denoising autoencoder, D = 24,928"),
)


def runs(scale: Scale) -> list[RunConfig]:
    """Those of the convergence figures."""
    return [config for experiment, *_ in PANELS for config in experiment.runs(scale, SHOWN)]


def draw(table: pd.DataFrame) -> Canvas:
    """Landscape; the legend on the right."""
    canvas = Canvas(figsize=(11.0, 3.4))
    left, right = canvas.subplots(1, 2)
    draw_panels((left, right), table, PANELS, SHOWN, "bytes sent by a worker")
    left.set_xlabel(right.get_xlabel())
    canvas.legend(*right.get_legend_handles_labels(), loc="outside right center")
    note(canvas, seeds_note(table))
    return canvas


FIGURE = PaperFigure(
    name="overview",
    title="Held-out loss against bytes sent (N = 8)",
    beside="ours; the paper plots samples and seconds",
    caption=(
        "What a worker has sent, the uncompressed warm-up counted. 1-bit Adam follows Adam through the warm-up; from "
        "the freeze on a step costs a thirty-second, and the loss falls almost vertically. What compresses from the "
        "first step sends less still: two-sided error-compensated SGD sends {character transformer: SGD: two-sided "
        "EF-SGD, bytes} of 1-bit Adam's bytes. It ends {character transformer: SGD: two-sided EF-SGD} on the "
        "transformer, and {denoising autoencoder: SGD: two-sided EF-SGD} on the autoencoder. Every algorithm at its "
        "own best step size of one grid."
    ),
    draw=draw,
    numbers=partial(numbers_of, panels=PANELS, algorithms=SHOWN[1:]),
    runs=runs,
)
