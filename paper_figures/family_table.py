"""The table of all systems: ``python -m paper_figures.family_table`` prints it; docs/choosing.md has the recorded one.

From the runs of the family's figures, with five seeds for every system; what is not in the cache is computed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import typer

from paper_figures.algorithms import ADAM_CORRECTED, Algorithm
from paper_figures.claims.statistics import final, interval, last, paired
from paper_figures.family import FAMILY, KINDS, LOSSES
from paper_figures.figure import Scale
from paper_figures.figures.choosing import PANELS
from reference.experiments import RunConfig, sweep
from reference.experiments.sweep import default_store

NAMES = {"mlp": "digits", "char_transformer": "text", "denoising": "patches"}
TRAFFIC = "char_transformer"
"""The problem whose bytes, rounds and memory are shown: D = 19,040 in 1,000 steps."""


def ratio(table: pd.DataFrame, algorithm: Algorithm, column: str) -> str:
    """Final loss over Adam's with its 95 % interval, seed by seed; how many seeds end above their start."""
    found, adam = (final(table, one.label, column) for one in (algorithm, ADAM_CORRECTED))
    mean, low, high = np.exp(interval(paired(found, adam)))
    lost = int(found.diverged_S.sum())
    return f"{mean:.3g} ({low:.3g} to {high:.3g})" + (f", {lost} of {len(found.seeds_S)} diverge" if lost else "")


def head() -> str:
    """The first two lines of the table in Markdown."""
    losses = [f"loss over Adam's, {NAMES[problem]}" for problem in LOSSES]
    columns = ["system", "sends", "bytes", "rounds a step", "kept", *losses]
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"


def row(table: pd.DataFrame, algorithm: Algorithm) -> str:
    """A system; the table has its runs and Adam's."""
    here = table.loc[table["problem"] == TRAFFIC]
    dense = last(here, ADAM_CORRECTED.label, "bytes_per_worker").mean()
    share = last(here, algorithm.label, "bytes_per_worker").mean() / dense
    rounds = last(here, algorithm.label, "rounds").mean() / here["step"].max()
    kept = last(here, algorithm.label, "kept_per_parameter").max()
    kind = next(kind for kind, (_, members) in KINDS.items() if algorithm in members)
    cells = [algorithm.label, kind, f"{share:.3g}", f"{rounds:.2g}", f"{kept:.1f}"]
    cells += [ratio(table.loc[table["problem"] == name], algorithm, column) for name, column in LOSSES.items()]
    return f"| {' | '.join(cells)} |"


def lines(table: pd.DataFrame) -> Iterator[str]:
    """The table in Markdown, a row a system, the kinds one after another."""
    yield head()
    yield from (row(table, algorithm) for algorithm in FAMILY)


def runs(algorithms: Iterable[Algorithm] = FAMILY) -> list[RunConfig]:
    """Five seeds of every system, on all problems."""
    return [config for experiment, *_ in PANELS for config in experiment.runs(Scale.QUICK, tuple(algorithms))]


def main() -> None:
    """Print the table of all systems; runs that are not in the cache are computed, which takes minutes."""
    sys.stdout.write("\n".join(lines(sweep(runs(), default_store()))) + "\n")


if __name__ == "__main__":
    typer.run(main)
