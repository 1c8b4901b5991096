"""Loss against steps and against bytes: the mean over seeds as a line, the range over seeds as a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from paper_figures.algorithms import Algorithm

Array = NDArray[Any]


def loss_curves(
    table: pd.DataFrame, algorithms: Sequence[Algorithm], *, column: str, ylabel: str, freeze_step: int
) -> Canvas:
    """Two panels, loss against steps and against bytes sent, one line an algorithm.

    Args:
        table: tidy table of the runs, with the columns of ``reference.experiments.COLUMNS``.
        algorithms: the lines, in the order of the legend.
        column: what is on the y axis.
        ylabel: its label.
        freeze_step: T_w, marked in the left panel.
    """
    canvas = Canvas(figsize=(9.6, 5.0))
    by_step, by_bytes = canvas.subplots(1, 2, sharey=True)
    # A run that left this window has diverged; the axis stays on the ones that did not.
    start = float(table.loc[table["step"] == 0, column].mean())
    for algorithm in algorithms:
        values_TS = by_step_and_seed(table, algorithm, column)
        for axes, x in ((by_step, "step"), (by_bytes, "bytes_per_worker")):
            x_T = by_step_and_seed(table, algorithm, x).mean(axis=1)
            sent = slice(int(x != "step"), None)  # nothing is sent before step 1
            draw_band(axes, x_T[sent], values_TS[sent], algorithm, ceiling=3 * start)
    by_step.axvline(freeze_step, color="#888888", linewidth=0.9, linestyle=":")
    by_step.annotate(
        "v frozen", (freeze_step, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -9), textcoords="offset points",
        color="#555555", fontsize=8.5,
    )  # fmt: skip
    by_step.set(xlabel="steps", ylabel=ylabel, yscale="log")
    by_bytes.set(xlabel="bytes sent by a worker", xscale="log")
    by_bytes.xaxis.set_major_formatter(EngFormatter(unit="B", sep=" "))
    n_seeds = table["seed"].nunique()
    handles, labels = by_step.get_legend_handles_labels()
    canvas.legend(
        handles, labels, loc="outside lower center", ncols=3, title=f"mean (line) and range (band) of {n_seeds} seeds"
    )
    return canvas


def by_step_and_seed(table: pd.DataFrame, algorithm: Algorithm, column: str) -> Array:
    """``column`` of one algorithm as (T, S): recorded steps, seeds."""
    rows = table.query("label == @algorithm.label").sort_values(["step", "seed"])
    return np.asarray(rows[column], float).reshape(len(set(rows["step"])), -1)


def draw_band(axes: Axes, x_T: Array, values_TS: Array, algorithm: Algorithm, ceiling: float) -> None:
    """One line with its band; a cross where the first seed leaves the picture (``value > ceiling`` or not finite)."""
    gone_TS = ~(values_TS <= ceiling)
    gone_T = gone_TS.any(axis=1)
    end = int(np.argmax(gone_T)) if gone_T.any() else len(x_T)
    x_T, values_TS, label = x_T[:end], values_TS[:end], algorithm.label
    if gone_T.any():
        label += f": diverges in {gone_TS.any(axis=0).sum()} of {gone_TS.shape[1]}"
    mean_T, low_T, high_T = values_TS.mean(axis=1), values_TS.min(axis=1), values_TS.max(axis=1)
    axes.plot(x_T, mean_T, label=label, color=algorithm.color, linestyle=algorithm.linestyle)
    axes.fill_between(x_T, low_T, high_T, color=algorithm.color, alpha=0.15, linewidth=0)
    if gone_T.any() and end:
        axes.plot(x_T[-1], mean_T[-1], "X", markersize=9, color=algorithm.color, markeredgecolor="white", zorder=5)
