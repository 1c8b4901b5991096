"""What the figures of loss against bytes share: a panel a problem, a line an algorithm, a logarithmic axis of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from paper_figures.algorithms import ADAM, DOUBLE_SQUEEZE, ONE_BIT, Algorithm, Experiment
from paper_figures.claims.problems import PROBLEMS
from paper_figures.drawing import band, by_seed, log_y, look, of
from paper_figures.numbers import against, prefixed

Panel = tuple[Experiment, str, str, str]
"""Problem, column of the loss, label of its axis, title."""


def draw_panels(
    axes: Sequence[Axes], table: pd.DataFrame, panels: Sequence[Panel], shown: Sequence[Algorithm], xlabel: str
) -> None:
    """Bytes are the mean over workers, the same for every seed; the last panel has the label of the bytes."""
    for each, (experiment, column, ylabel, title) in zip(axes, panels, strict=True):
        here = table.loc[table["problem"] == experiment.problem]
        start = float(here.loc[here["step"] == 0, column].mean())
        for algorithm in shown:
            rows = of(here.loc[here["bytes_per_worker"] > 0], algorithm)
            bytes_T = by_seed(rows, "bytes_per_worker")[1].mean(axis=1)
            band(each, bytes_T, by_seed(rows, column)[1], ceiling=3 * start, **look(algorithm))
        each.set(ylabel=ylabel, xscale="log", title=title)
        log_y(each)
        each.xaxis.set_major_formatter(EngFormatter(unit="B", sep=" "))
    axes[-1].set_xlabel(xlabel)


def numbers_of(table: pd.DataFrame, panels: Sequence[Panel], algorithms: Sequence[Algorithm]) -> dict[str, str]:
    """On each problem: where each ends beside Adam and, of two-sided SGD, beside 1-bit Adam; bytes of a whole run."""
    found = {}
    for experiment, column, *_ in panels:
        here = table.loc[table["problem"] == experiment.problem]
        said = against(here, algorithms, ADAM, column)
        sgd = against(here, (DOUBLE_SQUEEZE,), ONE_BIT, column, ONE_BIT.label)
        found |= prefixed(PROBLEMS[experiment.problem][0], said | prefixed("SGD", sgd))
    return found
