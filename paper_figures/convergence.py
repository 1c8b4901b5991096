"""What the convergence figures share: the whole line-up on one problem, loss against steps and against bytes."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import LINE_UP, runs
from paper_figures.figure import PaperFigure, Scale
from paper_figures.loss_curves import loss_curves
from reference.experiments import RunConfig

SEEDS = {Scale.QUICK: 5, Scale.FULL: 20}


def convergence_figure(
    *, name: str, title: str, beside: str, caption: str, column: str, ylabel: str, freeze_step: int, **settings: Any
) -> PaperFigure:
    """A figure of the line-up; ``column`` and ``ylabel`` are its y axis, ``settings`` those of ``algorithms.runs``."""

    def configurations(scale: Scale) -> list[RunConfig]:
        return runs(seeds=range(SEEDS[scale]), freeze_step=freeze_step, **settings)

    def draw(table: pd.DataFrame) -> Canvas:
        return loss_curves(table, LINE_UP, column=column, ylabel=ylabel, freeze_step=freeze_step)

    return PaperFigure(name, title, beside, caption, draw, runs=configurations)
