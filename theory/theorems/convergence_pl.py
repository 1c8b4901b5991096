"""T6d: 1-bit Adam under the Polyak-Lojasiewicz inequality converges linearly to a neighbourhood.

Problem:   min f, f L-smooth with ||grad f||^2 >= 2 mu (f - f*), not necessarily convex.
Guarantee: E f(y_{T+1}) - f* <= (1 - gamma mu p_min)^T V_1 + floor, floor = O(gamma) noise + O(gamma^2) compression.
"""

from __future__ import annotations

import sympy as sp

from theory import descent as ds
from theory.algebra import substitute
from theory.descent import average, error_bound, gap, gap0, grad_x, p_max, p_min, start_momentum
from theory.notation import N, T, beta1, in_odds, lr, noise, smoothness
from theory.theorem import Example, Link, Status, Theorem, WrongVariant
from theory.theorems.convergence_nonconvex import HYPOTHESES

mu = sp.Symbol("mu", positive=True)
room, excess = sp.symbols("omega_r G_r", nonnegative=True)  # slacks of the two hypotheses used in the one-step link
rho = sp.Symbol("rho", positive=True)

SHRINK = lr * mu * p_min
# omega is tied to the memory it has to pay for: (1 - beta1 - gamma mu p_min) omega = that memory.
memory_left = sp.Symbol("h", positive=True)  # 1 - beta1 - gamma mu p_min > 0
OMEGA = lr**3 * p_max * smoothness**2 * beta1**2 / ((1 - beta1) ** 2 * memory_left)
FLOOR_PER_STEP = (
    lr**3 * smoothness**2 * p_max**3 * error_bound**2 / (1 - beta1) ** 2
    + smoothness * lr**2 * p_max**2 * noise**2 / (2 * N)
    + OMEGA * (1 - beta1) * p_max**2 * noise**2 / N
)


def one_step_link(pl_factor: int = 2, omega: sp.Expr = OMEGA, floor: sp.Expr = FLOOR_PER_STEP) -> Link:
    """E V_{t+1} <= (1 - gamma mu p_min) V_t + floor; the slack is the unused part of the two conditions."""
    bounds = ds.one_step()
    # Hypothesis, Polyak-Lojasiewicz at y: G_y >= p_min ||grad f(y)||^2 = 2 mu p_min F + excess.
    with_pl = substitute(ds.next_gap(), {ds.grad_y: pl_factor * mu * p_min * gap + excess})
    # Hypothesis, step size: gamma/2 (1 - L gamma p) - omega (1 - beta1) p = room >= 0.
    unused = lr / 2 * (1 - smoothness * lr * p_max) - omega * (1 - beta1) * p_max
    after = with_pl + omega * bounds.next_average + (unused - room) * grad_x
    before = (1 - SHRINK) * (gap + omega * average) + floor
    memory = {p_min: (1 - beta1 - memory_left) / (lr * mu)}  # the definition of h
    return Link(
        "one step: E V_{t+1} <= (1 - gamma mu p_min) V_t + floor",
        in_odds(substitute(after, memory)),
        in_odds(substitute(before, memory)),
        slack=(room * grad_x, lr / 2 * excess),
    )


def proof() -> tuple[Link, ...]:
    """Lemmas, one step, geometric sum, and the way back from y to x."""
    start, floor, steps = sp.symbols("V_1 k n", positive=True)
    h, ell = sp.Symbol("h_x", real=True), smoothness
    slope = sp.Symbol("g_y", real=True)
    return (
        *ds.distance_lemma(),
        *ds.smoothness_links(),
        one_step_link(),
        Link(
            "geometric sum: rho^n V_1 + floor (1 - rho^n)/(1-rho) is stable under V -> rho V + floor",
            rho * (rho**steps * start + floor * (1 - rho**steps) / (1 - rho)) + floor,
            rho ** (steps + 1) * start + floor * (1 - rho ** (steps + 1)) / (1 - rho),
        ),
        Link(
            "from y to x, Young: <grad f(y), x-y> <= ||grad f(y)||^2/(2L) + L ||x-y||^2/2, the first at most F",
            slope * h,
            slope**2 / (2 * ell) + ell * h**2 / 2,
            slack=((slope - ell * h) ** 2 / (2 * ell),),
        ),
    )


def bound(
    lr: float,
    beta1: float,
    n_workers: float,
    n_steps: float,
    smoothness: float,
    pl_constant: float,
    noise: float,
    error_bound: float,
    f0_minus_fstar: float,
    p_min: float,
    p_max: float,
    start_momentum: float = 0.0,
) -> float:
    """Bound of E f(y) - f* after ``n_steps`` compressed steps (y the virtual iterate; arguments as in T6a).

    Args:
        lr: step size.
        beta1: momentum constant.
        n_workers: N.
        n_steps: steps since the freeze.
        smoothness: L.
        pl_constant: mu with ||grad f||^2 >= 2 mu (f - f*).
        noise: sigma of one worker.
        error_bound: E_Delta.
        f0_minus_fstar: f(y_1) - f*.
        p_min: least entry of the preconditioner.
        p_max: largest entry of the preconditioner.
        start_momentum: ||mbar|| at the freeze.

    Raises:
        ValueError: the step size is too large for the theorem.

    """
    left = 1 - beta1 - lr * pl_constant * p_min
    relative = smoothness * lr * p_max
    if left <= 0:
        raise ValueError(f"lr = {lr:g} is too large: 1 - beta1 - lr mu p_min = {left:.3g} <= 0")
    omega = lr * relative**2 * beta1**2 / ((1 - beta1) ** 2 * left) / p_max
    if lr / 2 * (1 - relative) < omega * (1 - beta1) * p_max:
        raise ValueError(f"lr = {lr:g} is too large: lr/2 (1 - L lr p_max) < omega (1 - beta1) p_max")
    variance = noise**2 / n_workers
    floor = (
        lr * relative**2 * p_max * (error_bound / (1 - beta1)) ** 2
        + lr * relative * p_max * variance / 2
        + omega * (1 - beta1) * p_max**2 * variance
    )
    shrink = lr * pl_constant * p_min
    decay = (1 - shrink) ** n_steps
    return decay * (f0_minus_fstar + omega * p_max**2 * start_momentum**2) + floor * (1 - decay) / shrink


def example() -> Example:
    """SGD on x^2/2 at its stationary law: E f = gamma p sigma^2/(2 (2 - gamma p)) exactly."""
    lr_ = 0.01
    attained = lr_ / (2 * (2 - lr_))
    return Example("stationary SGD on x²/2, γ = 0.01", attained, bound(lr_, 0.0, 1, 1e9, 1, 1, 1, 0, 0, 1, 1))


THEOREM = Theorem(
    id="T6d",
    title="Convergence under the Polyak-Lojasiewicz inequality",
    words=(
        "With ‖∇f‖² ≥ 2μ(f-f*) the virtual iterate converges linearly, by 1-γμp_min a step, to a neighbourhood whose"
        " size is O(γσ²/N) for the noise and O(γ²E_Δ²) for compression."
    ),
    statement=(
        sp.Le(
            sp.Symbol("F_{T+1}"),
            (1 - SHRINK) ** T * (gap0 + sp.Symbol("omega") * p_max**2 * start_momentum**2)
            + FLOOR_PER_STEP.subs(OMEGA, sp.Symbol("omega")) / SHRINK,
            evaluate=False,
        ),
        sp.Eq(sp.Symbol("omega"), OMEGA.subs(memory_left, 1 - beta1 - SHRINK), evaluate=False),
    ),
    hypotheses=(
        *HYPOTHESES,
        "‖∇f(y)‖² ≥ 2μ(f(y) - f*) (Polyak-Lojasiewicz), and P_k ≥ p_min > 0",
        "γμp_min < 1-β1 and γ/2·(1 - Lγp_max) ≥ ω(1-β1)p_max",
    ),
    source="ours",
    status=Status.PROVED,
    proof=proof,
    bound=bound,
    example=example,
    wrong_variants=(
        WrongVariant("the inequality used with μ instead of 2μ", lambda: not one_step_link(pl_factor=1).holds()),
        WrongVariant("ω halved", lambda: not one_step_link(omega=OMEGA / 2, floor=FLOOR_PER_STEP).holds()),
        WrongVariant(
            "a floor without the noise that momentum remembers",
            lambda: not one_step_link(floor=FLOOR_PER_STEP - OMEGA * (1 - beta1) * p_max**2 * noise**2 / N).holds(),
        ),
        WrongVariant(
            "a noise floor four times smaller: stationary SGD exceeds it",
            lambda: example().attained > example().bound / 4,
        ),
    ),
    laws=("L2",),
    remarks=(
        "At x instead of y: f(x) - f* ≤ 2(f(y) - f*) + L‖x-y‖², and ‖x-y‖² is bounded by the distance lemma. Dropping"
        " γ over time removes both floors; the compression floor falls as γ², so it never decides the step size."
    ),
)
