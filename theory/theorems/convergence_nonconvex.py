"""T6a: the rate of 1-bit Adam on smooth non-convex functions, from L2, with every constant explicit.

Problem:   min f, f L-smooth, bounded below by f*.
Algorithm: the compressed phase of 1-bit Adam, t = 1 ... T counted from the freeze; P frozen.
Guarantee: (1/T) sum E||grad f(x_t)||_P^2 <= bound(T), with a step size in T6b.

The Lyapunov function is V_t = f(y_t) - f* + omega ||P a_{t-1}||^2 with a the average of past gradients; see
:mod:`theory.descent` for why x - y is one average of gradients plus one average of errors.
"""

from __future__ import annotations

import sympy as sp

from theory import descent as ds
from theory.descent import average, error_bound, gap, gap0, grad_x, grad_y, p_max, start_momentum
from theory.notation import N, T, beta1, in_odds, lr, noise, smoothness
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

HYPOTHESES = (
    "f is L-smooth and bounded below by f*",
    "E[ḡ_t | past] = ∇f(x_t) and E[‖ḡ_t - ∇f(x_t)‖² | past] ≤ σ²/N, e.g. independent unbiased workers of variance σ²",
    "P is frozen and diagonal with 0 < P_k ≤ p_max; constant γ, λ = 0, no bias correction (so that L2 applies)",
    "E‖Δ_t‖² ≤ E_Δ²: T5 proves it from bounded gradients where the compressor contracts (l1 always); else assumed",
)

OMEGA = lr**3 * p_max * smoothness**2 * beta1**2 / (1 - beta1) ** 3
COEFFICIENT = 1 - smoothness * lr * p_max - 2 * beta1**2 * lr**2 * smoothness**2 * p_max**2 / (1 - beta1) ** 2
PER_STEP = (
    smoothness * lr**2 * p_max**2 * noise**2 / (2 * N)
    + lr**3 * smoothness**2 * p_max**3 * (error_bound**2 + beta1**2 * noise**2 / N) / (1 - beta1) ** 2
)
GAIN = 2 * smoothness**2 * p_max**3 * error_bound**2 / (1 - beta1) ** 2
RATE = sp.Symbol("G_T")  # (1/T) sum of E||grad f(x_t)||_P^2


def lyapunov_link(omega: sp.Expr = OMEGA, coefficient: sp.Expr = COEFFICIENT, per_step: sp.Expr = PER_STEP) -> Link:
    """V_{t+1} <= V_t - gamma/2 c G_x + constant, with slack gamma/2 G_y: the heart of T6a."""
    bounds = ds.one_step()
    return Link(
        "one step: E V_{t+1} <= V_t - (gamma/2) c G_x + const, c = 1 - L gamma p - 2 (beta1 gamma L p/(1-beta1))^2",
        in_odds(ds.next_gap() + omega * bounds.next_average),
        in_odds(gap + omega * average - lr / 2 * coefficient * grad_x + per_step),
        slack=(lr / 2 * grad_y,),
    )


def proof_rate() -> tuple[Link, ...]:
    """T6a: lemmas, one step, sum of T steps."""
    total, last, steps = sp.symbols("Sigma_G V_T n", nonnegative=True)
    c = sp.Symbol("c", positive=True)
    first = sp.Symbol("V_1", nonnegative=True)
    const = sp.Symbol("k_V", nonnegative=True)
    return (
        *ds.distance_lemma(),
        *ds.smoothness_links(),
        lyapunov_link(),
        Link(
            "induction over steps: V_1 + n const - (gamma/2) c Sigma absorbs one more step",
            (first + steps * const - lr * c / 2 * total) + const - lr * c / 2 * grad_x,
            first + (steps + 1) * const - lr * c / 2 * (total + grad_x),
        ),
        Link(
            "so the mean of G_x over T steps is at most 2 (V_1/T + const)/(gamma c), as V is never negative",
            2 * (first + T * const - last) / (lr * c) / T,
            2 * (first / T + const) / (lr * c),
            slack=(2 * last / (lr * c * T),),
        ),
    )


def step_condition(lr: float, beta1: float, smoothness: float, p_max: float) -> float:
    """c = 1 - L gamma p_max - 2 (beta1 gamma L p_max/(1-beta1))^2; T6a needs it positive."""
    relative = smoothness * lr * p_max
    return 1 - relative - 2 * (beta1 * relative / (1 - beta1)) ** 2


def bound_rate(
    lr: float,
    beta1: float,
    n_workers: float,
    n_steps: float,
    smoothness: float,
    noise: float,
    error_bound: float,
    f0_minus_fstar: float,
    p_max: float,
    start_momentum: float = 0.0,
) -> float:
    """Bound of (1/T) sum_{t<=T} E||grad f(x_t)||_P^2, steps counted from the freeze.

    Args:
        lr: step size gamma.
        beta1: momentum constant.
        n_workers: N.
        n_steps: T.
        smoothness: L.
        noise: sigma, root of one worker's gradient variance (summed over coordinates).
        error_bound: E_Delta, root of the bound of E||Delta||^2.
        f0_minus_fstar: f(y_1) - f*, at the virtual iterate y_1 = x - gamma beta1/(1-beta1) P mbar of the freeze.
        p_max: largest entry of the preconditioner.
        start_momentum: ||mbar|| at the freeze.

    Raises:
        ValueError: the step size is too large for the theorem.

    """
    c = step_condition(lr, beta1, smoothness, p_max)
    if c <= 0:
        raise ValueError(f"lr = {lr:g} is too large: 1 - L lr p_max - 2 (beta1 L lr p_max/(1-beta1))^2 = {c:.3g} <= 0")
    gain = smoothness**2 * p_max**3 / (1 - beta1) ** 2
    first = f0_minus_fstar + lr**3 * gain * beta1**2 * start_momentum**2 / (1 - beta1)
    variance = noise**2 / n_workers
    const = smoothness * lr**2 * p_max**2 * variance / 2 + lr**3 * gain * (error_bound**2 + beta1**2 * variance)
    return 2 * (first / n_steps + const) / (lr * c)


def example_rate() -> Example:
    """Constant slope g down to the foot, where f becomes the parabola of curvature L: L-smooth, f* = 0."""
    lr_, slope, steps = 0.01, 1.0, 2000
    start_gap = slope**2 / 2 + steps * lr_ * slope**2  # L = 1: parabola of height g^2/2, then T steps of height lr g^2
    position, total = steps * lr_ * slope + slope, 0.0
    for _ in range(steps):
        gradient = slope if position >= slope else position
        total += gradient**2
        position -= lr_ * gradient
    bound = bound_rate(lr_, 0.0, 1, steps, 1.0, 0.0, 0.0, start_gap, 1.0)
    return Example("gradient descent down a constant slope, 2000 steps of 0.01, L = p = 1", total / steps, bound)


THEOREM = Theorem(
    id="T6a",
    title="Convergence, smooth non-convex: rate with explicit constants",
    words=(
        "In the compressed phase the mean of E‖∇f(x_t)‖²_P over T steps is at most an initial gap over γT, a noise term"
        " of order γσ²/N, a momentum term of order γ²σ²/N and a compression term of order γ²E_Δ²: compression costs a"
        " second-order term only."
    ),
    statement=(
        sp.Le(
            COEFFICIENT * RATE,
            2 * (gap0 + sp.Symbol("omega") * p_max**2 * start_momentum**2) / (lr * T) + 2 * PER_STEP / lr,
            evaluate=False,
        ),
        sp.Eq(sp.Symbol("omega"), OMEGA, evaluate=False),
    ),
    hypotheses=HYPOTHESES,
    source="ours; the published Theorem 1 (arXiv 2102.02888) has the same shape, see T6c",
    status=Status.PROVED,
    proof=proof_rate,
    bound=bound_rate,
    example=example_rate,
    wrong_variants=(
        WrongVariant(
            "the compression term halved", lambda: not lyapunov_link(per_step=PER_STEP - GAIN * lr**3 / 4).holds()
        ),
        WrongVariant(
            "the momentum condition dropped from c",
            lambda: not lyapunov_link(coefficient=1 - smoothness * lr * p_max).holds(),
        ),
        WrongVariant(
            "omega without the third power of 1-β1", lambda: not lyapunov_link(omega=OMEGA * (1 - beta1)).holds()
        ),
        WrongVariant("Δ counted with the wrong sign in r", lambda: not ds.distance_lemma(sign=-1)[0].holds()),
        WrongVariant("Young with constant 1", lambda: not ds.distance_lemma(young=1)[3].holds()),
    ),
    laws=("L1", "L2"),
    remarks=(
        "Gradients may differ between workers: only the mean enters, heterogeneity is paid through E_Δ. Weight decay,"
        " a changing γ and bias correction are outside (L2 needs all three absent). ‖∇f‖² ≤ ‖∇f‖²_P/p_min gives"
        " Euclidean norms. c > 0 needs γ of order (1-β1)/(β1 L p_max), and a variance floor bounds p_max."
    ),
)
