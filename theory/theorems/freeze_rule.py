"""T7c: what the freeze rule C10, ||v_t||_1 / ||v_{t-Delta}||_1 >= 0.96, certifies, and what it does not.

Over Delta = round(1/(1-beta2)) steps v_t = q v_{t-Delta} + (1-q) W with q = beta2^Delta (about 1/e) and W the
window's weighted mean of squared gradients. The rule is a statement about W, summed over coordinates; no more.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import sympy as sp

from theory.algebra import factored
from theory.notation import beta2
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

threshold = sp.Symbol("theta", positive=True)
memory = sp.Symbol("Delta_w", integer=True, positive=True)  # window length
old_norm = sp.Symbol("V", positive=True)  # ||v_{t-Delta}||_1
window = sp.Symbol("W", nonnegative=True)  # ||weighted mean of g^2 in the window||_1
keep_odds = sp.Symbol("c", positive=True)
KEEP = keep_odds / (1 + keep_odds)  # q = beta2^Delta, any value in (0, 1)
THRESHOLD = 0.96


def window_length(beta2: float) -> int:
    """Delta = round(1/(1-beta2))."""
    return round(1 / (1 - beta2))


def certified_share(beta2: float, threshold: float = THRESHOLD) -> float:
    """What the rule certifies: W >= share * ||v_{t-Delta}||_1, share = (theta - q)/(1 - q), q = beta2^Delta.

    Args:
        beta2: second-moment constant in (0, 1).
        threshold: theta, 0.96 in C10.

    """
    keep = beta2 ** window_length(beta2)
    return (threshold - keep) / (1 - keep)


def proof(share: sp.Expr | None = None) -> tuple[Link, ...]:
    """The equivalence, and the three things that pass the rule unseen."""
    hop = sp.Symbol("j", integer=True, nonnegative=True)
    share = (threshold - KEEP) / (1 - KEEP) if share is None else share
    ratio = (KEEP * old_norm + (1 - KEEP) * window) / old_norm
    fresh_odds, level = sp.symbols("f S", positive=True)  # cold start: beta2^{t-Delta} = f/(1+f)
    fresh = fresh_odds / (1 + fresh_odds)
    cold = (1 - KEEP * fresh) * level / ((1 - fresh) * level)
    low, high = sp.symbols("v_1 v_2", positive=True)
    windows = sp.Sum((1 - beta2) * beta2**hop, (hop, 0, memory - 1)).doit()
    return (
        Link("weights of the window sum to 1 - beta2^Delta", cast(sp.Expr, windows), 1 - beta2**memory),
        Link(
            "ratio - theta = (1-q)(W/V - (theta-q)/(1-q)): the rule holds if and only if W >= share V",
            ratio - threshold,
            (1 - KEEP) * (window / old_norm - share),
        ),
        Link(
            "growth passes: from a cold start under a constant law the ratio is above 1 at once",
            sp.Integer(1),
            cold,
            slack=(factored(cold - 1),),
        ),
        Link(
            "exchange passes: one coordinate without gradient (it falls by q) and one that takes over keep the norm",
            KEEP * low + (KEEP * high + (1 - KEEP) * (low + high)),
            low + high,
        ),
        Link(
            "slow decay passes for ever: if v falls by theta per window the ratio is theta each time",
            threshold**memory * threshold / threshold**memory,
            threshold,
        ),
    )


def fires_at(squares_TD: np.ndarray, beta2: float) -> int | None:
    """First step t at which the rule holds for squared gradients (T, D), v from 0; None if it never does."""
    length = window_length(beta2)
    v, norms = np.zeros(squares_TD.shape[1]), [0.0]
    for step, squares in enumerate(squares_TD, 1):
        v = beta2 * v + (1 - beta2) * squares
        norms.append(float(v.sum()))
        if step > length and norms[step] >= THRESHOLD * norms[step - length]:
            return step
    return None


def fires_cold() -> bool:
    """Constant gradients, beta2 = 0.9: the rule fires at its first chance, with v at 69 % of its limit."""
    return fires_at(np.ones((30, 1)), 0.9) == window_length(0.9) + 1 and 1 - 0.9**11 < 0.7


def exchange_is_unseen() -> bool:
    """v = (1, 1); then 10 steps without gradient on one coordinate: it falls to 35 %, the ratio stays 1."""
    keep = 0.9**10
    v = np.array([1.0, 1.0])
    for _ in range(10):
        v = 0.9 * v + 0.1 * np.array([0.0, 2.0])
    return abs(v.sum() / 2 - 1) < 1e-12 and abs(v[0] - keep) < 1e-12 and v[0] < 0.36


def example() -> Example:
    """A window whose gradients carry exactly the certified share makes the ratio exactly 0.96."""
    share, keep = certified_share(0.999), 0.999 ** window_length(0.999)
    return Example("window at the certified share: ratio against 0.96", THRESHOLD, keep + (1 - keep) * share)


THEOREM = Theorem(
    id="T7c",
    title="What the 0.96 rule certifies",
    words=(
        "The rule holds at t exactly when the weighted mean of squared gradients over the last Δ steps, summed over"
        " coordinates, is at least (0.96-q)/(1-q) of ‖v_{t-Δ}‖₁, q = β2^Δ: 93.7 % at β2 = 0.999. It says nothing on"
        " growth, on single coordinates, or on the time after."
    ),
    statement=(
        sp.Equivalent(
            sp.Ge(sp.Symbol("V_t") / old_norm, threshold),
            sp.Ge(window, (threshold - sp.Symbol("q_w")) / (1 - sp.Symbol("q_w")) * old_norm),
            evaluate=False,
        ),
        sp.Eq(sp.Symbol("q_w"), beta2**memory, evaluate=False),
    ),
    hypotheses=("v without bias correction, as published", "Δ = round(1/(1-β2)), θ = 0.96 > q"),
    source="rule: arXiv 2102.02888 (recalled); analysis: ours",
    status=Status.PROVED,
    proof=proof,
    bound=certified_share,
    example=example,
    numeric_checks={
        "cold start: fires at the first comparison, at 69 % of the limit (β2 = 0.9)": fires_cold,
        "exchange: a coordinate falls to 35 % while the ratio is 1 (β2 = 0.9)": exchange_is_unseen,
    },
    wrong_variants=(
        WrongVariant("it certifies the share 0.96 itself", lambda: not proof(share=threshold)[1].holds()),
        WrongVariant("it certifies 0.96 on every coordinate", exchange_is_unseen),
        WrongVariant("it waits until v has stopped growing", fires_cold),
        WrongVariant(
            "it bounds the drift of the whole run by 4 %: 130 windows at 0.96 leave 0.5 %",
            lambda: THRESHOLD**130 < 0.006,
        ),
    ),
    laws=("C10",),
    remarks=(
        "The rule presupposes that ‖v‖₁ falls in early training, which is what is observed; where v rises it fires at"
        " its first chance. BERT-Large's 129,000 compressed steps are 129 windows: a decay of 4 % each would leave 0.5"
        " % of v and still have passed. A two-sided rule, per block of coordinates, would close the first two gaps."
    ),
)
