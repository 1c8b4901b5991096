"""T6e: 1-bit Adam on smooth, (strongly) convex functions: the distance to the minimiser, in the P^-1 norm.

Problem:   min f, f L-smooth and mu-strongly convex.
Guarantee: E W_{T+1} <= (1 - gamma mu p_min/2)^T W_1 + floor with W = ||y - x*||^2_{P^-1} + omega ||P a||^2.

The distance of y obeys ||y' - x*||^2_{P^-1} = ||y - x*||^2_{P^-1} - 2 gamma <gbar, y - x*> + gamma^2 ||gbar||_P^2:
P^-1 is the geometry in which the preconditioner disappears from the cross term.
"""

from __future__ import annotations

import sympy as sp

from theory import descent as ds
from theory.algebra import substitute
from theory.descent import average, error_bound, p, p_max, p_min, start_momentum
from theory.notation import N, T, beta1, in_odds, lr, noise, smoothness
from theory.theorem import Example, Link, Status, Theorem, WrongVariant
from theory.theorems.convergence_nonconvex import HYPOTHESES

mu = sp.Symbol("mu", positive=True)
distance = sp.Symbol("D", nonnegative=True)  # ||y - x*||^2_{P^-1}
start_distance = sp.Symbol("D_1", positive=True)
gap_x = sp.Symbol("F_x", nonnegative=True)  # f(x) - f*
room = sp.Symbol("omega_r", nonnegative=True)
memory_left = sp.Symbol("h", positive=True)  # 1 - beta1 - gamma mu p_min/2
SHRINK = lr * mu * p_min / 2
OMEGA = 2 * lr**3 * (2 * smoothness + mu) * beta1**2 / ((1 - beta1) ** 2 * memory_left)
FLOOR_PER_STEP = (
    lr**2 * p_max * noise**2 / N
    + 2 * lr**3 * (2 * smoothness + mu) * p_max**2 * error_bound**2 / (1 - beta1) ** 2
    + OMEGA * (1 - beta1) * p_max**2 * noise**2 / N
)


def one_step_link(bias: int = 2, omega: sp.Expr = OMEGA, floor: sp.Expr = FLOOR_PER_STEP) -> Link:
    """E W' <= (1 - gamma mu p_min/2) W + floor; ``bias`` is the constant in front of L ||x-y||^2."""
    grad_sq = 2 * smoothness * gap_x  # ||grad f(x)||^2 <= 2 L (f(x) - f*)
    apart = ds.one_step().distance
    after = (
        (1 - SHRINK) * distance
        - lr * gap_x
        + lr * (bias * smoothness + mu) * apart
        + lr**2 * p_max * (grad_sq + noise**2 / N)
    )
    next_average = beta1 * average + (1 - beta1) * p_max**2 * (grad_sq + noise**2 / N)
    # Hypothesis, step size: gamma (1 - 2 gamma L p_max) - 2 L omega (1 - beta1) p_max^2 = room >= 0.
    unused = lr * (1 - 2 * lr * smoothness * p_max) - 2 * smoothness * omega * (1 - beta1) * p_max**2
    after = after + omega * next_average + (unused - room) * gap_x
    before = (1 - SHRINK) * (distance + omega * average) + floor
    memory = {p_min: 2 * (1 - beta1 - memory_left) / (lr * mu)}
    return Link(
        "one step: E W_{t+1} <= (1 - gamma mu p_min/2) W_t + floor",
        in_odds(substitute(after, memory)),
        in_odds(substitute(before, memory)),
        slack=(room * gap_x,),
    )


def proof(kept: int = 1) -> tuple[Link, ...]:
    """Lemmas, the cross term, one step."""
    y, x, g = sp.symbols("y_d x_d g", real=True)  # y - x*, x - x*, gradient
    ell = smoothness
    q, extra = sp.symbols("p_1 p_2", positive=True)
    steps, start, floor, rho = sp.symbols("n W_1 k rho", positive=True)
    return (
        *ds.distance_lemma(),
        Link(
            "P^-1 geometry: (y - gamma p g)^2/p = y^2/p - 2 gamma g y + gamma^2 p g^2",
            (y - lr * p * g) ** 2 / p,
            y**2 / p - 2 * lr * g * y + lr**2 * p * g**2,
        ),
        Link(
            "Young: -2 g (y-x) <= g^2/(2L) + 2 L (y-x)^2, and g^2/(2L) <= f(x) - f*",
            -2 * g * (y - x),
            g**2 / (2 * ell) + 2 * ell * (y - x) ** 2,
            slack=((g + 2 * ell * (y - x)) ** 2 / (2 * ell),),
        ),
        Link(
            "strong convexity at x, moved to y: -mu x^2 <= -mu y^2/2 + mu (y-x)^2",
            -mu * x**2,
            -mu * sp.Rational(kept, 2) * y**2 + mu * (y - x) ** 2,
            slack=(mu * (2 * x - y) ** 2 / 2,),
        ),
        Link(
            "P^-1 <= 1/p_min: -y^2 <= -p_min y^2/p",
            -(y**2),
            -q * y**2 / (q + extra),
            slack=(extra * y**2 / (q + extra),),
        ),
        one_step_link(),
        Link(
            "geometric sum",
            rho * (rho**steps * start + floor * (1 - rho**steps) / (1 - rho)) + floor,
            rho ** (steps + 1) * start + floor * (1 - rho ** (steps + 1)) / (1 - rho),
        ),
    )


def bound(
    lr: float,
    beta1: float,
    n_workers: float,
    n_steps: float,
    smoothness: float,
    strong_convexity: float,
    noise: float,
    error_bound: float,
    start_distance: float,
    p_min: float,
    p_max: float,
    start_momentum: float = 0.0,
) -> float:
    """Bound of E||y - x*||^2_{P^-1} after ``n_steps`` compressed steps.

    Args:
        lr: step size.
        beta1: momentum constant.
        n_workers: N.
        n_steps: steps since the freeze.
        smoothness: L.
        strong_convexity: mu > 0.
        noise: sigma of one worker.
        error_bound: E_Delta.
        start_distance: ||y_1 - x*||^2_{P^-1} (a squared norm).
        p_min: least entry of the preconditioner.
        p_max: largest entry of the preconditioner.
        start_momentum: ||mbar|| at the freeze.

    Raises:
        ValueError: the step size is too large for the theorem.

    """
    shrink = lr * strong_convexity * p_min / 2
    left = 1 - beta1 - shrink
    if left <= 0:
        raise ValueError(f"lr = {lr:g} is too large: 1 - beta1 - lr mu p_min/2 = {left:.3g} <= 0")
    gain = 2 * lr**3 * (2 * smoothness + strong_convexity) / (1 - beta1) ** 2
    omega = gain * beta1**2 / left
    if lr * (1 - 2 * lr * smoothness * p_max) < 2 * smoothness * omega * (1 - beta1) * p_max**2:
        raise ValueError(f"lr = {lr:g} is too large: lr (1 - 2 lr L p_max) < 2 L omega (1 - beta1) p_max^2")
    variance = noise**2 / n_workers
    floor = lr**2 * p_max * variance + gain * (p_max * error_bound) ** 2 + omega * (1 - beta1) * p_max**2 * variance
    decay = (1 - shrink) ** n_steps
    first = start_distance + omega * (p_max * start_momentum) ** 2
    return decay * first + floor * ((1 - decay) / shrink if shrink else n_steps)


def example() -> Example:
    """Stationary SGD on x^2/2: E x^2 = gamma sigma^2/(2 - gamma)."""
    lr_ = 0.01
    return Example("stationary SGD on x²/2, γ = 0.01", lr_ / (2 - lr_), bound(lr_, 0.0, 1, 1e9, 1, 1, 1, 0, 0, 1, 1))


THEOREM = Theorem(
    id="T6e",
    title="Convergence, smooth strongly convex",
    words=(
        "On L-smooth μ-strongly convex functions ‖y-x*‖² in the P⁻¹ norm shrinks by 1-γμp_min/2 a step down to a floor"
        " of order γσ²/N plus γ²E_Δ²."
    ),
    statement=(
        sp.Le(
            sp.Symbol("W_{T+1}"),
            (1 - SHRINK) ** T * (start_distance + sp.Symbol("omega") * p_max**2 * start_momentum**2)
            + FLOOR_PER_STEP.subs(OMEGA, sp.Symbol("omega")) / SHRINK,
            evaluate=False,
        ),
        sp.Eq(sp.Symbol("omega"), OMEGA.subs(memory_left, 1 - beta1 - SHRINK), evaluate=False),
    ),
    hypotheses=(
        *HYPOTHESES,
        "f is μ-strongly convex: ⟨∇f(x), x-x*⟩ ≥ f(x)-f* + μ/2‖x-x*‖²; used with ‖∇f(x)‖² ≤ 2L(f(x)-f*)",
        "P_k ≥ p_min > 0, γμp_min/2 < 1-β1 and γ(1-2γLp_max) ≥ 2Lω(1-β1)p_max²",
    ),
    source="ours",
    status=Status.PROVED,
    proof=proof,
    bound=bound,
    example=example,
    wrong_variants=(
        WrongVariant("Young's 2L taken as L", lambda: not one_step_link(bias=1).holds()),
        WrongVariant(
            "strong convexity moved from x to y without loss",
            lambda: not all(link.holds() for link in proof(kept=2)),
        ),
        WrongVariant("ω halved", lambda: not one_step_link(omega=OMEGA / 2).holds()),
        WrongVariant(
            "a floor four times smaller: stationary SGD exceeds it", lambda: example().attained > example().bound / 4
        ),
    ),
    laws=("L2",),
    remarks=(
        "The rate is per step of y; x differs from y by the distance lemma. T12 gives the exact worst case"
        " without momentum and preconditioner."
    ),
)
