"""T5c, T5d, T5i, T5j: one-sided error feedback under momentum, for contractions in any norm and for the scaled sign.

One compression a step: u' = beta1 m + (1-beta1) g + delta, m' = C(u'), delta' = u' - m'. This is 1-bit Adam with one
worker and one server chunk, or with equal workers: the server's input is then +-s already, and its error stays 0. As
m = u - delta, u' = beta1 u + (1-beta1) (delta + g): a convex combination, so momentum amplifies nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, Implies, array, eq, le, mean, sgn
from theory.notation import (
    Row,
    beta1,
    contraction,
    corrected,
    d,
    gradient_bound,
    grads,
    k,
    momentum,
    scale,
    t,
    worker_errors,
)
from theory.rationals import fractions
from theory.theorem import Example, Hypothesis, Theorem

norm: Any = sp.Function("norm")
first, second, combined = array("first"), array("second"), array("combined")
left, right = sp.symbols("left right", real=True)
NORM = Row(norm, r"\nu", "any norm, or seminorm", coq="(nat -> R) -> R")

INPUT = Hypothesis(
    "input",
    ForAll(
        (t, (k, d)),
        eq(corrected[t + 1, k], beta1 * momentum[t, k] + (1 - beta1) * grads[t + 1, k] + worker_errors[t, k]),
    ),
    "what is compressed is the momentum plus the error",
)
FEEDBACK = Hypothesis(
    "feedback",
    ForAll((t, (k, d)), eq(worker_errors[t + 1, k], corrected[t + 1, k] - momentum[t + 1, k])),
    "the message is the next momentum, and what it leaves is the next error",
)
ERROR_START = Hypothesis("error_start", ForAll(((k, d),), eq(worker_errors[0, k], 0)), "the error starts at zero")
SIGN = Hypothesis(
    "scaled_sign",
    ForAll((t, (k, d)), eq(momentum[t + 1, k], scale[t + 1] * sgn(corrected[t + 1, k]))),
    "the message is the scaled sign",
)
L2_SCALE = Hypothesis(
    "l2_scale",
    ForAll((t,), eq(scale[t + 1], sp.sqrt(mean(corrected[t + 1, k] ** 2, k, d)))),
    "with the l2 scale",
)
L1_SCALE = Hypothesis(
    "l1_scale", ForAll((t,), eq(scale[t + 1], mean(sp.Abs(corrected[t + 1, k]), k, d))), "with the l1 scale"
)
GRADIENTS = Hypothesis(
    "gradients_bounded",
    ForAll((t, (k, d)), le(sp.Abs(grads[t + 1, k]), gradient_bound)),
    "every coordinate of every gradient is at most G in size",
)
MOMENTUM_START = Hypothesis(
    "momentum_start",
    ForAll(((k, d),), le(sp.Abs(momentum[0, k]), gradient_bound)),
    "so is every coordinate of the momentum at the freeze",
)
COORDINATE = Hypothesis("coordinate", sp.Lt(k, d, evaluate=False), "k is a live coordinate")

_ONE_SIDED = (
    "With several different workers there is a second compression, whose error this does not speak of: see T5a and T5m."
)

_START = ", if the error starts at zero and the momentum at the freeze is within G too"


@cache
def one_hot_run(dim: int, kind: str, steps: int, beta: Fraction = Fraction(9, 10)) -> dict[str, Any]:
    """Values for every variable of a run with the constant gradient (1, 0, ..., 0), exact; ``step`` is where u peaks.

    Args:
        dim: live coordinates; 2 for l2.
        kind: ``"l1"`` or ``"l2"``, the scale of the sign; ``"shrink"``: C(u) = u/10. For l2 the gradient is a bit below
            one, and off by so little in every step that the root mean square of u is a fraction.
        steps: how long.
        beta: beta1.

    """
    grads = fractions(np.tile(np.eye(dim)[0], (steps + 1, 1)))
    m, delta, u = fractions(np.zeros((3, steps + 1, dim)))
    s = fractions(np.zeros(steps + 1))
    for r in range(steps):
        if kind == "l2":
            u[r + 1], s[r + 1] = rational_rms(beta * m[r] + (1 - beta) * Fraction(99, 100) * grads[0] + delta[r])
            grads[r + 1] = (u[r + 1] - beta * m[r] - delta[r]) / (1 - beta)
        else:
            u[r + 1] = beta * m[r] + (1 - beta) * grads[r + 1] + delta[r]
            s[r + 1] = np.abs(u[r + 1]).mean()
        m[r + 1] = u[r + 1] / 10 if kind == "shrink" else s[r + 1] * np.where(u[r + 1] >= 0, 1, -1)
        delta[r + 1] = u[r + 1] - m[r + 1]
    return {
        "live": dim, "step": int(np.argmax(np.abs(u[1:, 0]))), "k": 0, "beta1": beta, "gradient_bound": 1.0,
        "grads": grads, "momentum": m, "worker_errors": delta, "corrected": u, "scale": s,
    }  # fmt: skip


def rational_rms(u_D: Any) -> tuple[Any, Fraction]:
    """A vector of two coordinates beside ``u_D`` whose root mean square is a fraction, and that."""
    x, y = map(float, u_D)
    size, half = (Fraction(round(2**20 * value), 2**20) for value in (
        math.hypot(x, y) / math.sqrt(2), math.tan(math.atan2(y, x) / 2 - math.pi / 8)))  # fmt: skip
    cosine, sine = (1 - half**2) / (1 + half**2), 2 * half / (1 + half**2)  # of its angle to (1, 1)
    return size * np.array([cosine - sine, cosine + sine]), size


def _peak(kind: str, dim: int, steps: int) -> Example:
    values = one_hot_run(dim, kind, steps)
    at = values["step"] + 1
    attained = max(float(abs(values[name][at, 0])) for name in ("corrected", "worker_errors"))
    return Example(f"constant one-hot gradient, d = {dim}, {kind} scale: the largest coordinate of u", attained, values)


def _slowest() -> Example:
    values = one_hot_run(1, "shrink", 400)
    at = int(np.argmax(np.abs(values["worker_errors"][:, 0])))
    used = {name: value for name, value in values.items() if name not in ("scale", "k")}
    return Example(
        "C(u) = u/10 on a constant gradient, one coordinate",
        float(values["worker_errors"][at, 0]),
        {**used, "step": at, "contraction": Fraction(9, 10), "norm": lambda vector: abs(vector[0])},
    )


def _any_beta() -> Example:
    values = one_hot_run(2, "l2", 200, Fraction(1, 4))
    at = int(np.argmax(np.abs(values["worker_errors"][:, 0])))
    return Example(
        "constant one-hot gradient, d = 2, beta1 = 1/4: the largest error",
        float(abs(values["worker_errors"][at, 0])),
        {**values, "step": at},
    )


ANY_NORM = Theorem(
    id="T5c",
    title="One-sided error feedback under momentum, contractive compressor",
    conclusion=le(norm(worker_errors[t]), contraction * gradient_bound / (1 - contraction)),
    hypotheses=(
        Hypothesis(
            "seminorm",
            ForAll(
                (first, second, combined, left, right),
                Implies(
                    (ForAll(((k, d),), eq(combined[k], left * first[k] + right * second[k])),),
                    le(norm(combined), sp.Abs(left) * norm(first) + sp.Abs(right) * norm(second)),
                ),
            ),
            "the norm obeys the triangle inequality and is homogeneous",
        ),
        INPUT,
        FEEDBACK,
        Hypothesis(
            "contraction_holds",
            ForAll((t,), le(norm(worker_errors[t + 1]), contraction * norm(corrected[t + 1]))),
            "the compression leaves at most q times the norm of its input",
        ),
        Hypothesis(
            "gradients_bounded", ForAll((t,), le(norm(grads[t + 1]), gradient_bound)), "no gradient's norm exceeds G"
        ),
        Hypothesis("momentum_start", le(norm(momentum[0]), gradient_bound), "nor does the momentum's at the freeze"),
        ERROR_START,
    ),
    words="With one compression a step, by a compressor that leaves at most q times the norm of its input, "
    "an error that starts at zero, and where the norms of the gradients and of the momentum at the freeze are at most "
    "G, the error's norm never exceeds {limit}, whatever beta1: momentum does not enlarge the bound.",
    numbers={"limit": contraction * gradient_bound / (1 - contraction)},
    good_for="One worker whose message is applied as it is: the error has the bound of SGD without momentum.",
    source="ours; the same constant as for SGD without momentum (Karimireddy et al. 2019), where it is not noticed",
    where=(NORM,),
    example=_slowest,
    laws=("L1",),
    remarks="The next momentum is the message itself: a server that compresses once more is excluded. With such a "
    "server the bound is false: q = 1/2, beta1 = 0.9 and G = 1 reach 1.958, where it says 1 "
    "(tests/theory/test_error_bounds_on_runs.py runs it). " + _ONE_SIDED,
)

L2_MAX_NORM = Theorem(
    id="T5d",
    title="The l2 scale has bounded errors although it is no contraction",
    conclusion=le(sp.Max(sp.Abs(corrected[t + 1, k]), sp.Abs(worker_errors[t + 1, k])), gradient_bound * sp.sqrt(d)),
    hypotheses=(INPUT, FEEDBACK, SIGN, L2_SCALE, GRADIENTS, ERROR_START, MOMENTUM_START, COORDINATE),
    words="With one compression a step, the l2 scale and beta1 at least {least}, no coordinate of u or of the error "
    "ever exceeds {limit}, for every sequence of gradients whose coordinates are within G" + _START + ": there is no "
    "condition on phi.",
    numbers={"least": sp.Rational(1, 2), "limit": gradient_bound * sp.sqrt(d)},
    good_for="For one worker the published scale has the smaller bound of the two (T5i), although only l1 contracts "
    "in the Euclidean norm.",
    source="ours",
    domains={beta1: sp.Interval.Ropen(sp.Rational(1, 2), 1)},
    example=lambda: _peak("l2", 2, 600),
    laws=("L1", "L10"),
    remarks="In the Euclidean norm this is sqrt(d) times larger at most. T5k has a bound for every beta1. "
    + _ONE_SIDED,
)

L1_MAX_NORM = Theorem(
    id="T5i",
    title="The l1 scale in the maximum norm",
    conclusion=le(sp.Max(sp.Abs(corrected[t + 1, k]), sp.Abs(worker_errors[t + 1, k])), gradient_bound * d),
    hypotheses=(INPUT, FEEDBACK, SIGN, L1_SCALE, GRADIENTS, ERROR_START, MOMENTUM_START, COORDINATE),
    words="With one compression a step, the l1 scale and beta1 at least {least}, no coordinate of u or of the error "
    "ever exceeds {limit}, for every sequence of gradients whose coordinates are within G" + _START + ".",
    numbers={"least": sp.Rational(1, 2), "limit": gradient_bound * d},
    good_for="Beside T5d: in the maximum norm this bound of the l1 scale is sqrt(d) times that of the l2 scale.",
    source="ours",
    domains={beta1: sp.Interval.Ropen(sp.Rational(1, 2), 1)},
    example=lambda: _peak("l1", 4, 400),
    laws=("L1", "L10"),
    remarks=_ONE_SIDED,
)

ANY_BETA = Theorem(
    id="T5k",
    title="One-sided l2 errors are bounded for every beta1",
    conclusion=le(sp.Abs(worker_errors[t, k]), gradient_bound * sp.sqrt(1 - 1 / d) / (1 - sp.sqrt(1 - 1 / d))),
    hypotheses=(INPUT, FEEDBACK, SIGN, L2_SCALE, GRADIENTS, ERROR_START, MOMENTUM_START, COORDINATE),
    words="With one compression a step and the l2 scale no coordinate of the error ever exceeds {limit}, whatever "
    "beta1, for every sequence of gradients whose coordinates are within G" + _START + ".",
    numbers={"limit": gradient_bound * sp.sqrt(1 - 1 / d) / (1 - sp.sqrt(1 - 1 / d))},
    good_for="Where beta1 is below the range of T5d, the errors of one worker are bounded all the same.",
    source="ours",
    example=_any_beta,
    laws=("L1", "L10"),
    remarks="About 2 d G: for beta1 >= 1/2 T5d is better. It is T5c in the maximum norm, by the contraction of T5j. "
    + _ONE_SIDED,
)


THEOREMS = (ANY_NORM, L2_MAX_NORM, L1_MAX_NORM, ANY_BETA)
