"""The figure of an experiment at full scale: training loss and held-out accuracy against steps."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.drawing import band, by_seed, legend_below, log_y, look, mark, note, of, ordered, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.full_scale import results
from paper_figures.full_scale.recipes import ENTRANTS


def full_scale_figure(experiment: str, *, title: str, beside: str, caption: str) -> PaperFigure:
    """A figure of finished runs of ``experiment``; the device that made them is written below it."""

    def draw(table: pd.DataFrame) -> Canvas:
        canvas, (loss, accuracy) = stacked(3.9, 3.9)
        for algorithm in ordered(list(table["label"]), list(ENTRANTS.values())):
            rows = of(table, algorithm)
            band(loss, *by_seed(rows, "loss"), **look(algorithm))
            band(accuracy, *by_seed(rows, "held_out_accuracy"), **look(algorithm))
        frozen = table.loc[table["frozen"] == 1, "step"]
        if len(frozen):
            mark(loss, float(frozen.min()), "v frozen")
        log_y(loss)
        loss.set(xlabel="steps", ylabel="training loss, mean since the last point")
        accuracy.set(xlabel="steps", ylabel="accuracy on held-out data", ylim=(0, 1))
        legend_below(loss)
        legend_below(accuracy)
        made = " and ".join(
            f"{n} x {device}" for n, device in sorted(set(zip(table["n_workers"], table["device"], strict=True)))
        )
        note(canvas, f"{seeds_note(table)}; {made}")
        return canvas

    return PaperFigure(
        f"convergence_{experiment.replace('-', '_')}", title, beside, caption, draw,
        tabulate=lambda scale: results.table(experiment), scales=(Scale.FULL,),
    )  # fmt: skip
