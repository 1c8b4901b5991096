"""P5: Adam's variance settles early in training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from paper_figures.algorithms import ADAM
from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.statistics import Array, below, select
from paper_figures.figures.variance_stability import BETA2
from theory.theorems.freeze_rule import THRESHOLD, window_length

WINDOW = window_length(BETA2)
"""Delta = 1/(1-beta2) steps, at the figure's beta2."""
PROBLEMS = {"char_transformer": "character transformer", "mlp": "digits MLP"}
TEST = "below the 4 % of the freeze rule"


def measure(facts: Facts) -> list[Check]:
    """Change of the norm of v a window, in the last third of the run: in all, and in the array that moves most."""
    checks = []
    for problem, name in PROBLEMS.items():
        table = facts["variance_stability"]
        rows = select(table.loc[table["problem"] == problem], ADAM.label)
        arrays = [column for column in rows if column.startswith("variance_l1[") and rows[column].notna().any()]
        if not arrays:
            raise EvidenceError(f"variance_stability has no arrays for {problem}")
        early, late = drift(rows, ["variance_l1"], 0), drift(rows, ["variance_l1"], 2)
        checks += [
            below(
                np.log10(late / early), 0.0, f"{name}, last third against first", unit="decades of ||v||'s change",
                test="it slows down",
            ),
            below(late, -np.log(THRESHOLD), f"{name}, all of v", unit="change of log ||v|| a window", test=TEST),
            below(
                drift(rows, arrays, 2), -np.log(THRESHOLD), f"{name}, the array that moves most",
                unit="change of log ||v|| a window", test=TEST,
            ),
        ]  # fmt: skip
    return checks


def drift(rows: Any, columns: Iterable[str], third: int) -> Array:
    """Mean abs(log ||v_t|| - log ||v_{t-Delta}||) over the windows that end in a third of the run (S,).

    The first window is left out: v grows from 0 there. Of several columns the one that moves most on average.
    """
    steps = int(rows["step"].max())
    of_columns = []
    for column in columns:
        curves = rows.pivot_table(index="step", columns="seed", values=column)
        before = curves.reindex(curves.index - WINDOW).to_numpy()
        change = np.abs(np.log(curves.to_numpy()[curves.index > WINDOW] / before[curves.index > WINDOW]))
        ends = curves.index[curves.index > WINDOW].to_numpy() / steps
        part = change[(ends > third / 3) & (ends <= (third + 1) / 3)]
        if not np.isfinite(part).all() or not len(part):
            raise EvidenceError(f"{column} has no windows of {WINDOW} steps in a third of the run")
        of_columns.append(part.mean(axis=0))
    return max(of_columns, key=lambda change_S: float(change_S.mean()))


CLAIM = Claim(
    id="P5",
    title="The variance settles",
    statement=(
        "After an early stage Adam's variance changes little. In the last third of training its norm moves by less "
        "than 4 % in 1/(1-β2) steps, the freeze rule's own measure."
    ),
    where="figure 2",
    published="",
    source="recalled",
    conditions=(
        "Where gradients stay noisy, as in pre-training on far more data than parameters. A model that interpolates "
        "its data has gradients, and so a variance, that go to 0. The norm of all of v says nothing of one array of "
        "parameters, which may move more: the one that moves most has checks of its own."
    ),
    figures=("variance_stability",),
    theorems=("T7a", "T7b", "T7c"),
    laws=("C10",),
    pair=None,
    measure=measure,
)
