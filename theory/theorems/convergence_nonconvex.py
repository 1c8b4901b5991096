"""T6a: the rate of 1-bit Adam on smooth non-convex functions, from L1, with every constant explicit.

Problem:   min f, f L-smooth, bounded below by f*.
Algorithm: the compressed phase of 1-bit Adam, steps 0 ... T-1 counted from the freeze; P frozen.
Guarantee: (1/T) sum E||grad f(x_t)||_P^2 <= bound(T), with a step size in T6b.

The Lyapunov function is f(y_t) - f* + omega ||P a_t||^2, y the virtual iterate and a the exponential average of past
gradients. x - y is one average of gradients plus one average of errors, so nothing accumulates: compression moves x
away from y by one error, not by a sum of errors, whatever the compressor does.
"""

from __future__ import annotations

from theory import descent as ds
from theory.convergence_run import of as run_of
from theory.descent import MEAN_SQUARE, start_gap, start_momentum
from theory.formula import ForAll, le, lt
from theory.notation import (
    D,
    N,
    T,
    beta1,
    error_bound,
    k,
    lr,
    momentum,
    noise,
    p_max,
    preconditioner,
    smoothness,
    t,
    total_error,
)
from theory.theorem import Example, Hypothesis, Theorem
from theory.witness import instance

RELATIVE = lr * smoothness * p_max
"""gamma L p_max, the step size in units of 1/(L p_max)."""
SPREAD = beta1 / (1 - beta1)
COEFFICIENT = 1 - RELATIVE - 2 * (SPREAD * RELATIVE) ** 2
START = 2 * start_gap / (lr * T) + 2 * p_max * (SPREAD * RELATIVE * start_momentum) ** 2 / ((1 - beta1) * T)
NOISE_TERM = RELATIVE * p_max * noise**2 / N
MOMENTUM_TERM = 2 * p_max * (SPREAD * RELATIVE * noise) ** 2 / N
COMPRESSION_TERM = 2 * p_max * (RELATIVE * error_bound / (1 - beta1)) ** 2

P_RANGE = (
    Hypothesis("preconditioner_nonnegative", ForAll(((k, D),), le(0, preconditioner[k])), "P is not negative"),
    Hypothesis("preconditioner_bounded", ForAll(((k, D),), le(preconditioner[k], p_max)), "P is at most p_max"),
)
ERRORS_BOUNDED = Hypothesis(
    "error_bounded",
    ForAll(((t, T),), le(ds.expect(ds.squares(total_error[t, ds.w, k])), error_bound**2)),
    "the mean square of the total error is bounded: T5 proves it of bounded gradients, T13a needs no such assumption",
)
START_MOMENTUM = Hypothesis(
    "momentum_at_start",
    le(ds.expect(ds.squares(momentum[0, ds.w, k])), start_momentum**2),
    "the mean square of the momentum at the freeze is bounded",
)
STABLE = Hypothesis(
    "step_size", lt(0, COEFFICIENT), "the learning rate is so small that this, the divisor of the bound, is positive"
)
HYPOTHESES = (
    ds.NONNEGATIVE_WEIGHTS,
    ds.TOTAL_WEIGHT,
    ds.DESCENT,
    ds.LIPSCHITZ,
    ds.BOUNDED_BELOW,
    *P_RANGE,
    ds.VIRTUAL,
    ds.CONSERVATION,
    ds.STEP,
    ds.UNBIASED,
    ds.KNOWN_PARAMS,
    ds.KNOWN_VIRTUAL,
    ds.NOISE,
    ERRORS_BOUNDED,
    ds.START_GAP,
    START_MOMENTUM,
)
"""Everything that T6a and its corollaries assume, but for the step size."""


def example() -> Example:
    """The run of :mod:`theory.convergence_run`."""
    return instance(THEOREM, "two workers with noise, two compressed steps, all outcomes", run_of(THEOREM, lr=0.0625))


THEOREM = Theorem(
    id="T6a",
    title="Convergence, smooth non-convex: rate with explicit constants",
    conclusion=le(MEAN_SQUARE, (START + NOISE_TERM + MOMENTUM_TERM + COMPRESSION_TERM) / COEFFICIENT),
    hypotheses=(*HYPOTHESES, STABLE),
    words="At a learning rate within the hypothesis step_size, the mean of E‖∇f(x_t)‖²_P over T compressed steps is at "
    "most an initial gap over γT, a noise term of order γσ²/N, momentum terms of order γ²σ²/N and γ²/T and a "
    "compression term of order γ²E_Δ²: where errors are bounded, compression costs a second-order term only.",
    good_for="It says how small the learning rate must be for a given accuracy, and what compression costs.",
    source="ours; the published Theorem 1 (arXiv 2102.02888) has the same shape, see T6c",
    where=ds.SPACE_ROWS,
    example=example,
    laws=("L1", "L2"),
    remarks="Gradients may differ between workers: only their mean enters, and heterogeneity is paid through E_Δ. "
    "Weight decay and a changing γ are outside: T6k has falling rates, bias correction among them, and T6l weight "
    "decay at a constant rate. ‖∇f‖² ≤ ‖∇f‖²_P/p_min "
    "gives Euclidean norms. The step size must be of order (1-β1)/(β1 L p_max), and a variance floor bounds p_max. "
    "The probability space is finite, as a computer's is.",
)
