"""T6d: 1-bit Adam under the Polyak-Lojasiewicz inequality converges linearly to a neighbourhood.

Problem:   min f, f L-smooth with ||grad f||^2 >= 2 mu (f - f*), not necessarily convex.
Guarantee: E f(y_T) - f* <= (1 - gamma mu p_min)^T V_0 + floor, floor = O(gamma) noise + O(gamma^2) compression.
"""

from __future__ import annotations

from theory import descent as ds
from theory.convergence_run import of as run_of
from theory.descent import pl_constant, start_gap, start_momentum
from theory.formula import ForAll, le, lt
from theory.notation import (
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
from theory.theorems.convergence_nonconvex import HYPOTHESES, RELATIVE
from theory.witness import instance

KEEP = 1 - beta1
SHRINK = lr * pl_constant * p_min
MEMORY = KEEP - SHRINK
OMEGA = lr**3 * p_max * smoothness**2 * beta1**2 / (KEEP**2 * MEMORY)
FLOOR = (
    lr * p_max * (RELATIVE * error_bound / KEEP) ** 2
    + lr * RELATIVE * p_max * noise**2 / (2 * N)
    + OMEGA * KEEP * p_max**2 * noise**2 / N
)
"""What one step adds."""
DECAY = (1 - SHRINK) ** T
P_BELOW = Hypothesis("preconditioner_at_least", ForAll(((k, D),), le(p_min, preconditioner[k])), "P is at least p_min")
KEPT = tuple(item for item in HYPOTHESES if item.name not in ("bounded_below", "preconditioner_nonnegative"))
MEMORY_LEFT = Hypothesis("slower_than_momentum", lt(0, MEMORY), "the function is slower than the momentum")


def example() -> Example:
    """The run of :mod:`theory.convergence_run`."""
    return instance(THEOREM, "two workers with noise, two compressed steps, all outcomes", run_of(THEOREM, lr=0.0625))


THEOREM = Theorem(
    id="T6d",
    title="Convergence under the Polyak-Lojasiewicz inequality",
    conclusion=le(
        ds.expect(ds.objective(virtual_iterate[T, ds.w])) - ds.lowest,
        DECAY * (start_gap + OMEGA * p_max**2 * start_momentum**2) + FLOOR * (1 - DECAY) / SHRINK,
    ),
    hypotheses=(
        *KEPT,
        P_BELOW,
        Hypothesis(
            "polyak_lojasiewicz",
            ForAll(
                (ds.point,),
                le(2 * pl_constant * (ds.objective(ds.point) - ds.lowest), ds.squares(ds.slope(ds.point))),
            ),
            "the squared gradient is at least 2 mu times the gap (Polyak-Lojasiewicz)",
        ),
        MEMORY_LEFT,
        Hypothesis(
            "step_size",
            le(OMEGA * KEEP * p_max, lr / 2 * (1 - RELATIVE)),
            "the learning rate is so small that the left side, of third order in it, is at most the right one",
        ),
    ),
    words="Under the Polyak-Lojasiewicz inequality and at a learning rate within the hypothesis step_size, the "
    "expected gap of the virtual iterate shrinks by the factor {kept} a step, down to a neighbourhood of size O(γσ²/N) "
    "for the noise and O(γ²E_Δ²) for compression.",
    numbers={"kept": 1 - SHRINK},
    good_for="Bounds the loss at which a run at a constant step size stops; where there is noise, small steps make "
    "the part of compression the smaller one.",
    source="ours",
    where=(
        *ds.SPACE_ROWS,
        Row(pl_constant, r"\mu", "constant of the Polyak-Lojasiewicz inequality, or of strong convexity", default=0.1),
    ),
    example=example,
    laws=("L1", "L2"),
    remarks="At x instead of y: f(x) - f* is at most 2 (f(y) - f*) + L ||x-y||², and T6a's proof bounds ||x-y||². "
    "The compression floor falls as γ², that of the noise as γ. f* need not be attained.",
)
