"""The systems beside 1-bit Adam, on its problems: what each sends, how often, and where it ends.

A colour a way of sending: all numbers in every step, one bit a number, few of the numbers, or rarely. What each
remembers besides its hyper-parameters below is the default of :mod:`reference.optimizers`, which is its paper's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter

from paper_figures.algorithms import (
    ADAM_CORRECTED,
    BLACK,
    BLUE,
    DOUBLE_SQUEEZE,
    GREEN,
    LOCAL,
    MOMENTUM,
    ONE_BIT,
    SHORT,
    VERMILION,
    Algorithm,
    Experiment,
)
from paper_figures.drawing import by_seed, legend_below, log_y, note, of, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.numbers import against
from reference.experiments import RunConfig

LAMB = Algorithm("LAMB", "lamb", BLACK, needs_shapes=True)
CAME = Algorithm("CAME", "came", BLACK, needs_shapes=True)
MERIT = Algorithm("MERIT", "merit", BLACK, needs_shapes=True)
ZERO_ONE = Algorithm("0/1 Adam", "zero_one_adam", BLUE, needs_freeze_step=True, shares={"local_doubling": 0.23})
"""The interval between meetings doubles every 32,678 of 140,000 steps in the paper's run of BERT-Base: the same share
of ours."""
ONE_BIT_LAMB = Algorithm("1-bit LAMB", "one_bit_lamb", BLUE, needs_freeze_step=True, needs_shapes=True)
SIGN_SGD = Algorithm("signSGD, majority vote", "sign_sgd", BLUE)
EF21 = Algorithm("EF21", "ef21", GREEN)
EF21_SGDM = Algorithm("EF21-SGDM", "ef21_sgdm", GREEN)
SKETCHED = Algorithm("Sketched-SGD", "sketched_sgd", GREEN)
DCT = Algorithm("DCT", "dct", GREEN)
LOCAL_ADAM = Algorithm("local Adam, H = 4", "local_adam", VERMILION)
DILOCO = Algorithm("DiLoCo, H = 50", "diloco", VERMILION)
SPARSE_LOCO = Algorithm("SparseLoCo, H = 50", "sparse_loco", VERMILION)
MT_DAO = Algorithm("MT-DAO", "mt_dao", VERMILION)
PARTIAL = Algorithm("partial sync, H = 4", "partial_sgd", VERMILION, needs_shapes=True)
CADA = Algorithm("CADA", "cada", VERMILION)

LIKE_SGD = (EF21, EF21_SGDM, SKETCHED, DCT, PARTIAL)
NEW = (
    LAMB, CAME, MERIT, ZERO_ONE, ONE_BIT_LAMB, SIGN_SGD, EF21, EF21_SGDM, SKETCHED, DCT, LOCAL_ADAM, DILOCO,
    SPARSE_LOCO, MT_DAO, PARTIAL, CADA,
)  # fmt: skip
"""Those that no other figure has."""
UNCLAIMED = (CAME, MERIT, SIGN_SGD, EF21, EF21_SGDM, SKETCHED, DCT, LOCAL_ADAM, MT_DAO, PARTIAL, CADA)
"""Those that no claim reads."""
FEWER = 3
"""Their seeds at quick scale: enough to see where a line ends, too few for a claim."""

KINDS: dict[str, tuple[str, tuple[Algorithm, ...]]] = {
    "all numbers, every step": (BLACK, (ADAM_CORRECTED, MOMENTUM, LAMB, CAME, MERIT)),
    "one bit a number": (BLUE, (ONE_BIT, SHORT, ZERO_ONE, ONE_BIT_LAMB, DOUBLE_SQUEEZE, SIGN_SGD)),
    "few of the numbers": (GREEN, (EF21, EF21_SGDM, SKETCHED, DCT)),
    "rarely": (VERMILION, (LOCAL, LOCAL_ADAM, DILOCO, SPARSE_LOCO, MT_DAO, PARTIAL, CADA)),
}
"""How they save: what it is called, its colour, who does it. 0/1 Adam and SparseLoCo do two of these."""
FAMILY = tuple(algorithm for _, members in KINDS.values() for algorithm in members)
DASHES = ("solid", (0, (5, 2)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
MARKERS = "osD^v<>"
LOSSES = {"mlp": "loss", "char_transformer": "held_out_loss", "denoising": "held_out_loss"}
"""Problem -> the column that counts: the digits are learnt by heart."""
AXES = {"step": "steps", "bytes_per_worker": "bytes sent by a worker", "rounds": "rounds, in each of which all wait"}


def looks() -> Iterator[tuple[Algorithm, dict[str, Any]]]:
    """Every algorithm with what tells its line from the others."""
    for color, members in KINDS.values():
        for algorithm, dash, marker in zip(members, cycle(DASHES), MARKERS, strict=False):
            yield algorithm, {"color": color, "linestyle": dash, "marker": marker}


def draw_lines(axes: Axes, table: pd.DataFrame, across: str, column: str) -> None:
    """Geometric means over the seeds of a loss, against steps, bytes or rounds; the end of each line is marked."""
    ceiling = 1.05 * float(table.loc[table["step"] == 0, column].mean())
    for algorithm, look in looks():
        rows = of(table, algorithm)
        steps_T, losses_TS = by_seed(rows, column)
        x_T = steps_T if across == "step" else by_seed(rows, across)[1].mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            loss_T = np.exp(np.log(losses_TS).mean(axis=1))
        seen_T = (x_T > 0) & (loss_T <= ceiling)
        if seen_T.any():
            ends = [int(seen_T.sum()) - 1]
            axes.plot(
                x_T[seen_T], loss_T[seen_T], label=algorithm.label, markevery=ends, markersize=6, linewidth=1.2, **look
            )
    axes.set(xlabel=AXES[across], ylabel=column.replace("_", "-", 1).replace("_", " "))
    log_y(axes)
    if across != "step":
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(unit="B" if "bytes" in across else "", sep=" "))


def family_runs(experiment: Experiment, scale: Scale) -> list[RunConfig]:
    """The whole family on one problem, with fewer seeds for the systems that no claim reads."""
    claimed = [algorithm for algorithm in FAMILY if algorithm not in UNCLAIMED]
    return experiment.runs(scale, claimed) + replace(experiment, n_seeds=FEWER).runs(scale, UNCLAIMED)


def seeds_of(table: pd.DataFrame) -> str:
    """How many seeds there are, in words for a note under a picture."""
    counts = [len(set(rows["seed"])) for _, rows in table.groupby("label")]
    fewest, most = min(counts), max(counts)
    return f"{most} seeds" if fewest == most else f"{most} seeds ({fewest} for systems that no claim reads)"


def family_figure(name: str, experiment: Experiment, title: str, caption: str) -> PaperFigure:
    """The whole family on one problem: loss against steps, bytes and rounds. Numbers: those that a claim may read."""

    def draw(table: pd.DataFrame) -> Canvas:
        canvas, panels = stacked(3.4, 3.4, 3.4 + 0.19 * len(FAMILY) / 2)
        for axes, across in zip(panels, AXES, strict=True):
            draw_lines(axes, table, across, LOSSES[experiment.problem])
        legend_below(panels[-1])
        note(canvas, f"geometric mean of {seeds_of(table)}, each at its own best step size")
        return canvas

    def numbers(table: pd.DataFrame) -> dict[str, str]:
        return against(table, FAMILY, ADAM_CORRECTED, LOSSES[experiment.problem])

    return PaperFigure(
        name, title, "ours", caption, draw, runs=partial(family_runs, experiment), numbers=numbers, extra=True
    )
