"""T13c, T13d: a step size for T13a, and linear speed-up with nothing assumed of gradients and errors.

1/gamma = A + B as in T6b, with a stability term A that knows the compressor's factor. No error bound enters: what
compression costs is made of the compressor's factor, the noise and the similarity of the workers.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory import error_feedback as ef
from theory.convergence_run import at_rate
from theory.descent import MEAN_SQUARE, start_gap, start_momentum
from theory.error_feedback import NOISE_SHARE, RATIO, REACH, SLOWNESS, SPREAD, heterogeneity, similarity
from theory.evaluate import evaluate, with_defaults
from theory.formula import eq, le
from theory.notation import POSITIVE, N, T, beta1, contraction, lr, noise, p_max, p_min, smoothness
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.convergence_error_feedback import MOMENTUM
from theory.witness import instance

KEEP = 1 - beta1
STIFFNESS = (RATIO + 2 * contraction / (1 + contraction)) * SLOWNESS * SPREAD * similarity * sp.sqrt(p_max / p_min)
"""How many times smaller than without compression a step must be, up to a constant."""
STEP = 1 / (2 * smoothness * p_max * (2 + STIFFNESS) + p_max * noise * sp.sqrt(smoothness * T / (2 * N * start_gap)))
LEADING = 4 * p_max * noise * sp.sqrt(2 * start_gap * smoothness / (N * T))
TRANSIENT = p_max * (
    4 * smoothness * start_gap * (2 + STIFFNESS)
    + 2
    * smoothness
    * start_gap
    * N
    * REACH
    * SLOWNESS
    * (KEEP * NOISE_SHARE + SLOWNESS * SPREAD * (heterogeneity / noise) ** 2)
    + REACH * SLOWNESS * start_momentum**2 / (16 * KEEP)
)
"""What is left over T, halved."""
THRESHOLD = N * TRANSIENT**2 / (8 * p_max**2 * noise**2 * start_gap * smoothness)
"""T*: from here on the leading term is the larger one."""
HYPOTHESES = (
    *(item for item in MOMENTUM.hypotheses if item.name != "step_size"),
    Hypothesis(
        "step_chosen", eq(lr, STEP), "the learning rate is 1/(A + B), which needs T, F, sigma and q to be known"
    ),
)


def steps_needed(**values: Any) -> Any:
    """T* of T13d; arguments by code name, as for :func:`theory.evaluate.bound`.

    Raises:
        ValueError: a name is no input, or a value lies outside its domain.
    """
    return evaluate(THRESHOLD, with_defaults(SPEEDUP, THRESHOLD, values))


def example() -> Example:
    """The run of :mod:`theory.convergence_run` with this step size."""
    return instance(RATE, "two workers with noise, two compressed steps, all outcomes", at_rate(RATE, 2.0**-9, STEP))


def speedup_example() -> Example:
    """The same with a bound on the noise so large that two steps are enough."""
    return instance(SPEEDUP, "the same run, the noise bound taken as large", at_rate(SPEEDUP, 2.0**-14, STEP))


RATE = Theorem(
    id="T13c",
    title="A step size and a rate, nothing assumed of gradients and errors",
    conclusion=le(MEAN_SQUARE, LEADING + 2 * TRANSIENT / T),
    hypotheses=HYPOTHESES,
    words="With compressors that contract, workers that are similar and a step size made of T, F, σ, q and the "
    "constants of the function, the mean of E‖∇f(x_t)‖²_P is of order σ/√(NT) plus terms of order one over T: "
    "compression costs nothing in the leading term, whatever the compressor's factor q is.",
    good_for="Gives the step size from the compressor's factor and the constants of the function, with no error to "
    "be guessed.",
    source="ours",
    where=ef.ROWS,
    domains={noise: POSITIVE},
    example=example,
    needs=("T13a",),
    laws=("L1", "L2", "L10"),
    remarks="σ must be positive; any larger number than the true one is allowed. The transient grows like the square "
    "of (1+q)/(1-q) where the workers differ, else like its first power.",
)

SPEEDUP = Theorem(
    id="T13d",
    title="Linear speed-up, nothing assumed of gradients and errors",
    conclusion=le(MEAN_SQUARE, 2 * LEADING),
    hypotheses=(*HYPOTHESES, Hypothesis("long_enough", le(THRESHOLD, T), "the run has at least T* steps")),
    words="In runs of at least T* steps with T13c's step size the mean of E‖∇f(x_t)‖²_P is at most a constant times "
    "σ/√(NT), compressed as they are: by this bound N workers need an N-th of the steps. T* is made of the constants "
    "that the step size is made of, and of the momentum at the freeze.",
    good_for="Says how long a run must be before this bound is that of linear speed-up, with no error to be guessed.",
    source="ours",
    where=ef.ROWS,
    domains={noise: POSITIVE},
    example=speedup_example,
    needs=("T13c",),
    laws=("L1", "L2", "L10"),
    remarks="T* is N times the square of T13c's transient over 8 p_max² σ² F L, and grows like the cube of N, as "
    "T6g's.",
)

THEOREMS = (RATE, SPEEDUP)
