"""T6h: the rate of the update form (C12), whose error term is free of the smallest variance.

``compress="update"`` compresses P m in place of m: the momentum, the errors and the noise are in units of the update,
and the parameters move by the shared update itself. P then multiplies no error. What is left of the smallest variance
is in the step-size condition, through p_max, and in the smoothness M of the gradient as P weighs it.
"""

from __future__ import annotations

from theory import descent as ds
from theory import error_feedback as ef
from theory.convergence_run import of as run_of
from theory.descent import MEAN_SQUARE, start_gap, start_momentum
from theory.error_feedback import smoothness_weighted
from theory.formula import ForAll, eq, le, lt
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
    params,
    preconditioner,
    smoothness,
    t,
    total_error,
    virtual_iterate,
)
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.convergence_nonconvex import ERRORS_BOUNDED, P_RANGE, SPREAD, START_MOMENTUM
from theory.witness import instance

KEEP = 1 - beta1
WEIGHTED = lr * smoothness_weighted
COEFFICIENT = 1 - lr * smoothness * p_max - 2 * p_max * (SPREAD * WEIGHTED) ** 2
START = 2 * start_gap / (lr * T) + 2 * (SPREAD * WEIGHTED * start_momentum) ** 2 / (KEEP * T)
NOISE = lr * smoothness * noise**2 / N + 2 * (SPREAD * WEIGHTED * noise) ** 2 / N
COMPRESSION = 2 * (WEIGHTED * error_bound / KEEP) ** 2
w = ds.w

CONSERVATION = Hypothesis(
    "conservation",
    ds.everywhere(
        eq(
            momentum[t + 1, w, k] + total_error[t + 1, w, k],
            beta1 * momentum[t, w, k] + (1 - beta1) * preconditioner[k] * ds.mean_grad[t, w, k] + total_error[t, w, k],
        ),
        (k, D),
    ),
    "law L1 with P g for g, whatever the compressors send",
)
STEP = Hypothesis(
    "step_taken",
    ds.everywhere(eq(params[t + 1, w, k], params[t, w, k] - lr * momentum[t + 1, w, k]), (k, D)),
    "the parameters move by the new shared update; constant learning rate, no weight decay",
)
VIRTUAL = Hypothesis(
    "virtual_point",
    ForAll(
        ((t, T + 1), (w, ds.n_outcomes), (k, D)),
        eq(
            virtual_iterate[t, w, k],
            params[t, w, k] - lr / (1 - beta1) * (beta1 * momentum[t, w, k] + total_error[t, w, k]),
        ),
    ),
    "y is x with the whole residual applied (law L2 with 1 for P)",
)
NOISE_LEVEL = Hypothesis(
    "noise_level",
    ForAll(
        ((t, T),),
        le(ds.expect(ds.squares(preconditioner[k] * (ds.mean_grad[t, w, k] - ds.slope(params[t, w])))), noise**2 / N),
    ),
    "the variance of the mean gradient, in units of the update, is at most sigma^2/N",
)


def example() -> Example:
    """The run of :mod:`theory.convergence_run`."""
    return instance(
        THEOREM, "two workers with noise, two compressed steps, all outcomes", run_of(THEOREM, lr=0.0625, update=True)
    )


THEOREM = Theorem(
    id="T6h",
    title="Convergence of the update form: an error term free of the smallest variance",
    conclusion=le(MEAN_SQUARE, (START + NOISE + COMPRESSION) / COEFFICIENT),
    hypotheses=(
        ds.NONNEGATIVE_WEIGHTS,
        ds.TOTAL_WEIGHT,
        ds.DESCENT,
        ds.LIPSCHITZ,
        ef.WEIGHTED_LIPSCHITZ,
        ds.BOUNDED_BELOW,
        *P_RANGE,
        VIRTUAL,
        CONSERVATION,
        STEP,
        ds.UNBIASED,
        ds.KNOWN_PARAMS,
        ds.KNOWN_VIRTUAL,
        NOISE_LEVEL,
        ERRORS_BOUNDED,
        ds.START_GAP,
        START_MOMENTUM,
        Hypothesis(
            "step_size",
            lt(0, COEFFICIENT),
            "the learning rate is so small that this, the divisor of the bound, is positive",
        ),
    ),
    words="Where P m is compressed and the learning rate is within the hypothesis step_size, T6a's rate holds with "
    "error, noise and momentum in units of the update: the compression term is of order γ²M²E_Δ², without any power "
    "of p_max beside what is in M.",
    good_for='Says what compress="update" buys where errors are bounded: the error, in units of the update, is '
    "multiplied by no power of the inverse of the smallest root of the variance.",
    source="ours",
    where=ef.ROWS,
    example=example,
    laws=("L1", "L2", "C12"),
    remarks="The gain over T6a in the compression term is p_max³ L² E²/(M² E_u²), E_u being the error in units of "
    "the update. M² ≤ p_max L² always, so it is at least p_max² E²/E_u². T5 bounds both errors by the same multiple "
    "of what goes in, the gradient g or P g: the gain is then p_max² ‖g‖²/‖P g‖², never below 1, and where g_k² is "
    "about v_k it is mean(v)/min(v), which is 1/κ at the variance floor κ and unbounded without a floor. M is itself "
    "free of p_max where the curvature falls with P, which is what a preconditioner is for. T13b does without the "
    "assumed error.",
)
