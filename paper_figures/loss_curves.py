"""Loss against steps and against bytes: the mean over seeds as a line, the range over seeds as a band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter

from paper_figures.algorithms import Algorithm


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
        rows = table[table["label"] == algorithm.label]
        for axes, x in ((by_step, "step"), (by_bytes, "bytes_per_worker")):
            draw_band(axes, rows, x, column, algorithm, ceiling=3 * start)
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


def draw_band(axes: Axes, rows: pd.DataFrame, x: str, y: str, algorithm: Algorithm, ceiling: float) -> None:
    """One line with its band; a cross where the first seed leaves the picture (``y > ceiling`` or not finite)."""
    values_TS = rows.pivot_table(index="step", columns="seed", values=y, dropna=False).to_numpy(float)
    x_T = rows.groupby("step")[x].mean().to_numpy(float)
    gone_T = ~(values_TS <= ceiling).all(axis=1)
    end = int(np.argmax(gone_T)) if gone_T.any() else len(x_T)
    shown = slice(1 if x != "step" else 0, end)  # nothing is sent before step 1
    mean_T = values_TS[shown].mean(axis=1)
    label = algorithm.label
    if gone_T.any():
        n_gone = int((~(values_TS <= ceiling)).any(axis=0).sum())
        label += f": diverges in {n_gone} of {values_TS.shape[1]}"
    style = {"color": algorithm.color, "dashes": algorithm.dashes} if algorithm.dashes else {"color": algorithm.color}
    axes.plot(x_T[shown], mean_T, label=label, **style)
    axes.fill_between(
        x_T[shown], values_TS[shown].min(axis=1), values_TS[shown].max(axis=1), color=algorithm.color, alpha=0.15, lw=0
    )
    if gone_T.any() and end > shown.start:
        axes.plot(x_T[end - 1], mean_T[-1], marker="X", markersize=9, color=algorithm.color, markeredgecolor="white")
