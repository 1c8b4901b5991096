"""T7a, T7b, T7h: how far the second moment moves after the freeze, in the worst case and for stationary gradients.

After T_w the algorithm keeps v; Adam would have kept averaging, v_{t+1} = beta2 v_t + (1-beta2) g_{t+1}^2. The
difference between the two is what freezing ignores. Time counts from the freeze: v_0 is the frozen value.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, le, total
from theory.notation import Row, beta2, count, gradient_bound, grads, t, variance
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.witness import instance

s, r = count("s", least=0), count("r", least=0)
outcome, n_outcomes = count("outcome", least=0), count("n_outcomes")
weight = array("weight")
second = sp.Symbol("second_moment", positive=True)
fourth = sp.Symbol("square_variance", nonnegative=True)
start = sp.Symbol("frozen_variance", nonnegative=True)

OUTCOMES = Row(n_outcomes, r"\Omega", "outcomes of the finite probability space", default=1)
WEIGHT = Row(weight, "p", "probability of an outcome", "(n_outcomes,)")
SECOND = Row(second, r"m_2", "mean of the squared gradient", default=1.0)
FOURTH = Row(fourth, r"V_4", "variance of the squared gradient (twice the squared mean for a Gaussian)", default=2.0)
START = Row(start, "v_0", "v of the coordinate at the freeze", default=1.0)


def expected(term: object) -> sp.Sum:
    """Expectation over the outcomes."""
    return total(weight[outcome] * term, outcome, n_outcomes)


def drifting() -> dict[str, Any]:
    """Gradients at the bound G = 1 for 1,000 steps from v = 0.1."""
    beta2, variance_T = Fraction(999, 1000), [Fraction(1, 10)]
    for _ in range(1000):
        variance_T.append(beta2 * variance_T[-1] + (1 - beta2))
    numbers = {"beta2": beta2, "step": 1000, "gradient_bound": 1.0, "frozen_variance": variance_T[0]}
    return numbers | {"variance": variance_T, "grads": np.ones(1001)}


def enumerated() -> dict[str, Any]:
    """All 64 sequences of six fair gradients with g^2 of 0 or 4, beta2 = 3/4, from v = 5."""
    steps, beta2 = 6, 0.75
    squares_XT = np.array(list(product((0.0, 4.0), repeat=steps)))
    variance_TX = [np.full(len(squares_XT), 5.0)]
    for squares_X in squares_XT.T:
        variance_TX.append(beta2 * variance_TX[-1] + (1 - beta2) * squares_X)
    grads_TX = np.vstack([np.zeros(len(squares_XT)), np.sqrt(squares_XT.T)])
    numbers = {"beta2": beta2, "step": steps, "frozen_variance": 5.0, "second_moment": 2.0, "square_variance": 4.0}
    space = {"n_outcomes": len(squares_XT), "weight": np.full(len(squares_XT), 1 / len(squares_XT))}
    return numbers | space | {"variance": variance_TX, "grads": grads_TX}


DRIFT = Theorem(
    id="T7a",
    title="Drift of the variance after the freeze, worst case",
    conclusion=le(sp.Abs(variance[t] - start), (1 - beta2**t) * sp.Max(start, gradient_bound**2 - start)),
    hypotheses=(
        Hypothesis(
            "adam",
            ForAll((s,), eq(variance[s + 1], beta2 * variance[s] + (1 - beta2) * grads[s + 1] ** 2)),
            "v of one coordinate as Adam would go on averaging it",
        ),
        Hypothesis("known_start", eq(variance[0], start), "v at the freeze"),
        Hypothesis(
            "bounded_gradient",
            ForAll((s,), le(sp.Abs(grads[s + 1]), gradient_bound)),
            "no gradient of the coordinate exceeds G",
        ),
    ),
    where=(START, Row(s, "s", "step", unit="steps")),
    words="Adam's v can't have moved from the frozen value by more than a share of the larger of two numbers: the "
    "frozen value, and what it lacks to the squared bound on the gradient. The share is {share}: small for a number "
    "of steps well below the memory of v, and nearly one far beyond it.",
    numbers={"share": 1 - beta2**t},
    good_for="Says for how many steps after the freeze the frozen v is still near the v that Adam would have.",
    source="ours",
    example=lambda: instance(DRIFT, "|g| = 1 for 1,000 steps from v = 0.1, beta2 = 0.999", drifting()),
    laws=("L4",),
    remarks="In the run v is constant (L4). The theorem is about the v that Adam would have had.",
)

RANDOM_ADAM = Hypothesis(
    "adam",
    ForAll(
        (s, (outcome, n_outcomes)),
        eq(variance[s + 1, outcome], beta2 * variance[s, outcome] + (1 - beta2) * grads[s + 1, outcome] ** 2),
    ),
    "v of one coordinate as Adam would go on averaging it, in every outcome",
)
KNOWN_START = Hypothesis(
    "known_start", ForAll(((outcome, n_outcomes),), eq(variance[0, outcome], start)), "v is known at the freeze"
)
SUM_ONE = Hypothesis("sum_one", eq(total(weight[outcome], outcome, n_outcomes), 1), "the probabilities sum to one")
SAME_MEAN = Hypothesis(
    "same_mean",
    ForAll((s,), eq(expected(grads[s + 1, outcome] ** 2), second)),
    "the squared gradient has the same mean in every step",
)
MEAN_OF_V = beta2**t * start + (1 - beta2**t) * second
RANDOM_ROWS = (OUTCOMES, WEIGHT, SECOND, START, Row(s, "s", "step", unit="steps"))

MEAN = Theorem(
    id="T7h",
    title="Mean of the variance for stationary gradients",
    conclusion=eq(expected(variance[t, outcome]), MEAN_OF_V),
    hypotheses=(RANDOM_ADAM, KNOWN_START, SUM_ONE, SAME_MEAN),
    where=RANDOM_ROWS,
    words="If the squared gradient has the same mean in every step, v moves from its frozen value towards that mean; "
    "the share {left} of the way is left.",
    numbers={"left": beta2**t},
    good_for="How much of a wrong start is still in v after a number of steps, in the mean.",
    source="ours (an AR(1) filter)",
    example=lambda: instance(MEAN, "all sequences of six gradients with g^2 of 0 or 4", enumerated()),
    laws=("L4",),
    remarks="Gradients of different steps may depend on each other. Expectation is a sum over a finite probability "
    "space of any size; that no probability is negative is not needed.",
)

SPREAD = Theorem(
    id="T7b",
    title="Spread of the variance for stationary gradients",
    conclusion=eq(
        expected((variance[t, outcome] - MEAN_OF_V) ** 2),
        (1 - beta2) / (1 + beta2) * (1 - beta2 ** (2 * t)) * fourth,
    ),
    hypotheses=(
        RANDOM_ADAM,
        KNOWN_START,
        Hypothesis(
            "same_spread",
            ForAll((s,), eq(expected((grads[s + 1, outcome] ** 2 - second) ** 2), fourth)),
            "the squared gradient has the same variance in every step",
        ),
        Hypothesis(
            "uncorrelated",
            ForAll(
                (s, r),
                eq(expected((grads[s + 1, outcome] ** 2 - second) * (grads[s + r + 2, outcome] ** 2 - second)), 0),
            ),
            "the squared gradients of different steps are uncorrelated (independent gradients are)",
        ),
    ),
    where=(*RANDOM_ROWS, FOURTH, Row(r, "r", "further steps", unit="steps")),
    words="For independent gradients of constant law the variance of v is the share {share} of the variance of the "
    "squared gradient, whatever the frozen value was. With the default beta2 a Gaussian coordinate's v has, long "
    "after its start, a relative standard deviation of {gaussian}.",
    numbers={
        "share": (1 - beta2) / (1 + beta2) * (1 - beta2 ** (2 * t)),
        "gaussian": Quoted(
            sp.sqrt(2 * (1 - beta2) / (1 + beta2)),
            {beta2: sp.Rational(999, 1000)},
            by="the root of the share after many steps, times two: the variance of a squared Gaussian is twice the "
            "square of its mean",
        ),
    },
    good_for="Says how noisy each coordinate of a frozen v is, and so what a freeze rule has to average over.",
    source="ours (an AR(1) filter)",
    example=lambda: instance(SPREAD, "all sequences of six gradients with g^2 of 0 or 4", enumerated()),
    laws=("L4",),
    remarks="So a rule that compares norms of v (C10) works against noise of a few percent a coordinate, averaged over "
    "coordinates. For one coordinate; positively correlated squares have a larger spread. The proof does not use that "
    "second_moment is the mean of the squared gradient; it is what makes both sides variances.",
)


THEOREMS = (DRIFT, SPREAD, MEAN)
