"""What the convergence figures share: the whole comparison on one problem, Adam's family above, SGD's below."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import ADAM, ADAM_FAMILY, LINE_UP, ONE_BIT, SGD_FAMILY, Experiment
from paper_figures.drawing import band, by_seed, legend_below, log_y, look, mark, note, of, seeds_note, stacked
from paper_figures.figure import PaperFigure
from paper_figures.numbers import against, prefixed


def convergence_figure(
    *, name: str, title: str, beside: str, caption: str, experiment: Experiment, column: str, ylabel: str
) -> PaperFigure:
    """A figure of the comparison on ``experiment``; ``column`` and ``ylabel`` are its y axis.

    The numbers of its caption: every algorithm beside Adam, and the SGD family beside 1-bit Adam.
    """

    def draw(table: pd.DataFrame) -> Canvas:
        canvas, panels = stacked(3.9, 3.9)
        start = float(table.loc[table["step"] == 0, column].mean())
        for axes, algorithms in zip(panels, (ADAM_FAMILY, (ADAM, ONE_BIT, *SGD_FAMILY)), strict=True):
            for algorithm in algorithms:
                # A run that left this window has diverged; the axis stays on the ones that did not.
                band(axes, *by_seed(of(table, algorithm), column), ceiling=3 * start, **look(algorithm))
            axes.set(xlabel="steps", ylabel=ylabel)
            log_y(axes)
            legend_below(axes)
        mark(panels[0], experiment.freeze_step, "v frozen")
        panels[0].set_title("Adam and its relatives")
        panels[1].set_title("Against the SGD family")
        note(canvas, seeds_note(table) + "; each at its own best step size")
        return canvas

    def numbers(table: pd.DataFrame) -> dict[str, str]:
        sgd = against(table, SGD_FAMILY, ONE_BIT, column, ONE_BIT.label)
        return against(table, LINE_UP, ADAM, column) | prefixed("beside 1-bit Adam", sgd)

    runs = partial(experiment.runs, algorithms=LINE_UP)
    return PaperFigure(name, title, beside, caption, draw, runs=runs, numbers=numbers)
