"""T7c, T7i, T7k: what the freeze rules C10 certify: the published 0.96 rule, and the two-sided one on corrected norms.

Over Delta = round(1/(1-beta2)) steps v_{t+Delta} = q v_t + (1-q) W, with q = beta2^Delta (about 1/e) and W the window's
weighted mean of the squared gradients. A rule that compares norms of v is a statement about W, summed over
coordinates; no more.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

from theory.formula import ForAll, array, eq, le, lt, total
from theory.notation import Row, beta2, count, d, grads, k, t, variance
from theory.rationals import fractions
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.witness import instance

THRESHOLD = 0.96

s, r = count("s", least=0), count("r", least=0)
window = count("window")
threshold = sp.Symbol("threshold", positive=True)
tolerance = sp.Symbol("tolerance", nonnegative=True)
norm = array("norm")
before = sp.Symbol("before", nonnegative=True)
after = sp.Symbol("after", nonnegative=True)
recent = sp.Symbol("recent", nonnegative=True)
keep = beta2**window

WINDOW = Row(window, r"\Delta_w", "steps between the two norms that a rule compares", unit="steps", default=1000)
NORM = Row(norm, "V", "sum of v over the coordinates", "(n_steps,)")
STEP = Row(s, "s", "step", unit="steps")
ADAM = Hypothesis(
    "adam",
    ForAll((s, (k, d)), eq(variance[s + 1, k], beta2 * variance[s, k] + (1 - beta2) * grads[s + 1, k] ** 2)),
    "v is Adam's",
)
NORM_OF_V = Hypothesis(
    "norm_of_v", ForAll((s,), eq(norm[s], total(variance[s, k], k, d))), "norm is the sum of v over the coordinates"
)


def window_length(beta2: float) -> int:
    """Delta = round(1/(1-beta2))."""
    return round(1 / (1 - beta2))


def fires_at(squares_TD: np.ndarray, beta2: float) -> int | None:
    """First step t at which the published rule holds for squared gradients (T, D), v from 0; None if it never does."""
    length = window_length(beta2)
    v, norms = np.zeros(squares_TD.shape[1]), [0.0]
    for step, squares in enumerate(squares_TD, 1):
        v = beta2 * v + (1 - beta2) * squares
        norms.append(float(v.sum()))
        if step > length and norms[step] >= THRESHOLD * norms[step - length]:
            return step
    return None


def followed(grads_T: Any, *, start: int) -> dict[str, Any]:
    """Adam's v of one coordinate through given gradients, and a rule's window of 10 steps after ``start``; exact."""
    beta2, window, squares_T = Fraction(9, 10), 10, fractions(grads_T) ** 2
    variance_T = [Fraction()]
    for square in squares_T[1:]:
        variance_T.append(beta2 * variance_T[-1] + (1 - beta2) * square)
    weights = [(1 - beta2) * beta2**age / (1 - beta2**window) for age in range(window)]
    recent = sum(weight * squares_T[start + window - age] for age, weight in enumerate(weights))
    before, after = (
        v / (1 - beta2**t) for v, t in ((variance_T[start], start), (variance_T[start + window], start + window))
    )
    numbers = {"live": 1, "step": start, "beta2": beta2, "window": window, "recent": recent}
    rules = {"before": before, "after": after, "tolerance": abs(after - before) / before}
    rules["threshold"] = variance_T[start + window] / variance_T[start]
    arrays = {"grads": fractions(grads_T)[:, None], "variance": np.array(variance_T)[:, None], "norm": variance_T}
    return numbers | rules | arrays


RECENT = Hypothesis(
    "window_mean",
    eq(
        (1 - keep) * recent,
        total((1 - beta2) * beta2**r * total(grads[t + window - r, k] ** 2, k, d), r, window),
    ),
    "recent is the weighted mean of the squared gradients after step t, up to the end of the window, the last heaviest",
)
WHERE = (
    WINDOW,
    NORM,
    STEP,
    Row(r, "r", "steps before the end of the window", unit="steps"),
    Row(recent, "W", "weighted mean of the squared gradients in the window, summed over coordinates"),
)
CERTIFIED = (threshold - keep) / (1 - keep)
CLOSE = tolerance * (keep - beta2 ** (t + window)) / (1 - keep)

PUBLISHED = Theorem(
    id="T7c",
    title="What the published freeze rule certifies",
    conclusion=cast(Relational, sp.Ge(recent / norm[t], CERTIFIED, evaluate=False)),
    hypotheses=(
        ADAM,
        NORM_OF_V,
        RECENT,
        Hypothesis("positive_norm", lt(0, norm[t]), "the norm at the start of the window is positive"),
        Hypothesis("fires", le(threshold * norm[t], norm[t + window]), "the rule holds at the end of the window"),
    ),
    where=(
        *WHERE,
        Row(threshold, r"\theta", "least ratio of the two norms", default=THRESHOLD),
    ),
    words="Where the rule holds, the weighted mean of the squared gradients in the window, summed over coordinates, is "
    "at least the share {share} of the norm of v before the window: {number} with the published constants.",
    numbers={"share": CERTIFIED, "number": Quoted(CERTIFIED, {threshold: sp.Rational(96, 100), keep: sp.exp(-1)})},
    good_for="Says what a freeze by the published rule tells about the gradients of its window.",
    source="rule: arXiv 2102.02888 (recalled); analysis: ours",
    example=lambda: instance(
        PUBLISHED,
        "gradients that fall, threshold at the ratio that they leave",
        followed(32 / np.arange(32.0, 62), start=15),
    ),
    laws=("C10",),
    remarks="It is one-sided, and speaks of v without bias correction: growth passes (T7k), and so does a coordinate "
    "that falls while another takes over, for only the sum is compared. It says nothing on the time after: v may fall "
    "by the threshold in every window and pass each time. The number takes exp(-1) for beta2 to the power of the "
    "window.",
)

COLD_START = Theorem(
    id="T7k",
    title="The published rule holds while the squared gradients don't fall",
    conclusion=le(norm[t], norm[t + window]),
    hypotheses=(
        ADAM,
        NORM_OF_V,
        Hypothesis("from_zero", ForAll(((k, d),), eq(variance[0, k], 0)), "v starts at zero"),
        Hypothesis(
            "no_fall",
            ForAll((s, (k, d)), le(grads[s + 1, k] ** 2, grads[s + 2, k] ** 2)),
            "no squared gradient falls",
        ),
    ),
    where=(WINDOW, NORM, STEP),
    words="From a cold start the norm of v never falls while no squared gradient does, so that a rule that asks for "
    "a ratio of at most one holds at its first chance, however far v still is from the gradients.",
    example=lambda: instance(COLD_START, "constant gradients", followed(np.ones(30), start=15)),
    good_for="Where squared gradients don't fall, the published rule without a learning-rate warm-up freezes at its "
    "first comparison.",
    source="ours",
    laws=("C10",),
    remarks="That no squared gradient falls is needed: one spike in the first step and zeros after it let v fall by "
    "beta2 a step, and the rule does not hold at its first chance. Of gradients that are constant, nothing is left "
    "to settle in the bias-corrected norm, and T7i holds at once, rightly.",
)

TWO_SIDED = Theorem(
    id="T7i",
    title="What a two-sided freeze rule on bias-corrected norms certifies",
    conclusion=le(sp.Abs(recent - after), CLOSE * before),
    hypotheses=(
        ADAM,
        NORM_OF_V,
        RECENT,
        Hypothesis("corrected_before", eq(norm[t], (1 - beta2**t) * before), "the corrected norm before the window"),
        Hypothesis(
            "corrected_after",
            eq(norm[t + window], (1 - beta2 ** (t + window)) * after),
            "the corrected norm at the end of the window",
        ),
        Hypothesis("fires", le(sp.Abs(after - before), tolerance * before), "the two differ by a share of the former"),
    ),
    where=(
        *WHERE,
        Row(before, r"\hat V", "bias-corrected norm before the window", default=1.0),
        Row(after, r"\hat V'", "bias-corrected norm at the end of the window"),
        Row(tolerance, r"\tau", "largest relative change of the norm that the rule accepts", default=0.04),
    ),
    words="Where the rule holds for an array of parameters, the corrected norm that is frozen and the weighted mean "
    "of the squared gradients in the window differ by at most the share {share} of the corrected norm before the "
    "window: {number} of the tolerance for a long run.",
    numbers={"share": CLOSE, "number": Quoted(CLOSE, {tolerance: 1, keep: sp.exp(-1), beta2 ** (t + window): 0})},
    good_for="Says what a two-sided rule guarantees of an array: what is frozen is near what its gradients were in the "
    'window. In the reference it is `freeze_step="auto"`, and the published rule of T7c is `"paper"`.',
    source="ours",
    example=lambda: instance(
        TWO_SIDED,
        "gradients that jump at the start of the window, tolerance at what they change",
        followed(np.r_[np.ones(16), np.full(14, 1.03125)], start=15),
    ),
    laws=("C10",),
    remarks="v may start at any value that the corrected norms fit. For one array at a time: an array that is not "
    "compared is not covered, nor is an exchange between coordinates of one array, nor the time after the freeze "
    "(T7a). With v from zero and a constant law the expected corrected norm is constant, so that growth of v from its "
    "start is not mistaken for anything. The number takes exp(-1) for beta2 to the power of the window.",
)
THEOREMS = (PUBLISHED, COLD_START, TWO_SIDED)
