"""The compressed phase of 1-bit Adam as hypotheses: N workers, two contractive compressors, noisy gradients.

What the workers compress is the momentum in units of the gradient (``compress="momentum"``, the published form), or in
units of the update (``compress="update"``, C12): they differ in the weight of the gradients that go in, 1 or P, and of
the shared momentum that comes out, P or 1. Indices as in :mod:`theory.descent`, with the worker i besides.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory import descent as ds
from theory.formula import At, ForAll, Implies, eq, le, mean, ne
from theory.notation import (
    POSITIVE,
    D,
    N,
    Row,
    T,
    beta1,
    contraction,
    grads,
    i,
    j,
    k,
    lr,
    messages,
    momentum,
    noise,
    params,
    preconditioner,
    server_error,
    t,
    virtual_iterate,
    worker_errors,
)
from theory.theorem import Hypothesis

worker_gradient: Any = sp.Function("worker_gradient")
similarity = sp.Symbol("similarity", positive=True)
heterogeneity = sp.Symbol("heterogeneity", nonnegative=True)
smoothness_weighted = sp.Symbol("smoothness_weighted", positive=True)

RATIO = beta1 / (1 - beta1)
REACH = (RATIO + contraction) * (RATIO + 2 * contraction / (1 + contraction))
"""||x - y||^2 is at most gamma^2 times this times the state's quadratic form."""
SLOWNESS = 2 * (1 + contraction) / ((1 + beta1) * (1 - contraction))
"""The quadratic form decays by the factor 1 - (1-beta1)/SLOWNESS a step: the memory of error feedback."""
SPREAD = 1 + (1 - beta1) * contraction / beta1
NOISE_SHARE = 1 / N + (1 - beta1) * contraction / beta1
"""How much of one worker's variance reaches the quadratic form: the mean's part and the worker errors' part."""

ROWS = (
    *ds.SPACE_ROWS,
    Row(
        worker_gradient,
        r"\nabla F",
        "gradient of one worker's function: worker i, then the point",
        "(D,)",
        coq="nat -> (nat -> R) -> nat -> R",
    ),
    Row(similarity, "B", "mean ||grad f_i||^2 <= B^2 ||grad f||^2 + zeta^2", domain=POSITIVE, default=1),
    Row(heterogeneity, r"\zeta", "the zeta above: 0 where all workers draw from the same data", default=0),
    Row(smoothness_weighted, "M", "Lipschitz constant of P^(1/2) grad f; at most L times the root of p_max", default=1),
)


def own_slope(where: Any) -> Any:
    """Coordinate k of worker i's gradient at a vector."""
    return At(worker_gradient(i, where), k)


def worker_noise(worker: Any = i) -> Any:
    """Gradient noise of a worker at step t, outcome w, coordinate k."""
    return grads[t, ds.w, worker, k] - At(worker_gradient(worker, params[t, ds.w]), k)


def algorithm(weight_in: Any, weight_out: Any) -> tuple[Hypothesis, ...]:
    """The recurrences of the algorithm, and what its compressors must do."""
    w = ds.w
    sent = messages[t, w, i, k]
    corrected = beta1 * momentum[t, w, k] + (1 - beta1) * weight_in * grads[t, w, i, k] + worker_errors[t, w, i, k]
    received = mean(sent, i, N) + server_error[t, w, k]
    residual = mean(worker_errors[t, w, i, k], i, N) + server_error[t, w, k]
    return (
        Hypothesis(
            "worker_feedback",
            ds.everywhere(eq(worker_errors[t + 1, w, i, k], corrected - sent), (i, N), (k, D)),
            "each worker keeps what its message leaves of its own momentum plus its error",
        ),
        Hypothesis(
            "server_feedback",
            ds.everywhere(eq(server_error[t + 1, w, k], received - momentum[t + 1, w, k]), (k, D)),
            "the server keeps what its message (the next momentum) leaves of the mean message plus its error",
        ),
        Hypothesis(
            "worker_contracts",
            ds.everywhere(
                le(ds.squares(worker_errors[t + 1, w, i, k]), contraction**2 * ds.squares(corrected)), (i, N)
            ),
            "a worker's compression leaves at most q times the norm of what it compresses (l1: T1h)",
        ),
        Hypothesis(
            "server_contracts",
            ds.everywhere(le(ds.squares(server_error[t + 1, w, k]), contraction**2 * ds.squares(received))),
            "so does the server's",
        ),
        Hypothesis(
            "worker_start",
            ForAll(((w, ds.n_outcomes), (i, N), (k, D)), eq(worker_errors[0, w, i, k], 0)),
            "worker errors start at 0",
        ),
        Hypothesis(
            "server_start", ForAll(((w, ds.n_outcomes), (k, D)), eq(server_error[0, w, k], 0)), "so does the server's"
        ),
        Hypothesis(
            "step_taken",
            ds.everywhere(eq(params[t + 1, w, k], params[t, w, k] - lr * weight_out * momentum[t + 1, w, k]), (k, D)),
            "the parameters move by the new momentum; constant learning rate, no weight decay",
        ),
        Hypothesis(
            "virtual_point",
            ForAll(
                ((t, T + 1), (w, ds.n_outcomes), (k, D)),
                eq(
                    virtual_iterate[t, w, k],
                    params[t, w, k] - lr / (1 - beta1) * weight_out * (beta1 * momentum[t, w, k] + residual),
                ),
            ),
            "y is x with the whole residual applied (the definition in law L2)",
        ),
    )


def workers(weight_in: Any) -> tuple[Hypothesis, ...]:
    """Their functions, how alike they are, and their noise, in units of what is compressed."""
    point, w, other = ds.point, ds.w, ds.other
    squared = ds.expect(ds.squares(weight_in * worker_noise()))
    return (
        Hypothesis(
            "mean_of_workers",
            ForAll((point, (k, D)), eq(ds.slope(point), mean(own_slope(point), i, N))),
            "f is the mean of the workers' functions",
        ),
        Hypothesis(
            "workers_similar",
            ForAll(
                (point,),
                le(
                    sp.Sum(ds.squares(weight_in * own_slope(point)) / N, (i, 0, N - 1)),
                    similarity**2 * ds.squares(weight_in * ds.slope(point)) + heterogeneity**2,
                ),
            ),
            "the workers' gradients are not much larger than their mean; no gradient need be bounded",
        ),
        Hypothesis(
            "unbiased",
            ds.uncorrelated(worker_noise(), (i, N), (k, D)),
            "given the past, each worker's gradient is unbiased",
        ),
        Hypothesis(
            "independent",
            ForAll(
                ((t, T), (i, N), (j, N), (k, D)),
                Implies((ne(i, j),), eq(ds.expect(worker_noise() * worker_noise(j)), 0)),
            ),
            "the noise of different workers is uncorrelated",
        ),
        Hypothesis(
            "noise_level",
            ForAll(((t, T), (i, N)), le(squared, noise**2)),
            "the variance of each worker's gradient, in units of what is compressed, is at most sigma^2",
        ),
        Hypothesis(
            "params_known",
            ForAll(((t, T), (w, ds.n_outcomes), (other, ds.n_outcomes), k), ds.same_known(params, k)),
            "the parameters before a step depend on the past alone",
        ),
        ds.adapted("momentum_known", momentum, "so does the momentum", (k, D)),
        ds.adapted("errors_known", worker_errors, "so do the worker errors", (i, N), (k, D)),
        ds.adapted("server_known", server_error, "so does the server error", (k, D)),
    )


WEIGHTED_LIPSCHITZ = Hypothesis(
    "weighted_lipschitz",
    ForAll(
        (ds.point, ds.place),
        le(
            sp.Sum(preconditioner[k] * (ds.slope(ds.place) - ds.slope(ds.point)) ** 2, (k, 0, D - 1)),
            smoothness_weighted**2 * ds.squares(ds.place[k] - ds.point[k]),
        ),
    ),
    "the gradient, weighted by the root of P, is Lipschitz with constant M",
)
