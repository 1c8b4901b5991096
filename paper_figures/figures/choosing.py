"""Which system reaches Adam's loss first: a map over the speed and the latency of the network, from our own runs."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from paper_figures.algorithms import ADAM_CORRECTED
from paper_figures.claims.claim import MAIN_MARGIN
from paper_figures.claims.facts import bytes_per_step
from paper_figures.drawing import Array, by_seed, note, of, stacked
from paper_figures.family import FAMILY, LOSSES, family_runs, seeds_of
from paper_figures.figure import PaperFigure, Scale
from paper_figures.figures.loss_against_bytes import PANELS as EVERY
from reference.experiments import RunConfig

PANELS = tuple(panel for panel in EVERY if panel[0].problem in LOSSES)
SEND = np.geomspace(1e-3, 1e3, 241)
"""Seconds that a worker needs to send D numbers of 32 bits, over those of a gradient."""
WAIT = np.geomspace(1e-3, 1e2, 201)
"""Seconds of latency of a round, over those of a gradient."""


def runs(scale: Scale) -> list[RunConfig]:
    """Those of the family's figures."""
    return [config for experiment, *_ in PANELS for config in family_runs(experiment, scale)]


def spent(here: pd.DataFrame, column: str) -> dict[str, tuple[float, float, float]]:
    """Label -> steps, bytes and rounds until a loss at most 5 % above Adam's last one, the median over the seeds.

    Seed by seed; an algorithm that more than half of its seeds do not bring there is left out.
    """
    adam = of(here, ADAM_CORRECTED)
    targets_S = (1 + MAIN_MARGIN) * by_seed(adam, column)[1][-1]
    found = {}
    for algorithm in FAMILY:
        rows = of(here, algorithm)
        steps_T, losses_TS = by_seed(rows, column)
        there_TS = losses_TS <= targets_S[: losses_TS.shape[1]]
        first_S = np.where(there_TS.any(axis=0), there_TS.argmax(axis=0), -1)
        if np.mean(first_S >= 0) <= 0.5:
            continue
        costs = [_costs(rows, name, first_S) for name in ("bytes_per_worker", "rounds")]
        steps = np.where(first_S >= 0, steps_T[first_S], np.inf)
        found[algorithm.label] = (float(np.median(steps)), *(float(np.median(cost)) for cost in costs))
    return found


def _costs(rows: pd.DataFrame, name: str, first_S: Array) -> Array:
    values_TS = by_seed(rows, name)[1]
    return np.where(first_S >= 0, values_TS[first_S, np.arange(len(first_S))], np.inf)


def dim_of(here: pd.DataFrame) -> int:
    """D of a problem, from what Adam sends in a step."""
    n_workers = int(here["n_workers"].to_numpy().max())
    return round(bytes_per_step(here, ADAM_CORRECTED.label) * n_workers / (8 * (n_workers - 1)))


def fastest(costs: dict[str, tuple[float, float, float]], dim: int) -> tuple[list[str], Array]:
    """The labels, and which of them is there first, (WAIT, SEND): compute, transfer and latency one after another."""
    labels = list(costs)
    times = [
        steps + nbytes / (4 * dim) * SEND[None, :] + rounds * WAIT[:, None] for steps, nbytes, rounds in costs.values()
    ]
    return labels, np.argmin(times, axis=0)


def draw(table: pd.DataFrame) -> Canvas:
    """A map a problem, coloured by the fastest."""
    canvas, panels = stacked(*[3.4] * len(PANELS))
    maps = []
    for experiment, column, *_ in PANELS:
        here = table.loc[table["problem"] == experiment.problem]
        maps.append(fastest(spent(here, column), dim_of(here)))
    first = {labels[k] for labels, best in maps for k in np.unique(best)}
    shown = [algorithm.label for algorithm in FAMILY if algorithm.label in first]
    colors = dict(zip(shown, cycle(COLORS), strict=False))
    for axes, (labels, best), (*_, title) in zip(panels, maps, PANELS, strict=True):
        places = np.array([shown.index(label) if label in first else 0 for label in labels])
        axes.pcolormesh(SEND, WAIT, places[best], cmap=ListedColormap(list(colors.values())), vmin=-0.5,
                        vmax=len(shown) - 0.5, shading="nearest", rasterized=True)  # fmt: skip
        axes.set(xscale="log", yscale="log", title=title, ylabel="latency of a round / a gradient")
    panels[-1].set_xlabel("time to send D floats / time of a gradient")
    handles = [Patch(color=color, label=label) for label, color in colors.items()]
    panels[-1].legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
    note(canvas, f"{seeds_of(table)}, medians; to 5 % above Adam's loss")
    return canvas


COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#777777", "#000000", "#AA4499")

FIGURE = PaperFigure(
    name="choosing",
    title="Which system is the first at Adam's loss",
    beside="ours",
    caption=(
        "Who is first at a loss at most 5 % above Adam's last one, on a network of a given speed: gradients, bytes "
        "over the bandwidth and rounds times the latency, added up. On text Adam is, where sending D floats takes "
        "far less than a gradient; two-sided error-compensated SGD, which sends least, where it takes far longer; "
        "and local Adam where latency counts. Between them it is 1-bit Adam or 0/1 Adam, on some processors 1-bit "
        "LAMB in a strip. Problems differ: on the autoencoder it is 1-bit LAMB or local Adam everywhere. The digits "
        "are learnt by heart, where workers that walk alone do best."
    ),
    draw=draw,
    runs=runs,
    extra=True,
)
