"""T4a-T4e: why Adam on error-compensated compressed gradients fails: its variance sees squares, which don't telescope.

Naive error-compensated Adam feeds c_t = g_t + Delta_{t-1} - Delta_t (T2b) to both of Adam's averages. In m the errors
telescope. In v they come squared. One coordinate's arrays have the step as their only axis.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, ge, le, lt, mean
from theory.notation import Row, T, beta2, count, d, error_bound, j, k, server_scale, t, total_error, variance
from theory.theorem import Hypothesis, Theorem
from theory.witness import instance

s, l = count("s", least=0), count("l", least=0)  # a step; a coordinate beside k
decoded, exact_variance, cross, square = array("decoded"), array("exact_variance"), array("cross"), array("square")
mean_grads, constant_grads = array("mean_grads"), array("constant_grads")
gradient = sp.Symbol("gradient", real=True)
largest_grad = sp.Symbol("largest_grad", nonnegative=True)

DECODED = Row(decoded, "c", "decoded compressed gradient, which naive Adam takes for the gradient")
EXACT = Row(exact_variance, "v^*", "second moment that Adam would have without compression")
CROSS = Row(cross, "X", "part of v that is linear in the compression noise")
SQUARE = Row(square, "Y", "part of v that is quadratic in it")
MEAN_GRADS = Row(mean_grads, r"\bar{g}", "mean gradient of each step")
GRADIENT = Row(gradient, "g", "a gradient that does not change", default=1.0)
GRADS = Row(constant_grads, "g", "gradients of the chunk's coordinates, the same in every step", "(d,)")
LARGEST = Row(largest_grad, r"\|g\|_\infty", "largest gradient of the chunk, by size", default=1.0)
L_ROW = Row(l, "l", "another coordinate of the chunk, counted from 0")

noise = total_error[s] - total_error[s + 1]  # what compression adds to the gradient in step s + 1


def averaged(name: str, average: sp.IndexedBase, fed: sp.Expr, words: str) -> tuple[Hypothesis, Hypothesis]:
    """``average`` starts at zero and is fed ``fed`` with Adam's weights."""
    step = eq(average[s + 1], beta2 * average[s] + (1 - beta2) * fed)
    return (
        Hypothesis(f"{name}_start", eq(average[0], 0), f"{words} starts at zero"),
        Hypothesis(f"{name}_step", ForAll((s,), step), f"{words} is an average with constant beta2"),
    )


FEEDBACK = Hypothesis(
    "feedback", ForAll((s,), eq(decoded[s + 1], gradient + noise)), "what is decoded telescopes (T2b)"
)
NO_RESIDUAL = Hypothesis("no_residual", eq(total_error[0], 0), "no error at the start")
BOUNDED = Hypothesis("bounded", ForAll((s,), le(sp.Abs(total_error[s]), error_bound)), "errors are bounded (T5)")
CROSS_PART = averaged("cross", cross, 2 * gradient * noise, "X")


def one_coordinate(grads_T: np.ndarray, errors_T: np.ndarray, beta2: float) -> dict[str, Any]:
    """Run naive Adam's v, Adam's v, X and Y on given mean gradients and total errors, both from step 0."""
    noise_T = errors_T[:-1] - errors_T[1:]
    decoded_T = np.r_[0.0, grads_T[1:] + noise_T]
    fed = np.stack([decoded_T[1:] ** 2, grads_T[1:] ** 2, 2 * grads_T[1:] * noise_T, noise_T**2])
    averages = np.zeros((4, errors_T.size))
    for step in range(1, errors_T.size):
        averages[:, step] = beta2 * averages[:, step - 1] + (1 - beta2) * fed[:, step - 1]
    names = ("variance", "exact_variance", "cross", "square")
    arrays = {"decoded": decoded_T, "mean_grads": grads_T, "total_error": errors_T, "beta2": beta2}
    return arrays | dict(zip(names, averages, strict=True))


ONE_SIGN = np.r_[0.0, -np.ones(20), 1.0]
"""Total errors that keep one sign for 20 steps and then flip."""


@cache
@cache
def naive_run(grads: tuple[Any, ...], steps: int, beta2: Any) -> dict[str, Any]:
    """Naive error-compensated Adam on a constant gradient, one worker, l1 scale: what the theorems speak of.

    Exact if the numbers given are fractions.
    """
    grads_D = np.array(grads)
    decoded, errors, variances = ([0 * grads_D] for _ in range(3))
    for _ in range(steps):
        u_D = grads_D + errors[-1]
        decoded.append(np.abs(u_D).mean() * np.where(u_D >= 0, 1, -1))
        errors.append(u_D - decoded[-1])
        variances.append(beta2 * variances[-1] + (1 - beta2) * decoded[-1] ** 2)
    inputs = {"decoded": decoded, "total_error": errors, "variance": variances, "constant_grads": grads_D}
    inputs |= {"server_scale": np.abs(decoded)[:, 0], "error_bound": np.abs(errors).max()}
    numbers = {"live": grads_D.size, "step": steps - 1, "beta2": beta2, "k": grads_D.size - 1, "l": 0}
    return inputs | numbers | {"largest_grad": abs(grads[0])}


def _wrong_by_a_hundred() -> bool:
    variance = naive_run((1.0, 0.1), 4000, 0.99)["variance"][-1]
    return bool(99 < variance[1] / 0.1**2 < 130)


_GRADS, _BETA2 = (Fraction(1), Fraction(1, 10)), Fraction(99, 100)
_TWO_SIZES = "v of the smaller coordinate of g = (1, 0.1) after 4,000 steps"


SPLIT = Theorem(
    id="T4a",
    title="Residual of v in naive error-compensated Adam",
    conclusion=eq(variance[t] - exact_variance[t], cross[t] + square[t]),
    hypotheses=(
        Hypothesis("feedback", ForAll((s,), eq(decoded[s + 1], mean_grads[s + 1] + noise)), FEEDBACK.words),
        *averaged("naive", variance, decoded[s + 1] ** 2, "naive Adam's v"),
        *averaged("exact", exact_variance, mean_grads[s + 1] ** 2, "Adam's v"),
        *averaged("cross", cross, 2 * mean_grads[s + 1] * noise, "X"),
        *averaged("square", square, noise**2, "Y"),
    ),
    words="For the same gradients and from a start at zero naive Adam's v is Adam's plus an average of {factor} times "
    "gradient times noise, plus an average of the squared noise, where the noise of a step is the change of the total "
    "error.",
    numbers={"factor": sp.Integer(2)},
    good_for="Splits the error of v into a part that is linear in the noise (T4c) and an average of squares, which "
    "can't cancel.",
    source="Tang et al. 2021, section 3.3, names the square; the split is ours",
    example=lambda: instance(
        SPLIT, "20 errors of one sign, then a flip", one_coordinate(np.arange(22.0), ONE_SIGN, 0.5) | {"step": 21}
    ),
    where=(DECODED, EXACT, CROSS, SQUARE, MEAN_GRADS),
    remarks="Y is an average of squares: no term of it is negative.",
)

CANCELS = Theorem(
    id="T4c",
    title="The linear part of v's residual stays small",
    conclusion=le(sp.Abs(cross[t + 1]), 2 * (1 - beta2) * (2 - beta2**t) * sp.Abs(gradient) * error_bound),
    hypotheses=(NO_RESIDUAL, BOUNDED, *CROSS_PART),
    words="For a gradient that does not change, and errors that start at zero and stay bounded, the linear part X, "
    "which starts at zero too, is in size at most "
    "{factor} times the size of the gradient times the bound of the total error.",
    numbers={"factor": 2 * (1 - beta2) * (2 - beta2**t)},
    good_for="While errors stay bounded the linear part vanishes as beta2 tends to one: it is not what breaks naive "
    "Adam.",
    source="ours",
    example=lambda: instance(
        CANCELS,
        "beta2 = 1/2, error -1 for 20 steps, then +1",
        one_coordinate(np.ones(22), ONE_SIGN, 0.5) | {"step": 20, "gradient": 1.0, "error_bound": 1.0},
    ),
    where=(CROSS, GRADIENT),
    needs=("T2c",),
    remarks="Errors that keep one sign and then flip attain it.",
)

AVERAGE = Theorem(
    id="T4d",
    title="In the time average the squared noise stays in v",
    conclusion=eq(
        mean(variance[s], s, T),
        gradient**2
        + mean(noise**2, s, T)
        + 2 * gradient * (total_error[0] - total_error[T]) / T
        - variance[T] / ((1 - beta2) * T),
    ),
    hypotheses=(FEEDBACK, *averaged("naive", variance, decoded[s + 1] ** 2, "naive Adam's v")),
    words="For a gradient that does not change, and from v at zero, the time average of v is the squared gradient "
    "plus the time average of the squared noise, up to two terms that vanish with time if errors and v are "
    "bounded.",
    good_for="The squared noise is not averaged away: in the time average v is too large by its mean.",
    source="ours",
    example=lambda: instance(
        AVERAGE,
        "beta2 = 1/2, error -1 for 20 steps, then +1",
        one_coordinate(np.ones(22), ONE_SIGN, 0.5) | {"n_steps": 21, "gradient": 1.0},
    ),
    where=(DECODED, GRADIENT),
)

_IN_CHUNK = (
    Hypothesis("k_in_chunk", lt(k, d), "k is a coordinate of the chunk"),
    Hypothesis("l_in_chunk", lt(l, d), "l is another"),
    Hypothesis(
        "one_bit",
        ForAll((s, (j, d)), eq(sp.Abs(decoded[s + 1, j]), server_scale[s + 1])),
        "what is decoded has one size on the chunk (L5)",
    ),
    Hypothesis("variance_start", ForAll(((j, d),), eq(variance[0, j], 0)), "v starts at zero"),
    Hypothesis(
        "variance_step",
        ForAll((s, (j, d)), eq(variance[s + 1, j], beta2 * variance[s, j] + (1 - beta2) * decoded[s + 1, j] ** 2)),
        "v averages the squares of what is decoded",
    ),
)

ONE_NUMBER = Theorem(
    id="T4e",
    title="Naive one-bit Adam has one variance a chunk",
    conclusion=eq(variance[t, k], variance[t, l]),
    hypotheses=_IN_CHUNK,
    words="Where one bit a coordinate is decoded and v starts at zero, v is the same number at every coordinate of a "
    "chunk.",
    good_for="Naive one-bit Adam is momentum SGD with one step size for each chunk, which changes with time.",
    source="ours",
    example=lambda: instance(ONE_NUMBER, _TWO_SIZES, naive_run(_GRADS, 4000, _BETA2)),
    where=(DECODED, L_ROW),
    laws=("L5",),
)

FLOOR = Theorem(
    id="T4b",
    title="Naive one-bit Adam loses its preconditioner",
    conclusion=ge(
        variance[t + 1, k],
        sp.Max(0, largest_grad * (1 - beta2 ** (t + 1)) - (1 - beta2) * (2 - beta2**t) * error_bound) ** 2,
    ),
    hypotheses=(
        *_IN_CHUNK,
        Hypothesis(
            "feedback",
            ForAll((s, (j, d)), eq(decoded[s + 1, j], constant_grads[j] + total_error[s, j] - total_error[s + 1, j])),
            "what is decoded telescopes (T2b)",
        ),
        Hypothesis("no_residual", ForAll(((j, d),), eq(total_error[0, j], 0)), "no error at the start"),
        Hypothesis(
            "bounded", ForAll((s, (j, d)), le(sp.Abs(total_error[s, j]), error_bound)), "errors are bounded (T5)"
        ),
        Hypothesis("large", le(largest_grad, sp.Abs(constant_grads[l])), "l has a large gradient"),
    ),
    words="For gradients that do not change, errors that stay bounded and a v that starts at zero, v at every "
    "coordinate of a chunk is at least the square of this: the size of the largest gradient of the chunk "
    "times {growth}, less the bound of the total error times {loss}, where that is positive.",
    numbers={"growth": 1 - beta2 ** (t + 1), "loss": (1 - beta2) * (2 - beta2**t)},
    good_for="Where a gradient is small beside the largest of its chunk v becomes far too large; 1-bit Adam freezes "
    "v before it compresses.",
    source="ours",
    example=lambda: instance(FLOOR, _TWO_SIZES, naive_run(_GRADS, 4000, _BETA2)),
    where=(DECODED, GRADS, LARGEST, L_ROW),
    numeric_checks={"g = (1, 0.1): v is wrong by a factor between 99 and 130": _wrong_by_a_hundred},
    needs=("T2c", "T4e"),
    laws=("L5",),
    remarks="Where the errors are too large for the time that has passed the floor is zero, and nothing is said.",
)

THEOREMS = (SPLIT, FLOOR, CANCELS, AVERAGE, ONE_NUMBER)
