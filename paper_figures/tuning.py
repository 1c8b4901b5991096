"""How the step sizes of the SGD family were chosen: ``python -m paper_figures.tuning`` prints the grid.

A grid of half decades, one run each with a seed that no figure uses; the step size with the lowest loss at the last
step wins, per problem and algorithm. Adam and its relatives keep the step size of the figure: they are not tuned, which
can only favour SGD.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from reference.experiments import RunConfig, RunStore, sweep
from reference.experiments.sweep import default_store

SEED = 1000
GRID = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
FAMILY: dict[str, dict[str, Any]] = {
    "sgd": {},
    "momentum_sgd": {},
    "double_squeeze": {},
    "local_sgd": {"sync_every": 5},
}
PROBLEMS: dict[str, tuple[dict[str, Any], int]] = {
    "logistic_regression": ({}, 1500),
    "mlp": ({}, 2000),
    "char_transformer": ({"context": 16, "n_windows": 256}, 1000),
}


def configs() -> list[RunConfig]:
    """Problem x algorithm x step size."""
    return [
        RunConfig(
            problem=problem, problem_args=arguments, optimizer=optimizer, hyper={**hyper, "lr": lr}, steps=steps,
            seed=SEED, record_every=steps, tags={"lr": lr},
        )
        for problem, (arguments, steps) in PROBLEMS.items()
        for optimizer, hyper in FAMILY.items()
        for lr in GRID
    ]  # fmt: skip


def losses(store: RunStore) -> pd.DataFrame:
    """Loss at the last step: rows are (problem, optimizer), columns are step sizes."""
    table = sweep(configs(), store)
    last = table[table["step"] > 0]
    return last.pivot_table(index=["problem", "optimizer"], columns="lr", values="loss", dropna=False)


if __name__ == "__main__":
    print(losses(default_store()).to_string())  # noqa: T201 - this is what it is for
