"""T7f: one-bit feedback on a curved coordinate: bounded while gamma h P <= 1/2, for ever, whatever beta1.

A coordinate of curvature h whose share of the scale S is negligible obeys, in units X = x/(gamma P S) and
rho = (beta1 mbar + delta)/((1-beta1) S), with a = gamma h P and xi = (other gradient)/S:

    Q = sign(rho + a X + xi)      rho' = rho + a X + xi - Q      X' = X - Q

a one-bit sigma-delta loop in which beta1 has cancelled. |rho| <= 1 means that the loop is never overloaded.
"""

from __future__ import annotations

import numpy as np
import sympy as sp

from theory.notation import beta1, lr, momentum, preconditioner, total_error
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

curvature = sp.Symbol("h", positive=True)
other = sp.Symbol("b_g", real=True)  # gradient that does not come from this coordinate's own curvature
S = sp.Symbol("S", positive=True)
Q, X, rho, xi = sp.symbols("Q X rho xi", real=True)
a, a_room, xi_max = sp.symbols("a a_r xi_m", positive=True)
spare = sp.Symbol("s", nonnegative=True)
SAFE = 0.5


def stable_floor(lr: float, curvature: float, mean_variance: float) -> float:
    """kappa from which on gamma h P <= 1/2 on every coordinate: (2 gamma h)^2/mean(v).

    Args:
        lr: step size.
        curvature: h, largest second derivative along a coordinate.
        mean_variance: mean of the live v at the freeze.

    """
    return (2 * lr * curvature) ** 2 / mean_variance


def linear_threshold(beta1: float) -> float:
    """gamma h P at which the same recursion without compression loses stability: 2 (1+beta1)/(1-beta1)."""
    return 2 * (1 + beta1) / (1 - beta1)


def normalisation_links(momentum_share: int = 1) -> tuple[Link, ...]:
    """From Algorithm 1 to the loop above; beta1 cancels."""
    x, r = lr * preconditioner * S * X, (1 - beta1) * S * rho  # r = beta1 mbar + delta
    gradient = curvature * x + other
    u = r + momentum_share * (1 - beta1) * gradient  # u = beta1 mbar + (1-beta1) g + delta
    units = {a: lr * curvature * preconditioner, xi: other / S}
    new_r = beta1 * (S * Q) + (u - S * Q)  # mbar' = S Q and delta' = u - S Q
    return (
        Link("u is (1-beta1) S (rho + a X + xi)", u, (1 - beta1) * S * (rho + a * X + xi).subs(units)),
        Link(
            "beta1 mbar' + delta' is (1-beta1) S (rho + a X + xi - Q)",
            new_r,
            (1 - beta1) * S * (rho + a * X + xi - Q).subs(units),
        ),
        Link(
            "x' = x - gamma P S Q is gamma P S (X - Q)",
            x - lr * preconditioner * S * Q,
            lr * preconditioner * S * (X - Q),
        ),
        Link(
            "Y = X - rho is the virtual iterate y/(gamma P S) of L2",
            (x - lr / (1 - beta1) * preconditioner * (beta1 * momentum + total_error)).subs(
                total_error, r - beta1 * momentum
            ),
            lr * preconditioner * S * (X - rho),
        ),
    )


def invariance_links(safe: sp.Expr = sp.S.Half) -> tuple[Link, ...]:
    """|rho| <= 1 and |Y| <= Y_max = 1 + xi/a reproduce themselves when a + xi <= 1/2."""
    y_max = 1 + xi_max / a
    load = a * (y_max + 1) + xi_max  # worst |a X + xi|, X = Y + rho
    return (
        Link(
            "Y' = X' - rho' = (1-a) Y - a rho - xi",
            (X - Q) - (rho + a * X + xi - Q),
            ((1 - a) * (X - rho) - a * rho) - xi,
        ),
        Link("|Y| <= Y_max again: (1-a) Y_max + a + xi = Y_max, for a <= 1", (1 - a) * y_max + a + xi_max, y_max),
        Link(
            "the load |a X + xi| is at most 1 when a + xi = 1/2 - room, room >= 0",
            load.subs(xi_max, safe - a - a_room),
            sp.Integer(1),
            slack=(2 * a_room,),
        ),
        Link(
            "no overload: |rho'| = ||rho + load| - 1| <= 1, from above",
            ((1 + load - spare) - 1).subs(xi_max, safe - a - a_room),
            sp.Integer(1),
            slack=(2 * a_room, spare),
        ),
        Link("and where the bit overshoots: 1 - |rho + load| <= 1", 1 - spare, sp.Integer(1), slack=(spare,)),
        Link("amplitude: |X| <= Y_max + 1 = 2 + xi/a", y_max + 1, 2 + xi_max / a),
    )


def linear_links(beta1_power: int = 1) -> tuple[Link, ...]:
    """Without compression: z^2 - (1 + beta1 - (1-beta1) a) z + beta1 has the root -1 at a = 2 (1+beta1)/(1-beta1)."""
    z = sp.Integer(-1)
    edge = 2 * (1 + beta1**beta1_power) / (1 - beta1)
    return (
        Link(
            "frozen Adam without compression: eigenvalue -1 at gamma h P = 2 (1+beta1)/(1-beta1)",
            z**2 - (1 + beta1 - (1 - beta1) * edge) * z + beta1,
            sp.S.Zero,
        ),
    )


def simulate(
    gain: float, push: float, steps: int = 4000, start: tuple[float, float] = (2.0, 1.0)
) -> tuple[float, float]:
    """Largest |rho| and |X| over ``steps`` of the loop, with xi alternating slowly between +-push."""
    x, r = start
    top_r, top_x = abs(r), abs(x)
    for step in range(steps):
        inner = r + gain * x + push * (1 if (step // 37) % 2 else -1)
        bit = 1.0 if inner >= 0 else -1.0
        r, x = inner - bit, x - bit
        top_r, top_x = max(top_r, abs(r)), max(top_x, abs(x))
    return top_r, top_x


def invariant_in_simulation() -> bool:
    """a + xi = 1/2 on a grid, from the corner of the invariant set: |rho| <= 1 and |X| <= 2 + xi/a (one rounding)."""
    for gain in (0.05, 0.25, 0.5):
        push = SAFE - gain
        top_r, top_x = simulate(gain, push)
        if top_r > 1 + 1e-9 or top_x > 2 + push / gain + 1e-9:
            return False
    return True


def grows(gain: float, beta1_: float = 0.9, dim: int = 60, steps: int = 1500) -> bool:
    """Whether d coordinates that share their own l2 scale run away at ``gain`` = gamma h P (all curved, no noise)."""
    x = np.linspace(0.5, 1.5, dim)
    m, error = np.zeros(dim), np.zeros(dim)
    for _ in range(steps):
        u = beta1_ * m + (1 - beta1_) * gain * x + error
        m = np.sqrt(np.mean(u**2)) * np.where(u >= 0, 1.0, -1.0)
        error, x = u - m, x - m
        if np.max(np.abs(x)) > 1e6:
            return True
    return False


THEOREM = Theorem(
    id="T7f",
    title="Stability of the compressed phase on a curved coordinate",
    words=(
        "While γ·h·P_k + |b|/S ≤ 1/2 the compressed loop is never overloaded: the pending error stays within (1-β1)S"
        " and x within (2 + ξ/a)γP_kS, for ever and for every β1. A floor κ ≥ (2γh)²/mean(v) guarantees it on every"
        " coordinate; without compression the limit would be 2(1+β1)/(1-β1)."
    ),
    statement=(
        sp.Implies(sp.Le(a + xi_max, sp.S.Half), sp.Le(sp.Symbol("X_max"), 2 + xi_max / a), evaluate=False),
        sp.Eq(a, lr * curvature * preconditioner, evaluate=False),
    ),
    hypotheses=(
        "quadratic in the coordinate: its gradient is h·x + b, |b|/S ≤ ξ",
        "S constant in time: the coordinate's own share of the scale is negligible",
        "one compressor in a row (N = 1, or Δ treated as one error); start inside |ρ| ≤ 1, |Y| ≤ 1 + ξ/a",
    ),
    source="ours; the argument is the no-overload condition of one-bit sigma-delta modulators",
    status=Status.PROVED,
    proof=lambda: (*normalisation_links(), *invariance_links(), *linear_links()),
    bound=stable_floor,
    example=lambda: Example("a = 1/2, corner start: largest |X| against 2", simulate(0.5, 0.0)[1], 2.0),
    numeric_checks={"a + ξ = 1/2: simulated loops stay in the invariant set": invariant_in_simulation},
    wrong_variants=(
        WrongVariant("1 in place of 1/2", lambda: simulate(1.0, 0.0)[0] > 1.5),
        WrongVariant("g enters u without 1-β1", lambda: not normalisation_links(momentum_share=0)[0].holds()),
        WrongVariant("the linear limit with β1²", lambda: not linear_links(beta1_power=2)[0].holds()),
        WrongVariant(
            "stable for every curvature, as the loop's bit is always of the right sign: at γhP = 64 it runs away",
            lambda: grows(64.0) and not grows(SAFE),
        ),
    ),
    laws=("C7",),
    remarks=(
        "1/2 is sufficient, not necessary. When all coordinates are curved and share their scale, runs stay bounded up"
        " to about the linear limit (38 at β1 = 0.9) and diverge beyond it; a few curved coordinates among many stay"
        " bounded further out, since they hardly move S. It is not what breaks the published algorithm at κ = 0:"
        " measured at the freeze of the digits MLP, coordinates of tiny v have tiny curvature too, and γhP was below"
        " 0.03 on all of 1,500 sampled coordinates without any floor. What breaks it is the size of the jump (T7e),"
        " which leaves the region where the quadratic holds and wakes curvature elsewhere. With the largest sampled"
        " curvature, h = 0.1 at mean v = 3.7e-6, the sufficient floor is 1.1e-2."
    ),
)
