"""T6b, T6g: a step size for T6a, and from how many steps on N workers are N times as fast.

1/gamma = A + B with A = 4 L p_max/(1-beta1) for stability and B = p_max sigma sqrt(L T/(2 N F)) for the noise: the
step size of uncompressed descent. It needs no knowledge of the compression error, whose term falls like N/T with it.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory import descent as ds
from theory.convergence_run import at_rate
from theory.descent import MEAN_SQUARE, start_gap, start_momentum
from theory.evaluate import evaluate, with_defaults
from theory.formula import eq, le
from theory.notation import POSITIVE, N, T, beta1, error_bound, lr, noise, p_max, smoothness
from theory.theorem import Example, Hypothesis, Quoted, Theorem
from theory.theorems.convergence_nonconvex import HYPOTHESES
from theory.witness import instance

KEEP = 1 - beta1
STEP = 1 / (4 * smoothness * p_max / KEEP + p_max * noise * sp.sqrt(smoothness * T / (2 * N * start_gap)))
LEADING = sp.Rational(8, 3) * p_max * noise * sp.sqrt(2 * start_gap * smoothness / (N * T))
TRANSIENT = p_max * (
    8 * smoothness * start_gap / KEEP
    + 4 * smoothness * start_gap * (beta1 / KEEP) ** 2
    + 4 * smoothness * start_gap * N * (error_bound / (KEEP * noise)) ** 2
    + (beta1 * start_momentum) ** 2 / (8 * KEEP)
)
"""What is left over T, times 3/4."""
THRESHOLD = N * TRANSIENT**2 / (8 * p_max**2 * noise**2 * start_gap * smoothness)
"""T*: from here on the leading term is the larger one."""

CHOSEN = Hypothesis(
    "step_chosen", eq(lr, STEP), "the learning rate is 1/(A + B), which needs T, F and sigma to be known"
)


def step_size(**values: Any) -> Any:
    """The learning rate of T6b; arguments by code name, as for :func:`theory.evaluate.bound`.

    Raises:
        ValueError: a name is no input, or a value lies outside its domain.
    """
    return evaluate(STEP, with_defaults(SPEEDUP, STEP, values))


def steps_needed(**values: Any) -> Any:
    """T* of T6g.

    Raises:
        ValueError: a name is no input, or a value lies outside its domain.
    """
    return evaluate(THRESHOLD, with_defaults(SPEEDUP, THRESHOLD, values))


def example() -> Example:
    """The run of :mod:`theory.convergence_run` with this step size."""
    return instance(RATE, "two workers with noise, two compressed steps, all outcomes", at_rate(RATE, 2.0**-6, STEP))


def speedup_example() -> Example:
    """The same with a bound on the noise so large that two steps are enough."""
    return instance(SPEEDUP, "the same run, the noise bound taken as large", at_rate(SPEEDUP, 2.0**-7, STEP))


RATE = Theorem(
    id="T6b",
    title="Convergence, corollary: a step size, and a rate in N and T",
    conclusion=le(MEAN_SQUARE, LEADING + sp.Rational(4, 3) * TRANSIENT / T),
    hypotheses=(*HYPOTHESES, CHOSEN),
    words="With a step size that contains nothing of the compressor the mean of E‖∇f(x_t)‖²_P is of order σ/√(NT), "
    "plus terms of order one over T, of which the one that compression costs is N (E_Δ/σ)²/T.",
    good_for="Gives a step size made of L, p_max, F, σ, β1, N and T, and the rate that goes with it where errors are "
    "bounded.",
    source="ours; the published corollary (recalled, docs/published.md) has (E_Δ/T) to the power two thirds",
    where=ds.SPACE_ROWS,
    domains={noise: POSITIVE},
    example=example,
    needs=("T6a",),
    laws=("L1", "L2"),
    remarks="σ must be positive; any larger number than the true one is allowed. T and F must be known when γ is "
    "chosen. With E_Δ known a smaller step is better in short runs.",
)

SPEEDUP = Theorem(
    id="T6g",
    title="Linear speed-up from an explicit number of steps on",
    conclusion=le(MEAN_SQUARE, 2 * LEADING),
    hypotheses=(
        *HYPOTHESES,
        CHOSEN,
        Hypothesis("long_enough", le(THRESHOLD, T), "the run has at least T* steps"),
    ),
    words="In runs of at least T* steps with T6b's step size the mean of E‖∇f(x_t)‖²_P over T steps is at most a "
    "constant times σ/√(NT), compression or not: by this bound N workers need an N-th of the steps. T* grows at most "
    "like N to the power {workers} and E_Δ/{keep} to the power {errors}.",
    numbers={
        "keep": KEEP,
        "workers": Quoted(sp.Poly(THRESHOLD, N).degree(), by="the degree of T* in N"),
        "errors": Quoted(sp.Poly(THRESHOLD, error_bound).degree(), by="the degree of T* in E_Δ"),
    },
    good_for="Says how long a run must be before this bound is that of linear speed-up.",
    source="ours",
    where=ds.SPACE_ROWS,
    domains={noise: POSITIVE},
    example=speedup_example,
    needs=("T6b",),
    laws=("L1", "L2"),
    remarks="T* is N times the square of T6b's transient over 8 p_max² σ² F L. For E_Δ = 0 it grows like N: the cube "
    "is what this proof pays for compression, as the published corollary does. The measured runs (linear_speedup) "
    "speed up earlier.",
)

THEOREMS = (RATE, SPEEDUP)
