"""T7a, T7b: how far the second moment can move after the freeze, in the worst case and for stationary gradients.

After T_w the algorithm keeps v; Adam would have kept averaging, v_k = beta2^k v_0 + (1-beta2) sum beta2^j g^2. The
difference between the two is what freezing ignores.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import sympy as sp

from theory.algebra import factored
from theory.notation import T, beta2, in_odds, variance
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

decayed = sp.Symbol("z", positive=True)  # beta2^k
square = sp.Symbol("g2", nonnegative=True)  # g^2 of one step
spare = sp.Symbol("s", nonnegative=True)  # slack of the induction hypothesis, or G^2 - g^2
limit = sp.Symbol("G", positive=True)  # bound of |g|
second, fourth_var = sp.symbols("S_2 V_4", positive=True)  # E g^2 and Var(g^2)


def drift(beta2: float, n_steps: float, variance: float, grad_bound: float) -> float:
    """Largest |v_{T_w+k} - v_{T_w}| that Adam could have reached: (1 - beta2^k) max(v, G^2 - v).

    Args:
        beta2: second-moment constant.
        n_steps: k, steps after the freeze.
        variance: v of the coordinate at the freeze.
        grad_bound: G with |g| <= G.

    """
    return (1 - beta2**n_steps) * max(variance, grad_bound**2 - variance)


def drift_links(growth: int = 1) -> tuple[Link, ...]:
    """T7a by induction: beta2^k v <= v_k <= beta2^k v + (1 - beta2^k) G^2."""
    low = decayed * variance
    high = decayed * variance + (1 - decayed) * limit**2
    top = growth * (1 - beta2) * limit**2
    return (
        Link(
            "lower: if v_k = beta2^k v + s then v_{k+1} >= beta2^{k+1} v",
            in_odds(beta2 * low),
            in_odds(beta2 * (low + spare) + (1 - beta2) * square),
            slack=(in_odds(beta2 * spare), in_odds((1 - beta2) * square)),
        ),
        Link(
            "upper: if v_k = beta2^k v + (1-beta2^k) G^2 - s and g^2 <= G^2, one step keeps the form",
            in_odds(beta2 * (high - spare) + (1 - beta2) * (limit**2 - square)),
            in_odds(beta2 * decayed * variance + beta2 * (1 - decayed) * limit**2 + top),
            slack=(in_odds(beta2 * spare), in_odds((1 - beta2) * square)),
        ),
        Link(
            "and that form is beta2^{k+1} v + (1-beta2^{k+1}) G^2",
            beta2 * high + growth * (1 - beta2) * limit**2,
            beta2 * decayed * variance + (1 - beta2 * decayed) * limit**2,
        ),
        Link("so downwards the move is at most (1-beta2^k) v", variance - low, (1 - decayed) * variance),
        Link("and upwards (1-beta2^k)(G^2 - v)", high - variance, (1 - decayed) * (limit**2 - variance)),
    )


def relative_spread(beta2: float, n_steps: float, kurtosis: float = 3.0) -> float:
    """Standard deviation of v_k over E g^2 for independent gradients, k steps after a known v.

    Args:
        beta2: second-moment constant.
        n_steps: k.
        kurtosis: E g^4/(E g^2)^2, 3 for a Gaussian.

    """
    return math.sqrt((1 - beta2) / (1 + beta2) * (1 - beta2 ** (2 * n_steps)) * (kurtosis - 1))


def stationary_links(independent: bool = True) -> tuple[Link, ...]:
    """T7b: exact mean and variance by their recursions."""
    mean = decayed * variance + (1 - decayed) * second
    spread = (1 - beta2) / (1 + beta2) * (1 - decayed**2) * fourth_var
    correlated = 0 if independent else 2 * beta2 * (1 - beta2) * fourth_var
    return (
        Link(
            "mean: beta2 E v_k + (1-beta2) E g^2 is beta2^{k+1} v + (1-beta2^{k+1}) E g^2",
            beta2 * mean + (1 - beta2) * second,
            beta2 * decayed * variance + (1 - beta2 * decayed) * second,
        ),
        Link(
            "variance: beta2^2 Var v_k + (1-beta2)^2 Var g^2 keeps the form (1-beta2)/(1+beta2) (1-beta2^{2k}) Var g^2",
            beta2**2 * spread + (1 - beta2) ** 2 * fourth_var + correlated,
            (1 - beta2) / (1 + beta2) * (1 - (beta2 * decayed) ** 2) * fourth_var,
        ),
        Link(
            "at most its limit (1-beta2)/(1+beta2) Var g^2",
            in_odds(spread.subs(decayed, 1 / (1 + spare))),
            in_odds((1 - beta2) / (1 + beta2) * fourth_var),
            slack=(factored(in_odds((1 - beta2) / (1 + beta2) * fourth_var) / (1 + spare) ** 2),),
        ),
    )


def enumeration_agrees() -> bool:
    """All 2^10 gradient sequences with g^2 in {0, 2}, in exact fractions: mean and variance as stated."""
    b, start, steps = Fraction(3, 4), Fraction(5), 10
    values: list[Fraction] = []
    for squares in product((0, 2), repeat=steps):
        v = start
        for square_ in squares:
            v = b * v + (1 - b) * square_
        values.append(v)
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values) / len(values)
    z = b**steps
    return mean == z * start + (1 - z) and spread == (1 - b) / (1 + b) * (1 - z**2)


def example_drift() -> Example:
    """Gradients at the bound G = 1 for 1,000 steps from v = 0.1."""
    v, steps = 0.1, 1000
    for _ in range(steps):
        v = 0.999 * v + 0.001
    return Example("|g| = 1 for 1,000 steps from v = 0.1, β2 = 0.999", v - 0.1, drift(0.999, steps, 0.1, 1.0))


def example_spread() -> Example:
    """Exact standard deviation after 10 steps of fair g^2 in {0, 2} (kurtosis 2), against its limit."""
    exact = relative_spread(0.75, 10, kurtosis=2.0)
    return Example("β2 = 3/4 after 10 steps against the limit", exact, relative_spread(0.75, 1e9, kurtosis=2.0))


THEOREM_DRIFT = Theorem(
    id="T7a",
    title="Drift of the variance after the freeze, worst case",
    words=(
        "Whatever the gradients, k steps after the freeze Adam's v would lie between β2^k·v and β2^k·v + (1-β2^k)G²:"
        " for k well below 1/(1-β2) freezing ignores little, for k well above it nothing bounds the drift but G."
    ),
    statement=(
        sp.Le(beta2**T * variance, sp.Symbol("v_{T_w+T}"), evaluate=False),
        sp.Le(sp.Symbol("v_{T_w+T}"), beta2**T * variance + (1 - beta2**T) * limit**2, evaluate=False),
    ),
    hypotheses=("|g| ≤ G on the coordinate, for the upper bound only",),
    source="ours",
    status=Status.PROVED,
    proof=drift_links,
    bound=drift,
    example=example_drift,
    wrong_variants=(
        WrongVariant("growth of half the size", lambda: example_drift().attained > example_drift().bound / 2),
        WrongVariant("the gradient's share counted twice", lambda: not drift_links(growth=2)[2].holds()),
        WrongVariant("no drift while |g| stays below G", lambda: drift(0.999, 100, 0.1, 1.0) > 0),
    ),
    laws=("L4",),
    remarks="In the run v is constant (L4). The theorem is about the v that Adam would have had.",
)
THEOREM_SPREAD = Theorem(
    id="T7b",
    title="Mean and spread of the variance for stationary gradients",
    words=(
        "For independent gradients of constant law v_k has mean β2^k·v + (1-β2^k)E g² and variance"
        " (1-β2)/(1+β2)·(1-β2^2k)·Var(g²): at β2 = 0.999 a Gaussian coordinate's v is frozen with a relative standard"
        " deviation of 3.2 %."
    ),
    statement=(
        sp.Eq(sp.Symbol("E_v"), beta2**T * variance + (1 - beta2**T) * second, evaluate=False),
        sp.Eq(sp.Symbol("Var_v"), (1 - beta2) / (1 + beta2) * (1 - beta2 ** (2 * T)) * fourth_var, evaluate=False),
    ),
    hypotheses=("gradients of different steps are independent with the same E g² and Var g²", "v is known at k = 0"),
    source="ours (an AR(1) filter)",
    status=Status.PROVED,
    proof=stationary_links,
    bound=relative_spread,
    example=example_spread,
    numeric_checks={"exact enumeration of 1,024 gradient sequences": enumeration_agrees},
    wrong_variants=(
        WrongVariant("correlated squares at no cost", lambda: not stationary_links(independent=False)[1].holds()),
        WrongVariant(
            "spread (1-β2) instead of (1-β2)/(1+β2)", lambda: abs(relative_spread(0.75, 10, 2.0) ** 2 - 0.25) > 0.1
        ),
        WrongVariant(
            "β2^k instead of β2^2k in the spread", lambda: relative_spread(0.75, 2, 2.0) ** 2 != (1 - 0.75**2) / 7
        ),
    ),
    remarks=(
        "So a rule that compares norms of v (C10) works against noise of a few percent per coordinate, averaged over"
        " coordinates."
    ),
)
THEOREMS = (THEOREM_DRIFT, THEOREM_SPREAD)
