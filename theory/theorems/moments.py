"""T1p, T1q: what the moments of one random vector have to do with each other; T1c takes no others."""

from __future__ import annotations

import math

import sympy as sp

from theory.formula import ForAll, array, eq, le, total
from theory.notation import Row, count, d, k
from theory.theorem import Hypothesis, Theorem
from theory.witness import instance

w, outcomes = count("w", least=0), count("outcomes")
probability, sample = array("probability"), array("sample")
first, second, fourth = (sp.Symbol(f"{name}_moment", positive=True) for name in ("first", "second", "fourth"))

FIRST = Row(first, r"E|x|", "mean size of a coordinate", default=math.sqrt(2 / math.pi))
SECOND = Row(second, r"Ex^2", "mean square of a coordinate", default=1.0)
FOURTH = Row(fourth, r"Ex^4", "bound on the mean fourth power of a coordinate", default=3.0)
SPACE = (
    Row(outcomes, "n", "outcomes of the probability space"),
    Row(probability, "p", "probability of an outcome", "(n,)"),
    Row(sample, "x", "the random vector, by outcome", "(n, d)"),
)


def expected(term: sp.Expr) -> sp.Expr:
    """Probability sum over the outcomes w."""
    return total(probability[w] * term, w, outcomes)


MOMENTS = (
    Hypothesis("probabilities", ForAll(((w, outcomes),), le(0, probability[w])), "no probability is negative"),
    Hypothesis("all_outcomes", eq(total(probability[w], w, outcomes), 1), "they sum to one"),
    Hypothesis("first", ForAll(((k, d),), eq(expected(sp.Abs(sample[w, k])), first)), "E|x| of every coordinate"),
    Hypothesis("second", ForAll(((k, d),), eq(expected(sample[w, k] ** 2), second)), "E x^2 of every coordinate"),
    Hypothesis("fourth", ForAll(((k, d),), le(expected(sample[w, k] ** 4), fourth)), "a bound on E x^4"),
)

SQUARED = Theorem(
    id="T1p",
    title="The squared mean size is at most the mean square",
    conclusion=le(first**2, second),
    hypotheses=tuple(item for item in MOMENTS if item.name != "fourth"),
    words="If all coordinates of a random vector have one mean size and one mean square, the square of E|x| is at most "
    "the mean square of x.",
    good_for="T1c refuses moments that no vector has.",
    source="Cauchy-Schwarz inequality",
    where=(*SPACE, FIRST, SECOND),
    example=lambda: instance(
        SQUARED,
        "coordinates of one size",
        {"live": 2, "outcomes": 2, "probability": [0.5, 0.5], "sample": [[1.0, -1.0], [-1.0, -1.0]]}
        | {"first_moment": 1.0, "second_moment": 1.0},
    ),
)

CUBED = Theorem(
    id="T1q",
    title="The cubed mean square is at most the squared mean size times the mean fourth power",
    conclusion=le(second**3, first**2 * fourth),
    hypotheses=tuple(item for item in MOMENTS if item.name != "all_outcomes"),
    words="If all coordinates of a random vector have one mean size, one mean square and bounded fourth powers, the "
    "cube of the mean square is at most the square of E|x| times the bound on the mean fourth power.",
    good_for="T1c refuses moments that no vector has.",
    source="Cauchy-Schwarz inequality, twice",
    where=(*SPACE, FIRST, SECOND, FOURTH),
    example=lambda: instance(
        CUBED,
        "coordinates that are zero or of one size",
        {"live": 2, "outcomes": 2, "probability": [0.5, 0.5], "sample": [[0.0, -2.0], [2.0, 0.0]]}
        | {"first_moment": 1.0, "second_moment": 2.0, "fourth_moment": 8.0},
    ),
    remarks="The weights need not sum to one.",
)

THEOREMS = (SQUARED, CUBED)
