"""T11a: k rounding errors, multiplied or divided, amount to at most gamma_k."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from theory.formula import ForAll, array, eq, le, lt
from theory.notation import Row, count, k, roundoff
from theory.theorem import Example, Hypothesis, Theorem

factors = array("factors")
partial_product = array("partial_product")
n_factors = count("n_factors", least=0)


def example() -> Example:
    """Three divisions by 1 - u, in a format of ten bits so that second-order terms show."""
    u, number = Fraction(1, 2**10), 3
    return Example(
        "(1 - u)^-3 - 1 at u = 2^-10",
        float((1 - u) ** -number - 1),
        {
            "n_factors": number,
            "unit_roundoff": u,
            "factors": [1 / (1 - u)] * number,
            "partial_product": [(1 - u) ** -power for power in range(number + 1)],
        },
    )


THEOREM = Theorem(
    id="T11a",
    title="Products of rounding errors",
    conclusion=le(sp.Abs(partial_product[n_factors] - 1), n_factors * roundoff / (1 - n_factors * roundoff)),
    hypotheses=(
        Hypothesis("start", eq(partial_product[0], 1), "the empty product is one"),
        Hypothesis(
            "running",
            ForAll(((k, n_factors),), eq(partial_product[k + 1], partial_product[k] * factors[k])),
            "partial_product[k] is the product of the factors before k",
        ),
        Hypothesis(
            "lower", ForAll(((k, n_factors),), le(1 - roundoff, factors[k])), "a factor is at least one minus u"
        ),
        Hypothesis(
            "upper",
            ForAll(((k, n_factors),), le(factors[k], 1 / (1 - roundoff))),
            "a factor is at most one over one minus u: so it may be 1 + d or 1/(1 + d), abs(d) <= u",
        ),
        Hypothesis("few", lt(n_factors * roundoff, 1), "fewer roundings than one over the unit roundoff"),
    ),
    where=(
        Row(factors, "f", "1 + d or 1/(1 + d), d the relative error of one rounding"),
        Row(partial_product, "p", "product of the factors so far"),
        Row(n_factors, "n", "number of factors", default=3),
    ),
    words="If every abs(d) <= u, the product of n factors (one plus d) or its reciprocal differs from one by at most "
    "gamma_n = n u over (one minus n u).",
    good_for="Every tolerance counts roundings and then uses this.",
    source="Higham, Accuracy and Stability of Numerical Algorithms, Lemma 3.1",
    example=example,
    remarks="A rounding that an implementation does not commit (a fused operation, an exact coefficient) is a factor "
    "one, so fewer are covered.",
)
