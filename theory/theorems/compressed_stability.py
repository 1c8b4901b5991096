"""T7f, T7p, T7q: one-bit feedback on a curved coordinate: never overloaded under a closed condition, whatever beta1.

A coordinate of curvature h obeys, when one scale S is sent in every step (its own share of the scale is negligible),

    u' = beta1 m + (1-beta1) (h x + b) + delta      m' = S sgn(u')      delta' = u' - m'      x' = x - gamma P m'

In units X = x/(gamma P S) and rho = (beta1 m + delta)/((1-beta1) S), with a = gamma h P and xi = |b|/S at most, this is
one loop in which beta1 has cancelled: rho' = rho + a X + b/S - Q, X' = X - Q, Q = sgn(rho + a X + b/S). |rho| <= 1
means that it is not overloaded; the virtual iterate X - rho contracts by 1 - a.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.evaluate import evaluate
from theory.formula import ForAll, array, eq, le, sgn
from theory.notation import POSITIVE, Row, beta1, lr, t
from theory.theorem import Example, Hypothesis, Theorem

position, other_gradient = array("position"), array("other_gradient")
sent, error, inputs = array("sent"), array("error"), array("inputs")
curvature, scale_size = sp.Symbol("curvature", positive=True), sp.Symbol("scale_size", positive=True)
entry, push = sp.Symbol("entry", positive=True), sp.Symbol("push", nonnegative=True)
floor_share, mean_variance = sp.Symbol("floor_share", positive=True), sp.Symbol("mean_variance", positive=True)
least_variance = sp.Symbol("least_variance", positive=True)

GAIN = lr * curvature * entry
SAFE = sp.Rational(1, 2)
"""The threshold of T7f on a + xi."""
ROWS = (
    Row(position, "x", "the coordinate, by step"),
    Row(other_gradient, "b", "gradient that does not come from the coordinate's own curvature, by step"),
    Row(sent, r"\bar{m}", "the coordinate of the message that is applied, by step"),
    Row(error, r"\delta", "its compression error, by step"),
    Row(inputs, "u", "what is compressed, by step"),
    Row(curvature, "h", "second derivative along the coordinate", domain=POSITIVE, default=1.0),
    Row(scale_size, "S", "the scale that is sent in every step", domain=POSITIVE, default=1.0),
    Row(entry, "P_k", "the coordinate's entry of the preconditioner", domain=POSITIVE, default=100.0),
    Row(push, r"\xi", "bound on |b|/S", default=0.25),
)

LOOP = (
    Hypothesis(
        "compressed",
        ForAll(
            (t,),
            eq(
                inputs[t + 1],
                beta1 * sent[t] + (1 - beta1) * (curvature * position[t] + other_gradient[t]) + error[t],
            ),
        ),
        "the gradient is h x + b; what is compressed is the momentum plus the error",
    ),
    Hypothesis(
        "one_bit",
        ForAll((t,), eq(sent[t + 1], scale_size * sgn(inputs[t + 1]))),
        "the message has the same scale S in every step; there is one compressor in a row",
    ),
    Hypothesis("feedback", ForAll((t,), eq(error[t + 1], inputs[t + 1] - sent[t + 1])), "what is left is kept"),
    Hypothesis(
        "applied",
        ForAll((t,), eq(position[t + 1], position[t] - lr * entry * sent[t + 1])),
        "the coordinate moves by gamma P times the message",
    ),
    Hypothesis("pushed", ForAll((t,), le(sp.Abs(other_gradient[t]), push * scale_size)), "|b| is at most xi S"),
    Hypothesis(
        "start_loaded",
        le(sp.Abs(beta1 * sent[0] + error[0]), (1 - beta1) * scale_size),
        "at the start the loop is not overloaded",
    ),
    Hypothesis(
        "start_virtual",
        le(
            sp.Abs(position[0] - lr * entry / (1 - beta1) * (beta1 * sent[0] + error[0])),
            (1 + push / GAIN) * lr * entry * scale_size,
        ),
        "and the virtual iterate (L2) is within its bound",
    ),
    Hypothesis("not_too_curved", le(GAIN + push, SAFE), "a = gamma h P plus xi is at most the threshold"),
)


def stable_floor(lr: float, curvature: float, mean_variance: float, push: float = 0.0) -> float:
    """kappa of T7q: the floor from which on a + xi <= 1/2 on every coordinate.

    Args:
        lr: step size.
        curvature: h, largest second derivative along a coordinate.
        mean_variance: mean of the live v at the freeze.
        push: xi, bound on the other gradient in units of the scale, below 1/2.

    """
    values = {"lr": lr, "curvature": curvature, "mean_variance": mean_variance, "push": push}
    return float(evaluate(FLOOR, {symbol: values[str(symbol)] for symbol in FLOOR.free_symbols}))


def corner_run(gain: Any, xi: Any, steps: int, beta: Any = 0.9) -> dict[str, Any]:
    """Values for every variable of a run from a corner of the invariant set, with b alternating slowly between +-xi.

    Units: S = 1, gamma = 1/128, P = 128, so that x is in units of gamma P S.
    Exact if the numbers given are fractions.
    """
    x, m, delta, u, b = np.zeros((5, steps + 1), dtype=np.result_type(np.asarray(beta)))
    b[:] = xi * np.where((np.arange(steps + 1) // 37) % 2 == 0, -1, 1)
    x[0] = (1 + xi / gain) + 1  # Y at its bound, rho = 1
    m[0] = 1
    delta[0] = (1 - beta) - beta
    for r in range(steps):
        u[r + 1] = beta * m[r] + (1 - beta) * (gain * x[r] + b[r]) + delta[r]
        m[r + 1] = 1 if u[r + 1] >= 0 else -1
        delta[r + 1], x[r + 1] = u[r + 1] - m[r + 1], x[r] - m[r + 1]
    return {
        "position": x, "sent": m, "error": delta, "inputs": u, "other_gradient": b, "beta1": beta,
        "lr": 2.0**-7, "entry": 2.0**7, "curvature": gain, "scale_size": 1.0, "push": xi,
    }  # fmt: skip


def _corner(what: str) -> Example:
    values = corner_run(Fraction(1, 4), Fraction(1, 4), 400, Fraction(9, 10))
    size = {"position": np.abs(values["position"]), "error": np.abs(values["error"])}[what]
    at = int(np.argmax(size[1:])) + 1
    return Example(
        f"a = xi = 1/4 from a corner of the invariant set: the largest {what}", float(size[at]), {**values, "step": at}
    )


_REMARK = (
    "The threshold is sufficient, not necessary. One coordinate alone, whose scale is its own size, stays bounded up "
    "to about 2 (1+beta1)/(1-beta1), which is 38 at beta1 = 0.9, where the same recursion without compression loses "
    "stability. Sixteen and more that are all curved and share their scale diverge from about 6 on with l2, and from "
    "about 8 with l1 (measured, one compressor, four random starts each). It is not what breaks the published "
    "algorithm at kappa = 0: measured at the freeze of the digits MLP, coordinates of tiny v have tiny curvature too, "
    "and gamma h P was below 0.03 on all of 1,500 sampled coordinates without any floor. What breaks it is the size "
    "of the jump (T7e)."
)

AMPLITUDE = Theorem(
    id="T7f",
    title="A curved coordinate stays bounded under a constant scale",
    conclusion=le(sp.Abs(position[t]), (2 + push / GAIN) * lr * entry * scale_size),
    hypotheses=LOOP,
    words="For one compressor that sends the same scale in every step, started without overload, the coordinate "
    "stays within {limit} of its minimum for ever while gamma h P plus xi is at most {threshold}, whatever beta1.",
    numbers={"threshold": SAFE, "limit": (2 + push / GAIN) * lr * entry * scale_size},
    good_for="Says which curvature, preconditioner and learning rate let a coordinate of small v not run away, in "
    "the model of a constant scale.",
    source="ours; the argument is the no-overload condition of one-bit sigma-delta modulators",
    where=ROWS,
    example=lambda: _corner("position"),
    laws=("C7",),
    remarks=_REMARK,
)

RESIDUAL = Theorem(
    id="T7p",
    title="Residual error on a curved coordinate",
    conclusion=le(sp.Abs(error[t + 1]), scale_size),
    hypotheses=LOOP,
    words="Under the conditions of T7f the compression error of the coordinate never exceeds the scale.",
    good_for="In the model of a constant scale, an error beyond that scale shows that a condition of T7f is broken.",
    source="ours",
    where=ROWS,
    example=lambda: _corner("error"),
    laws=("C7",),
    remarks="What stays within (1-beta1) S is beta1 m + delta, momentum and error together; the error alone reaches "
    "nearly S, which is 1/(1-beta1) times as much.",
)

FLOOR = (lr * curvature / (SAFE - push)) ** 2 / mean_variance

FLOOR_SUFFICES = Theorem(
    id="T7q",
    title="The variance floor that meets the curvature condition",
    conclusion=le(GAIN + push, SAFE),
    hypotheses=(
        Hypothesis(
            "floored", le(floor_share * mean_variance, least_variance), "the frozen v is at least the floor times its "
            "mean [C7]"
        ),
        Hypothesis("preconditioned", le(entry, 1 / sp.sqrt(least_variance)), "P is 1/(sqrt(v) + eps), eps >= 0"),
        Hypothesis("floor_large", le(FLOOR, floor_share), "the floor is at least this"),
    ),
    words="A variance floor of at least {floor} gives gamma h P plus xi of at most {threshold}, the condition "
    "of T7f, on "
    "every coordinate of curvature up to h.",
    numbers={"floor": FLOOR, "threshold": SAFE},
    good_for="How large a floor is enough for T7f's condition at a known curvature; xi counts.",
    source="ours",
    where=(
        *(row for row in ROWS if row.symbol in (curvature, entry, push)),
        Row(floor_share, r"\kappa", "the variance floor", domain=POSITIVE, default=1e-3),
        Row(mean_variance, r"\overline{v}", "mean of the live v at the freeze", domain=POSITIVE, default=1.0),
        Row(least_variance, "v_k", "the coordinate's frozen v", domain=POSITIVE, default=1.0),
    ),
    domains={push: sp.Interval.Ropen(0, sp.Rational(1, 2))},
    example=lambda: Example(
        "gamma = 1/1024, h = 1, xi = 1/4, mean v = 1/64, a coordinate on the floor",
        0.5,
        {
            "lr": 2.0**-10, "curvature": 1.0, "push": 0.25, "mean_variance": 2.0**-6, "floor_share": 2.0**-10,
            "least_variance": 2.0**-16, "entry": 2.0**8,
        },
    ),
    laws=("C7",),
    remarks="Plain algebra: it says that the condition holds, not that a run is stable. Stability is T7f's, whose "
    "hypothesis of one scale in every step no run meets exactly. Measured: with the largest sampled curvature of the "
    "digits MLP, h = 0.1 at mean v = 3.7e-6, gamma = 1e-3 and xi = 0, the floor that this asks for is 1.1e-2.",
)  # fmt: skip

THEOREMS = (AMPLITUDE, RESIDUAL, FLOOR_SUFFICES)
