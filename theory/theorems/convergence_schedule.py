"""T6k, T6l: T6a under a learning rate that falls, and with decoupled weight decay.

A schedule: y is taken with the *averaged rate*, the exponential average of the rates of the coming steps. The momentum
then costs nothing, whatever the schedule; what a change of rate costs is the change times the residual error, because
1-bit Adam keeps its errors in units of the gradient. Bias correction [C5] is such a schedule.

Weight decay: with P frozen it is exactly the gradient, times P, of half lambda ||x||^2 in the norm of 1/P, so the step
is one on this regularised function. Unlike the gradient it bypasses momentum and compression; this is a perturbation
of second order in the learning rate, and it needs a bound on the parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from theory import convergence_run as cr
from theory import descent as ds
from theory.descent import expect, mean_over_steps, slope, squares, start_gap, start_momentum
from theory.formula import ForAll, array, eq, le, lt, total
from theory.notation import (
    D,
    N,
    Row,
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
    weight_decay,
)
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.convergence_nonconvex import ERRORS_BOUNDED, P_RANGE, START_MOMENTUM
from theory.witness import instance

learning_rates, averaged_rates = array("learning_rates"), array("averaged_rates")
param_bound = sp.Symbol("param_bound", nonnegative=True)
KEEP = 1 - beta1
GAMMA, ETA, NEXT = learning_rates, averaged_rates[t], averaged_rates[t + 1]
P = preconditioner[k]

SCHEDULE = (
    Hypothesis("rates_positive", ForAll(((t, T + 1),), lt(0, GAMMA[t])), "every learning rate is positive"),
    Hypothesis("rates_fall", ForAll(((t, T),), le(GAMMA[t + 1], GAMMA[t])), "no learning rate exceeds the one before"),
    Hypothesis(
        "rates_averaged",
        ForAll(((t, T),), eq(ETA, KEEP * GAMMA[t] + beta1 * NEXT)),
        "the averaged rate is the exponential average of the rates of this step and the coming ones",
    ),
    Hypothesis("averaged_at_end", eq(averaged_rates[T], GAMMA[T]), "after the run the rate stays as it is"),
)
SCHEDULED_VIRTUAL = Hypothesis(
    "virtual_point",
    ForAll(
        ((t, T + 1), (ds.w, ds.n_outcomes), (k, D)),
        eq(
            virtual_iterate[t, ds.w, k],
            params[t, ds.w, k] - ETA / KEEP * P * (beta1 * momentum[t, ds.w, k] + total_error[t, ds.w, k]),
        ),
    ),
    "y is x with the whole residual applied, at the averaged rate",
)
SCHEDULED_STEP = Hypothesis(
    "step_taken",
    ds.everywhere(eq(params[t + 1, ds.w, k], params[t, ds.w, k] - GAMMA[t] * P * momentum[t + 1, ds.w, k]), (k, D)),
    "the parameters move by the preconditioned new momentum times this step's rate; no weight decay",
)
SCHEDULED_ERRORS = Hypothesis(
    "error_bounded",
    ForAll(((t, T + 1),), le(expect(squares(total_error[t, ds.w, k])), error_bound**2)),
    "the mean square of the total error is bounded; T5 has such bounds, in which the learning rate does not occur",
)
LARGEST = GAMMA[0] * smoothness * p_max
SCHEDULED_COEFFICIENT = 1 - (2 * GAMMA[0] - GAMMA[T]) * smoothness * p_max - 2 * (beta1 / KEEP * LARGEST) ** 2
SCHEDULED_START = (
    2 * start_gap + 2 * p_max**3 * (beta1 * smoothness * start_momentum) ** 2 * (averaged_rates[0] / KEEP) ** 3
)
SCHEDULED_NOISE = smoothness * (p_max * noise) ** 2 / N * total(ETA * (2 * ETA - NEXT), t, T)
SECOND_ORDER = (
    2 * p_max**3 * (smoothness / KEEP) ** 2 * (error_bound**2 + (beta1 * noise) ** 2 / N) * total(ETA**3, t, T)
)
CHANGE_OF_RATE = (
    p_max
    * (error_bound / KEEP) ** 2
    * total((ETA - NEXT) * ((ETA - NEXT) / ETA + smoothness * p_max * (2 * ETA - NEXT)), t, T)
)
ALL_RATES = total(ETA, t, T)
WEIGHTED = total(ETA * expect(total(P * slope(params[t, ds.w]) ** 2, k, D)), t, T) / ALL_RATES

DECAYED_RELATIVE = lr * (smoothness * p_max + weight_decay)
REGULARISED_SLOPE = slope(params[t, ds.w]) + weight_decay * params[t, ds.w, k] / P
DECAYED_COEFFICIENT = 1 - DECAYED_RELATIVE - 4 * (beta1 / KEEP * DECAYED_RELATIVE) ** 2
DECAYED_BOUND = (
    2 * start_gap / (lr * T)
    + 2 * p_max * (beta1 * DECAYED_RELATIVE * start_momentum) ** 2 / (KEEP**3 * T)
    + DECAYED_RELATIVE * p_max * noise**2 / N
    + 2
    * (DECAYED_RELATIVE / KEEP) ** 2
    * (p_max * error_bound**2 + beta1**2 * (p_max * noise**2 / N + 2 * (weight_decay * param_bound) ** 2))
)
POSITIVE_P = Hypothesis("preconditioner_positive", ForAll(((k, D),), lt(0, P)), "P is positive")
DECAYED_STEP = Hypothesis(
    "step_taken",
    ds.everywhere(
        eq(
            params[t + 1, ds.w, k],
            params[t, ds.w, k] - lr * (P * momentum[t + 1, ds.w, k] + weight_decay * params[t, ds.w, k]),
        ),
        (k, D),
    ),
    "the parameters move by the preconditioned new momentum and decay; constant learning rate",
)
PARAMS_BOUNDED = Hypothesis(
    "params_bounded",
    ForAll(((t, T),), le(expect(total(params[t, ds.w, k] ** 2 / P, k, D)), param_bound**2)),
    "the mean square of the parameters, in the norm of 1/P, is bounded along the run",
)
DECAYED_BELOW = Hypothesis(
    "bounded_below",
    ForAll((ds.point,), le(ds.lowest, ds.objective(ds.point) + weight_decay / 2 * total(ds.point[k] ** 2 / P, k, D))),
    "the regularised function is at least f*, a bound of its own",
)
DECAYED_GAP = Hypothesis(
    "gap_at_start",
    le(
        expect(
            ds.objective(virtual_iterate[0, ds.w])
            + weight_decay / 2 * total(virtual_iterate[0, ds.w, k] ** 2 / P, k, D)
        )
        - ds.lowest,
        start_gap,
    ),
    "at the freeze the expected gap of the regularised function at the virtual iterate is at most this",
)
KNOWN = (ds.UNBIASED, ds.KNOWN_PARAMS, ds.KNOWN_VIRTUAL, ds.NOISE)


def run(rates: Any, decay: float) -> dict[str, Any]:
    """The run of :mod:`theory.convergence_run` with a rate for each step, one more for what follows, and decay."""
    base, steps = cr.run(0.0), cr.STEPS
    averaged = np.array(rates, dtype=float)
    for step in range(steps - 1, -1, -1):
        averaged[step] = (1 - cr.BETA1) * rates[step] + cr.BETA1 * averaged[step + 1]
    x, m, b, delta = (np.zeros_like(base[name]) for name in ("params", "momentum", "server_error", "worker_errors"))
    h = np.zeros_like(base["mean_grad"])
    x[0], m[0] = base["params"][0], base["momentum"][0]
    for step in range(steps):
        grads = (cr.CURVATURE_D * x[step])[:, None] + cr.SHIFT_ND + cr.tosses()[step][..., None] * cr.NOISE_D
        u = cr.BETA1 * m[step][:, None] + (1 - cr.BETA1) * grads + delta[step]
        delta[step + 1] = u - cr.compressed(u)
        received = cr.compressed(u).mean(1) + b[step]
        m[step + 1] = cr.compressed(received)
        b[step + 1], h[step] = received - m[step + 1], grads.mean(1)
        x[step + 1] = x[step] - rates[step] * (cr.P_D * m[step + 1] + decay * x[step])
    error = delta.mean(2) + b
    y = x - averaged[:, None, None] / (1 - cr.BETA1) * cr.P_D * (cr.BETA1 * m + error)
    regularised = cr.objective(y[0, 0]) + decay / 2 * float((y[0, 0] ** 2 / cr.P_D).sum())
    return base | {
        "learning_rates": rates, "averaged_rates": averaged, "lr": rates[0], "weight_decay": decay,
        "params": x, "momentum": m, "total_error": error, "mean_grad": h, "virtual_iterate": y,
        "start_gap": regularised, "error_bound": cr.above(np.sqrt((error**2).sum(2).mean(1).max())),
        "param_bound": cr.above(np.sqrt((x**2 / cr.P_D).sum(2).mean(1).max())),
    }  # fmt: skip


def _of(theorem: Theorem, rates: Any, decay: float = 0.0) -> dict[str, Any]:
    values = run(rates, decay)
    return {row.code: values[row.code] for row in theorem.variables}


def scheduled_example() -> Example:
    """Learning rates that fall by a half."""
    return instance(RATE, "two workers with noise, falling rates, all outcomes", _of(RATE, [0.0625, 0.03125, 0.015625]))


def decayed_example() -> Example:
    """A constant learning rate and decay."""
    return instance(DECAY, "two workers with noise, weight decay, all outcomes", _of(DECAY, [0.0625] * 3, 0.25))


ROWS = (
    *ds.SPACE_ROWS,
    Row(learning_rates, r"\gamma", "learning rate of each step, and one more for what follows", "(T + 1,)"),
    Row(averaged_rates, r"\eta", "exponential average of the rates of this step and the coming ones", "(T + 1,)"),
    Row(param_bound, "X", "root of the bound on E ||x||^2 in the norm of 1/P", default=1.0),
)

RATE = Theorem(
    id="T6k",
    title="Convergence, smooth non-convex, under a falling learning rate",
    conclusion=le(
        WEIGHTED,
        (SCHEDULED_START + SCHEDULED_NOISE + SECOND_ORDER + CHANGE_OF_RATE) / (SCHEDULED_COEFFICIENT * ALL_RATES),
    ),
    hypotheses=(
        ds.NONNEGATIVE_WEIGHTS,
        ds.TOTAL_WEIGHT,
        ds.DESCENT,
        ds.LIPSCHITZ,
        ds.BOUNDED_BELOW,
        *P_RANGE,
        *SCHEDULE,
        SCHEDULED_VIRTUAL,
        ds.CONSERVATION,
        SCHEDULED_STEP,
        *KNOWN,
        SCHEDULED_ERRORS,
        ds.START_GAP,
        START_MOMENTUM,
        Hypothesis(
            "step_size",
            lt(0, SCHEDULED_COEFFICIENT),
            "the first learning rate is so small that this, a factor of the bound's divisor, is positive",
        ),
    ),
    words="Under positive learning rates that never grow, the first of them within the hypothesis step_size, T6a holds "
    "with each step weighted by its averaged rate. A schedule costs terms of its own, which are E_Δ² times the "
    "squares of the relative changes of the rate, weighted alike, and E_Δ² times a term of the order of the squared "
    "first rate that does not grow with T. With a constant rate they are zero and T6a's bound remains.",
    good_for="It covers step decay, cosine and root schedules and bias correction; it prices a change of rate.",
    source="ours; the virtual iterate with averaged rates is ours too, T3k has the one with the current rate",
    where=ROWS,
    example=scheduled_example,
    laws=("L1", "C5"),
    remarks="The rate of the step after the last is free: take the last one again. The averaged rate lies between that "
    "one and the rate of the step; it is the rate, up to a horizon of one over 1-β1 steps. The average is over x_t "
    "drawn with these weights, not over steps alike. A term for changes is needed (without it a run with a "
    "residual when the rate drops exceeds the bound), but for one large drop it is generous: it counts γ E_Δ² whatever "
    "γ L. Bias correction [C5] is the rate lr/(1-β1^t), which falls where lr does. Rates that grow (a warm-up after "
    "the freeze) are outside; weight decay is in T6l. E_Δ is assumed, as in T6a.",
)

DECAY = Theorem(
    id="T6l",
    title="Convergence, smooth non-convex, with decoupled weight decay",
    conclusion=le(
        mean_over_steps(expect(total(P * REGULARISED_SLOPE**2, k, D))),
        DECAYED_BOUND / DECAYED_COEFFICIENT,
    ),
    hypotheses=(
        ds.NONNEGATIVE_WEIGHTS,
        ds.TOTAL_WEIGHT,
        ds.DESCENT,
        ds.LIPSCHITZ,
        DECAYED_BELOW,
        POSITIVE_P,
        P_RANGE[1],
        ds.VIRTUAL,
        ds.CONSERVATION,
        DECAYED_STEP,
        *KNOWN,
        ERRORS_BOUNDED,
        PARAMS_BOUNDED,
        DECAYED_GAP,
        START_MOMENTUM,
        Hypothesis(
            "step_size",
            lt(0, DECAYED_COEFFICIENT),
            "the learning rate is so small that this, the divisor of the bound, is positive",
        ),
    ),
    words="With decoupled weight decay λ and a learning rate within the hypothesis step_size, the mean squared "
    "gradient of f plus half of λ‖x‖² in the norm of the inverse of P falls at T6a's rate with L p_max + λ for L "
    "p_max; that the decay bypasses the momentum adds a term of order γ²λ²X², X bounding the parameters.",
    good_for="Says whose stationary points 1-bit Adam with weight decay approaches, and that the price is of second "
    "order.",
    source="ours",
    where=ROWS,
    example=decayed_example,
    laws=("L1",),
    remarks="The regularised function is exact because P is frozen; its weights are λ times the inverse of P, so "
    "coordinates of large variance decay more, as in AdamW. The bound X on the parameters is assumed, not proved; it "
    "enters in second order only. Constant learning rate: with a schedule the decay of a step follows its own rate "
    "while the gradient follows the averaged one, which this proof does not join. For λ = 0 this is T6a with a four "
    "for a two in the step size condition. Coordinates that are dead at the freeze [C6] have P = 0 and do not move: D "
    "counts the live ones.",
)

THEOREMS = (RATE, DECAY)
