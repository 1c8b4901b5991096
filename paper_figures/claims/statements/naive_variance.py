"""P4: why naive compression fails: the variance is made of squared compression errors."""

from __future__ import annotations

import numpy as np

from paper_figures.algorithms import ADAM, NAIVE
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.statistics import above, below, last


def measure(facts: Facts) -> list[Check]:
    """The parts of naive Adam's variance, as theorem T4a takes it apart, at the end of the run."""
    table = facts["naive_adam"]
    total, exact, square, spread, exact_spread = (
        last(table, NAIVE.label, column)
        for column in ("variance_l1", "exact_variance_l1", "square_variance", "spread", "exact_spread")
    )
    adam = last(table, ADAM.label, "variance_l1")
    return [
        above(
            square / total, 0.5, "square of what was compressed away", unit="of naive Adam's variance",
            test="more than half", required=True,
        ),
        above(
            np.log10(total / exact), 0.0, "v against the average of g² on its own path", unit="decades",
            test="v is larger",
        ),
        above(np.log10(total / adam), 0.0, "v against Adam's", unit="decades", test="v is larger"),
        below(
            np.log10(spread / exact_spread), 0.0, "spread of √v over coordinates against that of the average of g²",
            unit="decades", test="v tells coordinates less apart",
        ),
    ]  # fmt: skip


CLAIM = Claim(
    id="P4",
    title="Why naive compression fails",
    statement=(
        "The variance of naive Adam is the average of (g + Δ' - Δ)², and (Δ' - Δ)² does not telescope. It makes up "
        "most of v, which is too large and, one bit having one magnitude, nearly the same for all coordinates."
    ),
    where="section 3.3",
    published="",
    source="seen",
    conditions="",
    figures=("naive_adam",),
    theorems=("T4a", "T4b"),
    pair=(NAIVE.label, ADAM.label),
    measure=measure,
)
