"""T6e: 1-bit Adam on smooth, strongly convex functions: the distance to the minimiser, in the P^-1 norm.

Problem:   min f, f L-smooth and mu-strongly convex, with minimiser x*.
Guarantee: E||y_T - x*||^2_{P^-1} <= (1 - gamma mu p_min/2)^T W_0 + floor.

The distance of y obeys ||y' - x*||^2_{P^-1} = ||y - x*||^2_{P^-1} - 2 gamma <gbar, y - x*> + gamma^2 ||gbar||_P^2:
P^-1 is the geometry in which the preconditioner disappears from the cross term.
"""

from __future__ import annotations

import sympy as sp

from theory import descent as ds
from theory.convergence_run import of as run_of
from theory.descent import pl_constant, start_momentum
from theory.formula import le, lt, total
from theory.notation import (
    POSITIVE,
    D,
    N,
    Row,
    T,
    beta1,
    error_bound,
    k,
    lr,
    noise,
    p_max,
    p_min,
    preconditioner,
    smoothness,
    virtual_iterate,
)
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.convergence_nonconvex import HYPOTHESES
from theory.theorems.convergence_pl import P_BELOW
from theory.theorems.curvature import CONVEX, CURVATURE_ROWS, minimiser
from theory.theorems.curvature import THEOREM as CURVATURE
from theory.witness import instance

start_distance = sp.Symbol("start_distance", positive=True)
KEEP = 1 - beta1
SHRINK = lr * pl_constant * p_min / 2
MEMORY = KEEP - SHRINK
GAIN = 2 * lr**3 * (2 * smoothness + pl_constant) / KEEP**2
OMEGA = GAIN * beta1**2 / MEMORY
FLOOR = lr**2 * p_max * noise**2 / N + GAIN * (p_max * error_bound) ** 2 + OMEGA * KEEP * p_max**2 * noise**2 / N
"""What one step adds."""
DECAY = (1 - SHRINK) ** T


def distance_squared(step: object) -> sp.Expr:
    """||y - x*||^2 in the norm of P^-1, at the outcome w."""
    return total((virtual_iterate[step, ds.w, k] - minimiser[k]) ** 2 / preconditioner[k], k, D)


DROPPED = ("weights_sum", "descent_inequality", "bounded_below", "preconditioner_nonnegative", "gap_at_start")


def example() -> Example:
    """The run of :mod:`theory.convergence_run`."""
    return instance(THEOREM, "two workers with noise, two compressed steps, all outcomes", run_of(THEOREM, lr=0.03125))


THEOREM = Theorem(
    id="T6e",
    title="Convergence, smooth strongly convex",
    conclusion=le(
        ds.expect(distance_squared(T)),
        DECAY * (start_distance + OMEGA * p_max**2 * start_momentum**2) + FLOOR * (1 - DECAY) / SHRINK,
    ),
    hypotheses=(
        *(item for item in HYPOTHESES if item.name not in DROPPED),
        P_BELOW,
        *CONVEX,
        Hypothesis(
            "distance_at_start",
            le(ds.expect(distance_squared(0)), start_distance),
            "at the freeze the expected squared distance of the virtual iterate from the minimiser is at most this",
        ),
        Hypothesis("slower_than_momentum", lt(0, MEMORY), "the function is slower than the momentum"),
        Hypothesis(
            "step_size",
            le(2 * smoothness * OMEGA * KEEP * p_max**2, lr * (1 - 2 * lr * smoothness * p_max)),
            "the learning rate is so small that the left side, of third order in it, is at most the right one",
        ),
    ),
    implied=(CURVATURE,),
    words="On smooth strongly convex functions and at a learning rate within the hypothesis step_size, the expected "
    "squared distance of the virtual iterate from the minimiser, in the norm of the inverse of P, shrinks by the "
    "factor {kept} a step, down to a floor of order γσ²/N for the noise plus γ²E_Δ² for compression.",
    numbers={"kept": 1 - SHRINK},
    good_for="Bounds the distance to the solution itself, not only the loss.",
    source="ours",
    where=(
        *ds.SPACE_ROWS,
        *CURVATURE_ROWS,
        Row(
            start_distance,
            "R_0",
            "bound on E ||y - x*||^2 in the norm of P^-1 at the freeze",
            domain=POSITIVE,
            default=1,
        ),
    ),
    example=example,
    laws=("L1", "L2"),
    remarks="The rate is per step of y; T6a's proof bounds how far x is from y. T12 has a rate that its example "
    "attains, without momentum and preconditioner.",
)
