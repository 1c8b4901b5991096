"""T5j, T5l, T5m: what is known of two-sided 1-bit Adam with the l2 scale, where phi may be anything.

In the Euclidean norm the l2 sign is no contraction where phi <= 1/4 (T1e), and T5a does not apply. In the maximum norm
and in l4 it always is one. Of these norms only the triangle inequality is at hand, and two compressions in a row then
ask for a small beta1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import sympy as sp

from theory.formula import ForAll, eq, le, lt, mean, sgn, total
from theory.notation import (
    N,
    Row,
    beta1,
    corrected,
    count,
    d,
    gradient_bound,
    grads,
    i,
    k,
    messages,
    momentum,
    scale,
    server_error,
    server_input,
    server_scale,
    t,
    worker_errors,
)
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.error_bounds import FEEDBACK, INPUT, SERVER_FEEDBACK, SERVER_INPUT, SERVER_START, WORKER_START

magnitude, top = sp.Symbol("magnitude", real=True), sp.Symbol("top", nonnegative=True)
coordinate = count("coordinate", least=0)
MAGNITUDE = Row(magnitude, "s", "the scale that is sent")
TOP = Row(top, "U", "the largest magnitude of a coordinate of u, or more", default=1.0)

IS_L2 = Hypothesis("l2_scale", eq(magnitude, sp.sqrt(mean(corrected[k] ** 2, k, d))), "the scale is the l2 scale")
FACTOR = sp.sqrt(1 - 1 / d)


def _left(u: np.ndarray) -> np.ndarray:
    return u - np.sqrt((u * u).mean()) * np.where(u >= 0, 1.0, -1.0)


def _one_silent() -> Example:
    u = np.array([21.0, 21.0, 21.0, 21.0, 20.0, 20.0, 18.0, 0.0])
    return Example(
        "seven coordinates of about one size and a zero",
        float(np.abs(_left(u))[7]),
        {"corrected": u, "live": 8, "top": 21.0, "magnitude": 19.0, "coordinate": 7},
    )


def _one_hot() -> Example:
    u = np.eye(16)[0]
    return Example(
        "one coordinate of 16 is not zero",
        float((_left(u) ** 4).sum()),
        {"corrected": u, "live": 16, "magnitude": 0.25},
    )


MAX_NORM = Theorem(
    id="T5j",
    title="The l2 sign contracts in the maximum norm",
    conclusion=le(sp.Abs(corrected[coordinate] - magnitude * sgn(corrected[coordinate])), top * FACTOR),
    hypotheses=(
        IS_L2,
        Hypothesis("largest", ForAll(((k, d),), le(sp.Abs(corrected[k]), top)), "no coordinate exceeds U in size"),
        Hypothesis("live_coordinate", sp.Lt(coordinate, d, evaluate=False), "the coordinate is a live one"),
    ),
    words="The error of the l2 sign is in every coordinate at most {factor} times the largest coordinate of u.",
    numbers={"factor": FACTOR},
    good_for="Whatever phi, the published compressor is a contraction, if in another norm: errors of one worker are "
    "bounded for every beta1 (T5k).",
    source="ours",
    where=(MAGNITUDE, TOP, Row(coordinate, "l", "a coordinate, counted from 0")),
    example=_one_silent,
    laws=("L10", "C1", "C2"),
    remarks="Attained: all coordinates but one of the same size, one zero.",
)

FOURTH_POWERS = Theorem(
    id="T5l",
    title="The l2 sign contracts in l4",
    conclusion=le(
        total((corrected[k] - magnitude * sgn(corrected[k])) ** 4, k, d),
        total(corrected[k] ** 4, k, d) - d * magnitude**4,
    ),
    hypotheses=(IS_L2,),
    words="The sum of fourth powers of the l2 sign's error is smaller than that of u by d times the fourth "
    "power of the "
    "scale, at least.",
    good_for="The scale is at least the l4 norm over sqrt(d): the l2 sign is a contraction of the l4 norm for every "
    "input.",
    source="ours",
    where=(MAGNITUDE,),
    example=_one_hot,
    laws=("L10", "C1", "C2"),
)

WORKER_SIGN = Hypothesis(
    "worker_sign",
    ForAll((t, (i, N), (k, d)), eq(messages[t + 1, i, k], scale[t + 1, i] * sgn(corrected[t + 1, i, k]))),
    "each worker sends the scaled sign",
)
WORKER_SCALE = Hypothesis(
    "worker_scale",
    ForAll((t, (i, N)), eq(scale[t + 1, i], sp.sqrt(mean(corrected[t + 1, i, k] ** 2, k, d)))),
    "with its l2 scale",
)
SERVER_SIGN = Hypothesis(
    "server_sign",
    ForAll((t, (k, d)), eq(momentum[t + 1, k], server_scale[t + 1] * sgn(server_input[t + 1, k]))),
    "so does the server",
)
SERVER_SCALE = Hypothesis(
    "server_scale_is",
    ForAll((t,), eq(server_scale[t + 1], sp.sqrt(mean(server_input[t + 1, k] ** 2, k, d)))),
    "with its l2 scale, one chunk",
)
GRADIENTS = Hypothesis(
    "gradients_bounded",
    ForAll((t, (i, N), (k, d)), le(sp.Abs(grads[t + 1, i, k]), gradient_bound)),
    "every coordinate of every worker's gradient is at most G in size",
)
MOMENTUM_START = Hypothesis(
    "momentum_start",
    ForAll(((k, d),), le(sp.Abs(momentum[0, k]), gradient_bound)),
    "so is every coordinate of the momentum at the freeze",
)
SMALL_BETA = Hypothesis("small_beta1", lt(beta1, (1 - FACTOR) ** 2), "beta1 is below the threshold")
COORDINATE = Hypothesis("coordinate", sp.Lt(k, d, evaluate=False), "k is a live coordinate")


def _two_sided() -> Example:
    """One step of three workers from no momentum, d = 2, beta1 = 1/64, with scales that are fractions.

    Two workers compress (7, 1), the third 3/2 (7, -1), in the same unit: so the server compresses (35, 5)/6.
    """
    beta, unit = Fraction(1, 64), Fraction(3, 32)
    u = unit * np.array([[7, 1], [7, 1], [Fraction(21, 2), Fraction(-3, 2)]])
    s = unit * np.array([5, 5, Fraction(15, 2)])
    c = s[:, None] * np.where(u >= 0, 1, -1)
    w, server = c.mean(0), unit * Fraction(25, 6)
    m = server * np.where(w >= 0, 1, -1)
    pairs = {
        "corrected": u, "messages": c, "worker_errors": u - c, "grads": u / (1 - beta), "scale": s,
        "server_input": w, "momentum": m, "server_error": w - m, "server_scale": server,
    }  # fmt: skip
    values = {name: np.array([0 * after, after]) for name, after in pairs.items()}
    residual = np.abs((u - c).mean(0) + w - m)
    numbers = {
        "n_workers": 3,
        "live": 2,
        "step": 1,
        "k": int(np.argmax(residual)),
        "beta1": beta,
        "gradient_bound": 1.0,
    }
    return Example("one step of three workers, d = 2, beta1 = 1/64", float(residual.max()), values | numbers)


LIMIT = (
    (1 - beta1) * gradient_bound * FACTOR * (2 - FACTOR) / ((1 - FACTOR) ** 2 - beta1)
)  # q (1-q) W for the workers and q W for the server, W = n G/((1-q)^2 - beta1)

TWO_SIDED = Theorem(
    id="T5m",
    title="Two-sided l2 with different workers, small beta1",
    conclusion=le(sp.Abs(mean(worker_errors[t, i, k], i, N) + server_error[t, k]), LIMIT),
    hypotheses=(
        INPUT, FEEDBACK, SERVER_INPUT, SERVER_FEEDBACK, WORKER_SIGN, WORKER_SCALE, SERVER_SIGN, SERVER_SCALE,
        GRADIENTS, WORKER_START, SERVER_START, MOMENTUM_START, SMALL_BETA, COORDINATE,
    ),
    words="With the l2 scale at the workers and at the server, different workers, and beta1 below {threshold}, no "
    "coordinate of the total error ever exceeds {limit}, if errors start at zero and no coordinate of the gradients "
    "or of the momentum at the freeze exceeds G.",
    numbers={"threshold": (1 - FACTOR) ** 2, "limit": LIMIT},
    good_for="The only proof known to us of bounded errors for different workers and two l2 compressions that asks "
    "nothing of phi; for short vectors and a tiny beta1.",
    source="ours",
    example=_two_sided,
    laws=("L1", "L10"),
    remarks="The threshold is about 1/(4 d^2): far below any beta1 in use. What is settled beyond it: one "
    "worker, every "
    "beta1 (T5d, T5k); up to three live coordinates, every beta1 and N, by T5a, as q^2 = 2 (1 - 1/sqrt(d)) < 1 "
    "there (T1i); "
    "and runs in which phi stays above 1/4 (T5a). The general case is open: no proof, and no counterexample. A "
    "search over "
    "gradients, and free runs from random and spiky states (beta1 of 0.5 and 0.9 for d and N to 64, "
    "beta1 of 0.99 for d = 4 and N = 3 only), all decayed; but the "
    "energy of T5a's proof grew by up to a quarter on the way, so that it alone can't be the proof.",
)  # fmt: skip

THEOREMS = (MAX_NORM, FOURTH_POWERS, TWO_SIDED)
