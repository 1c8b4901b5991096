"""What the convergence theorems share: the probability space, the smooth function, the iterates, and the noise.

A finite probability space: outcome w has the weight probability[w]; the expectation of X is the sum of
probability[w] X[w]. What is known before step t is ``past[t, w]``, a label: two outcomes with the same label can't be
told apart yet. "Unbiased given the past" then is: the noise of step t has the product 0, in expectation, with every
function of that label.

Steps count from 0 at the freeze: ``params[t]``, ``momentum[t]`` and ``total_error[t]`` are those before step t, and
``mean_grad[t]`` is what step t averages over the workers at ``params[t]``.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.formula import At, ForAll, Formula, Implies, array, eq, le, total
from theory.notation import (
    POSITIVE,
    D,
    N,
    Row,
    T,
    beta1,
    count,
    k,
    lr,
    momentum,
    noise,
    params,
    preconditioner,
    smoothness,
    t,
    total_error,
    virtual_iterate,
)
from theory.theorem import Hypothesis

n_outcomes, w, other = count("n_outcomes"), count("outcome", least=0), count("other", least=0)
probability, past, known = array("probability"), array("past"), array("known")
mean_grad, point, place = array("mean_grad"), array("point"), array("place")
objective: Any = sp.Function("objective", real=True)
gradient: Any = sp.Function("gradient")
lowest = sp.Symbol("lowest", real=True)
start_gap = sp.Symbol("start_gap", positive=True)
start_momentum = sp.Symbol("start_momentum", nonnegative=True)
pl_constant = sp.Symbol("pl_constant", positive=True)

SPACE_ROWS = (
    Row(w, r"\omega", "outcome, counted from 0"),
    Row(other, r"\omega'", "another outcome"),
    Row(point, "u", "any point", "(D,)"),
    Row(place, "v", "any other point", "(D,)"),
    Row(known, "h", "any function of the past, by outcome", "(n_outcomes,)"),
    Row(n_outcomes, r"\Omega", "outcomes of the finite probability space"),
    Row(probability, r"\pi", "probability of an outcome", "(n_outcomes,)"),
    Row(past, r"\mathcal{F}", "label of what is known before a step: equal where outcomes can't be told apart yet"),
    Row(objective, "f", "the function that is minimised", coq="(nat -> R) -> R"),
    Row(gradient, r"\nabla f", "its gradient", "(D,)", coq="(nat -> R) -> nat -> R"),
    Row(lowest, r"f^*", "a lower bound of f"),
    Row(mean_grad, r"\bar{g}", "mean of the workers' gradients at step t, by outcome and coordinate", "(T, Omega, D)"),
    Row(start_gap, r"F_0", "bound on E f(y) - f* at the freeze, y the virtual iterate", domain=POSITIVE, default=1),
    Row(start_momentum, r"M_0", "root of the bound on E ||momentum||^2 at the freeze", default=0),
)
"""Rows for the symbols above."""


def expect(term: Any) -> sp.Sum:
    """Expectation of a random variable, written by its value at the outcome ``w``."""
    return total(probability[w] * term, w, n_outcomes)


def squares(term: Any) -> sp.Sum:
    """Sum over coordinates of the squares of ``term``."""
    return total(term**2, k, D)


def slope(where: Any) -> Any:
    """Coordinate k of the gradient at a vector."""
    return At(gradient(where), k)


def mean_over_steps(term: Any) -> sp.Sum:
    """(1/T) times the sum over the steps 0 ... T - 1."""
    return total(term / T, t, T)


MEAN_SQUARE = mean_over_steps(expect(total(preconditioner[k] * slope(params[t, w]) ** 2, k, D)))
"""What every rate bounds: the mean over steps of E ||grad f(x_t)||_P^2."""


def everywhere(body: Formula, *more: tuple[sp.Symbol, Any]) -> ForAll:
    """For every step, outcome and whatever else is given."""
    return ForAll(((t, T), (w, n_outcomes), *more), body)


NONNEGATIVE_WEIGHTS = Hypothesis(
    "weights_nonnegative", ForAll(((w, n_outcomes),), le(0, probability[w])), "no probability is negative"
)
TOTAL_WEIGHT = Hypothesis("weights_sum", eq(total(probability[w], w, n_outcomes), 1), "probabilities add up to one")
DESCENT = Hypothesis(
    "descent_inequality",
    ForAll(
        (point, place),
        le(
            objective(place),
            objective(point)
            + total(slope(point) * (place[k] - point[k]), k, D)
            + smoothness / 2 * squares(place[k] - point[k]),
        ),
    ),
    "f is smooth: it stays below its tangent plane plus L/2 times the squared distance",
)
LIPSCHITZ = Hypothesis(
    "lipschitz_gradient",
    ForAll(
        (point, place),
        le(squares(slope(place) - slope(point)), smoothness**2 * squares(place[k] - point[k])),
    ),
    "the gradient of f is Lipschitz with constant L",
)
BOUNDED_BELOW = Hypothesis("bounded_below", ForAll((point,), le(lowest, objective(point))), "f is at least f*")


def same_known(array_: Any, *indices: Any) -> Formula:
    """Outcomes with the same past have the same value."""
    return Implies((eq(past[t, w], past[t, other]),), eq(array_[(t, w, *indices)], array_[(t, other, *indices)]))


def adapted(name: str, array_: Any, words: str, *more: tuple[sp.Symbol, Any]) -> Hypothesis:
    """An array's value at step t depends on the past alone."""
    indices = [index for index, _ in more]
    return Hypothesis(
        name,
        ForAll(((t, T), (w, n_outcomes), (other, n_outcomes), *more), same_known(array_, *indices)),
        words,
    )


def uncorrelated(error: Any, *more: tuple[sp.Symbol, Any]) -> Formula:
    """``error`` (of step t, outcome w) has expectation 0 times every function of the past: it is unbiased given it."""
    depends = ForAll(
        ((w, n_outcomes), (other, n_outcomes)),
        Implies((eq(past[t, w], past[t, other]),), eq(known[w], known[other])),
    )
    return ForAll(((t, T), known, *more), Implies((depends,), eq(expect(known[w] * error), 0)))


VIRTUAL = Hypothesis(
    "virtual_point",
    ForAll(
        ((t, T + 1), (w, n_outcomes), (k, D)),
        eq(
            virtual_iterate[t, w, k],
            params[t, w, k] - lr / (1 - beta1) * preconditioner[k] * (beta1 * momentum[t, w, k] + total_error[t, w, k]),
        ),
    ),
    "y is x with the whole residual applied (the definition in law L2)",
)
CONSERVATION = Hypothesis(
    "conservation",
    everywhere(
        eq(
            momentum[t + 1, w, k] + total_error[t + 1, w, k],
            beta1 * momentum[t, w, k] + (1 - beta1) * mean_grad[t, w, k] + total_error[t, w, k],
        ),
        (k, D),
    ),
    "law L1, which T3a proves of 1-bit Adam whatever its compressors send",
)
STEP = Hypothesis(
    "step_taken",
    everywhere(
        eq(params[t + 1, w, k], params[t, w, k] - lr * preconditioner[k] * momentum[t + 1, w, k]),
        (k, D),
    ),
    "the parameters move by the preconditioned new momentum; constant learning rate, no weight decay",
)
UNBIASED = Hypothesis(
    "unbiased",
    uncorrelated(mean_grad[t, w, k] - slope(params[t, w]), (k, D)),
    "given the past, the mean gradient is unbiased",
)
NOISE = Hypothesis(
    "noise_level",
    ForAll(((t, T),), le(expect(squares(mean_grad[t, w, k] - slope(params[t, w]))), noise**2 / N)),
    "the variance of the mean gradient is at most that of one worker over N (T6f: independent workers)",
)
KNOWN_PARAMS = adapted("params_known", params, "the parameters before a step depend on the past alone", (k, D))
KNOWN_VIRTUAL = adapted(
    "virtual_known",
    virtual_iterate,
    "so does the virtual iterate, being made of parameters, momentum and errors",
    (k, D),
)
START_GAP = Hypothesis(
    "gap_at_start",
    le(expect(objective(virtual_iterate[0, w])) - lowest, start_gap),
    "at the freeze the expected gap of the virtual iterate is at most this",
)
