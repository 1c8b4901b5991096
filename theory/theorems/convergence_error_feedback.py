"""T13a, T13b: 1-bit Adam converges with no bound on the gradients and no assumed compression error.

Problem:   min f, the mean of N workers' functions, f L-smooth and bounded below by f*.
Algorithm: the compressed phase of 1-bit Adam with contractive compressors at the workers and at the server.
Guarantee: (1/T) sum E||grad f(x_t)||_P^2 <= bound(T), for every N, D and T.

One Lyapunov function joins T5 and T6: f(y_t) - f* + omega (||z_t||^2 + lambda mean ||delta_i||^2), where y is the
virtual iterate, z = m + Delta is the shared momentum plus the whole residual, and lambda = (1-beta1)/(q beta1). The
conservation law makes the cross terms of the quadratic form cancel, so it decays for every q < 1 and every beta1,
by exactly 1 - (1-beta1^2)(1-q)/(1+q) a step where no gradient comes in; gradients enter it as they are.
"""

from __future__ import annotations

from typing import Any

from theory import descent as ds
from theory import error_feedback as ef
from theory.convergence_run import of as run_of
from theory.descent import MEAN_SQUARE, start_gap, start_momentum
from theory.error_feedback import NOISE_SHARE, REACH, SLOWNESS, SPREAD, heterogeneity, similarity, smoothness_weighted
from theory.formula import ForAll, le, lt
from theory.notation import D, N, T, beta1, contraction, k, lr, noise, p_max, p_min, preconditioner, smoothness
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.convergence_nonconvex import P_RANGE, RELATIVE, START_MOMENTUM
from theory.witness import instance

SPACE = (ds.NONNEGATIVE_WEIGHTS, ds.TOTAL_WEIGHT, ds.DESCENT, ds.LIPSCHITZ)
P_BELOW = Hypothesis("preconditioner_at_least", ForAll(((k, D),), le(p_min, preconditioner[k])), "P is at least p_min")


def terms(error: Any) -> tuple[Any, ...]:
    """The bound's numerator: ``error`` is the factor of everything that compression and momentum cost."""
    return (
        2 * start_gap / (lr * T),
        error * SLOWNESS * start_momentum**2 / ((1 - beta1) * T),
        error * SLOWNESS**2 * SPREAD * heterogeneity**2,
        error * SLOWNESS * (1 - beta1) * NOISE_SHARE * noise**2,
    )


ERROR_MOMENTUM = p_max * RELATIVE**2 * REACH
LEFT_MOMENTUM = 1 - RELATIVE - RELATIVE**2 * REACH * SLOWNESS**2 * SPREAD * similarity**2 * p_max / p_min
BOUND_MOMENTUM = (sum(terms(ERROR_MOMENTUM)) + RELATIVE * p_max * noise**2 / N) / LEFT_MOMENTUM

ERROR_UPDATE = (lr * smoothness_weighted) ** 2 * REACH
LEFT_UPDATE = 1 - RELATIVE - ERROR_UPDATE * SLOWNESS**2 * SPREAD * similarity**2 * p_max
BOUND_UPDATE = (sum(terms(ERROR_UPDATE)) + lr * smoothness * noise**2 / N) / LEFT_UPDATE


def example() -> Example:
    """The run of :mod:`theory.convergence_run`, published form."""
    return instance(
        MOMENTUM, "two workers with noise, two compressed steps, all outcomes", run_of(MOMENTUM, lr=2.0**-10)
    )


def update_example() -> Example:
    """The same run in the update form."""
    inputs = run_of(UPDATE, update=True)
    return instance(UPDATE, "the same with what is compressed in units of the update", inputs)


MOMENTUM = Theorem(
    id="T13a",
    title="Convergence without bounded gradients and without an assumed error",
    conclusion=le(MEAN_SQUARE, BOUND_MOMENTUM),
    hypotheses=(
        *SPACE,
        ds.BOUNDED_BELOW,
        P_RANGE[1],
        P_BELOW,
        *ef.algorithm(1, preconditioner[k]),
        *ef.workers(1),
        ds.START_GAP,
        START_MOMENTUM,
        Hypothesis(
            "step_size",
            lt(0, LEFT_MOMENTUM),
            "the learning rate is so small that this, the divisor of the bound, is positive",
        ),
    ),
    words="With compressors that leave at most the share q < {one} of the norm of their input, workers and server "
    "alike, workers whose gradients are similar and a learning rate within the hypothesis step_size, the mean of "
    "E‖∇f(x_t)‖²_P over T steps is at most an initial gap over γT, a noise term of order γσ²/N, terms of order γ² in "
    "the noise and in how much the workers differ, and one of order γ²/T for the momentum at the freeze. Gradients "
    "need not be bounded and nothing is assumed of the errors.",
    numbers={"one": contraction / contraction},
    good_for="For compressors that contract and workers that are similar, what the published theorem assumes of the "
    "errors is proved.",
    source="ours; the aim is that of EF21-SGDM (Fatkhullin, Tyurin and Richtarik 2023) for the algorithm as it is",
    where=ef.ROWS,
    example=example,
    laws=("L1", "L2", "L10"),
    remarks="EF21-SGDM needs no similarity of the workers, because each worker compresses the change of its own "
    "gradient; 1-bit Adam compresses the momentum itself, and ζ > 0 leaves a floor of order γ²ζ², as for every error "
    "feedback of this kind. Where all workers draw from the same data B = 1 and ζ = 0. The scaled sign with the l1 "
    "scale has q² = 1 - φ ≤ 1 - 1/d (T1h); the l2 scale contracts only for φ > 1/4 (T1d). The condition number "
    "p_max/p_min of P enters the step size, because the error is contracted in the Euclidean norm and not in that of "
    "P; the update form (T13b) is free of it.",
)

UPDATE = Theorem(
    id="T13b",
    title="Convergence of the update form, free of the smallest variance",
    conclusion=le(MEAN_SQUARE, BOUND_UPDATE),
    hypotheses=(
        *SPACE,
        ef.WEIGHTED_LIPSCHITZ,
        ds.BOUNDED_BELOW,
        *P_RANGE,
        *ef.algorithm(preconditioner[k], 1),
        *ef.workers(preconditioner[k]),
        ds.START_GAP,
        START_MOMENTUM,
        Hypothesis(
            "step_size",
            lt(0, LEFT_UPDATE),
            "the learning rate is so small that this, the divisor of the bound, is positive",
        ),
    ),
    words="Where P m is compressed instead of m the same holds, at a learning rate within the hypothesis step_size, "
    "with noise, heterogeneity, similarity and momentum measured in units of the update. No power of p_max, the "
    "inverse of the smallest root of the variance, multiplies them beside what is in M; that hypothesis has p_max.",
    good_for="Says why the update form can live with a tiny variance: the smallest variance limits the step size and "
    "does not multiply the error.",
    source='ours; compress="update" is C12',
    where=ef.ROWS,
    example=update_example,
    laws=("L1", "L2", "C12"),
    remarks="Against T13a: p_max³ L² ζ² and p_max³ L² σ² become M² ζ_u² and M² σ_u² with M² ≤ p_max L² and σ_u ≤ "
    "p_max σ. Similarity is asked of P times the gradients: B and ζ are other numbers than in T13a; where B is the "
    "same, ζ_u ≤ p_max ζ can be had and this bound is not worse. The step size is free of p_max/p_min. With v_k = "
    "g_k², noise like the gradient, σ_u² is the number of coordinates, and the gain in the error term is "
    "mean(v)/min(v).",
)

THEOREMS = (MOMENTUM, UPDATE)
