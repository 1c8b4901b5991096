"""The problems of the convergence figures, and the column that is compared there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pandas as pd

from paper_figures.claims.claim import Facts
from paper_figures.claims.facts import at_freeze
from paper_figures.claims.statistics import Runs, final, whole_curve

CONVERGENCE = {
    "convergence_logistic_regression": ("logistic regression", "excess_loss"),
    "convergence_digits_mlp": ("digits MLP", "loss"),
    "convergence_char_transformer": ("character transformer", "loss"),
}
"""Figure -> what its problem is called, and the column of its y axis."""

FIGURES = tuple(CONVERGENCE)


def finals(facts: Facts) -> Iterator[tuple[str, Callable[[str], Runs]]]:
    """Each problem, with a function from a label to its final losses."""
    for figure, (problem, column) in CONVERGENCE.items():
        yield problem, partial(final, facts[figure], column=column)


def curves(facts: Facts, frozen: str) -> Iterator[tuple[str, Callable[[str], Runs]]]:
    """Each problem, with a function from a label to its mean log loss after the step at which ``frozen`` freezes."""
    for figure, (problem, column) in CONVERGENCE.items():
        table: pd.DataFrame = facts[figure]
        yield problem, partial(whole_curve, table, column=column, since=at_freeze(table, frozen))
