"""How the step sizes were chosen: ``python -m paper_figures.tuning`` finds the best of every algorithm and problem,
or of those algorithms whose labels it is given, and writes them to ``tuned.json``, which the figures read.

One budget for every algorithm: a grid of six half decades, with one seed; then two more seeds for the three best. The
step size with the lowest geometric mean of the loss at the last step wins. Where that is an end of the grid, the grid
goes on, with all three seeds, until it is not. No figure uses these seeds. Adam's relatives and SGD's have a grid each,
as their step sizes have different units.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from onebit_files import write_atomically
from paper_figures.algorithms import (
    DIGITS,
    LINE_UP,
    LOGISTIC,
    PATCHES,
    SGD_FAMILY,
    SHORT_WARMUP,
    TEXT,
    TUNED_FILE,
    Algorithm,
    Experiment,
)
from paper_figures.family import LIKE_SGD, NEW
from reference.experiments import RunConfig, RunStore, sweep
from reference.experiments.sweep import default_store

SEEDS = (1000, 1001, 1002)
ADAM_GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SGD_GRID = (1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
KEPT = 3
ALGORITHMS = (*LINE_UP, *SHORT_WARMUP, *NEW)
PROBLEMS = ((LOGISTIC, "excess_loss"), (DIGITS, "loss"), (TEXT, "loss"), (PATCHES, "loss"))
"""What is tuned on, and which loss counts: that of training, so that held-out data stay unseen."""


def grid(algorithm: Algorithm) -> tuple[float, ...]:
    """The six step sizes of the family of ``algorithm``."""
    return SGD_GRID if algorithm in (*SGD_FAMILY, *LIKE_SGD) else ADAM_GRID


def config(experiment: Experiment, algorithm: Algorithm, lr: float, seed: int) -> RunConfig:
    """One run, measured at its end only."""
    return experiment.run(algorithm, seed, {"lr": lr}, tags={"lr": lr}, record_every=experiment.steps)


def best_first(
    experiment: Experiment, column: str, configs: list[RunConfig], store: RunStore
) -> dict[str, list[float]]:
    """Label -> its step sizes, by the geometric mean of the loss at the last step; a diverged run counts as inf."""
    losses: dict[tuple[str, float], list[float]] = {}
    for one in configs:
        table = store.table([one])
        start, end = float(table[column].iloc[0]), float(table[column].iloc[-1])
        losses.setdefault((str(one.label), one.tags["lr"]), []).append(math.log(end) if end < start else math.inf)
    ranked = sorted(losses, key=lambda key: math.fsum(losses[key]) / len(losses[key]))
    return {label: [lr for other, lr in ranked if other == label] for label, _ in ranked}


def tune(algorithms: Sequence[Algorithm], store: RunStore) -> dict[str, dict[str, float]]:
    """Problem -> label -> step size."""
    first = {
        experiment.problem: [config(experiment, a, lr, SEEDS[0]) for a in algorithms for lr in grid(a)]
        for experiment, _ in PROBLEMS
    }
    sweep([one for configs in first.values() for one in configs], store)
    second: dict[str, list[RunConfig]] = {}
    for experiment, column in PROBLEMS:
        best = best_first(experiment, column, first[experiment.problem], store)
        second[experiment.problem] = [
            config(experiment, a, lr, seed) for a in algorithms for lr in best[a.label][:KEPT] for seed in SEEDS
        ]
    while True:
        sweep([one for configs in second.values() for one in configs], store)
        best = {
            experiment.problem: best_first(experiment, column, second[experiment.problem], store)
            for experiment, column in PROBLEMS
        }
        further = [
            (experiment, algorithm, lr)
            for experiment, _ in PROBLEMS
            for algorithm in algorithms
            if (lr := beyond(algorithm, best[experiment.problem][algorithm.label])) is not None
        ]
        if not further:
            return {problem: {label: lrs[0] for label, lrs in ranked.items()} for problem, ranked in best.items()}
        for experiment, algorithm, lr in further:
            second[experiment.problem] += [config(experiment, algorithm, lr, seed) for seed in SEEDS]


def labels_of(algorithms: Sequence[Algorithm]) -> list[str]:
    """Their names."""
    return [algorithm.label for algorithm in algorithms]


def beyond(algorithm: Algorithm, ranked: list[float]) -> float | None:
    """The next step size where the best of ``ranked`` is an end of what was tried, or None."""
    tried = sorted({*grid(algorithm), *ranked})
    if ranked[0] not in (tried[0], tried[-1]):
        return None
    exponent = round(2 * math.log10(ranked[0])) + (1 if ranked[0] == tried[-1] else -1)
    return float(f"{10 ** (exponent / 2):.0e}")


def record(chosen: dict[str, dict[str, float]], path: Path = TUNED_FILE) -> list[str]:
    """Write ``chosen`` into ``path`` beside what stays there, in the order of ALGORITHMS.

    Returns:
        a line for each step size that is not what stood there.
    """
    changed = []
    known = json.loads(path.read_text(encoding="utf-8"))
    for problem, best in chosen.items():
        for label, lr in best.items():
            if (old := known[problem].get(label)) != lr:
                changed.append(f"{problem}, {label}: {lr:g}, was {old}")
        merged = known[problem] | best
        known[problem] = {label: merged[label] for label in labels_of(ALGORITHMS) if label in merged}
    write_atomically(path, json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    return changed


def main(
    labels: Annotated[list[str] | None, typer.Argument(help="Algorithms by their labels; default: all.")] = None,
) -> None:
    """Try the step sizes of the grid for each algorithm on each problem, and write the best into tuned.json."""
    if unknown := set(labels or ()) - set(labels_of(ALGORITHMS)):
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(labels_of(ALGORITHMS))}")
    wanted = [algorithm for algorithm in ALGORITHMS if algorithm.label in (labels or labels_of(ALGORITHMS))]
    changes = record(tune(wanted, default_store()))
    sys.stdout.write("\n".join([*changes, f"{len(changes)} step sizes changed in {TUNED_FILE}\n"]))


if __name__ == "__main__":
    typer.run(main)
