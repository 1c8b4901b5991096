"""Lemmas that the convergence theorems T6a, T6d and T6e share: how far x is from the virtual iterate y (L2).

With r = beta1 mbar + Delta, law L2 reads x - y = gamma/(1-beta1) P r. The lemma behind all our rates is that r is a
momentum of gradients plus a momentum of errors, r_t = beta1 a_t + e_t, where a and e are exponential averages (weights
summing to one) of the mean gradients and of Delta. So nothing accumulates: compression moves x away from y by one
error, not by a sum of errors, whatever the compressor does.

Symbols are per coordinate; P is diagonal, so sums over coordinates keep every identity and inequality below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import sympy as sp

from theory.notation import N, T, beta1, in_odds, lr, mean_grad, noise, smoothness, total_error
from theory.theorem import Link

p_max = sp.Symbol("p_max", positive=True)
p_min = sp.Symbol("p_min", positive=True)
error_bound = sp.Symbol("E_Delta", nonnegative=True)
gap0 = sp.Symbol("F_1", positive=True)  # f(y_1) - f*
start_momentum = sp.Symbol("M_1", nonnegative=True)  # norm of the momentum at the freeze

# Expectations at one step. gap: f(y)-f*; grad_x, grad_y: squared P-norms of the gradient; average: ||P a||^2.
gap = sp.Symbol("F", nonnegative=True)
grad_x = sp.Symbol("G_x", nonnegative=True)
grad_y = sp.Symbol("G_y", nonnegative=True)
average = sp.Symbol("A", nonnegative=True)

p, room, spare = sp.symbols("p p_r s", nonnegative=True)  # p_max = p + room; spare: the slack of a hypothesis
a, e, r = sp.symbols("a e r", real=True)


@dataclass(frozen=True)
class Bounds:
    """Worst values of one step, as expressions in the symbols above."""

    distance: sp.Expr
    """E||x - y||^2 <= gamma^2/(1-beta1)^2 (2 beta1^2 A + 2 p_max^2 E_Delta^2)."""
    mean_grad_p: sp.Expr
    """E||P gbar||^2 <= p_max G_x + p_max^2 sigma^2/N."""
    next_average: sp.Expr
    """E||P a'||^2 <= beta1 A + (1-beta1) E||P gbar||^2."""


def one_step() -> Bounds:
    """The three bounds that every convergence proof starts from."""
    mean_grad_p = p_max * grad_x + p_max**2 * noise**2 / N
    distance = lr**2 / (1 - beta1) ** 2 * (2 * beta1**2 * average + 2 * p_max**2 * error_bound**2)
    return Bounds(distance, mean_grad_p, beta1 * average + (1 - beta1) * mean_grad_p)


def distance_lemma(sign: int = 1, young: int = 2) -> tuple[Link, ...]:
    """The links from L1 to the bounds of :func:`one_step`; ``sign`` and ``young`` exist to be set wrong by tests."""
    after = r + (1 - beta1) * mean_grad - total_error  # mbar_t by L1, with r = beta1 mbar_{t-1} + Delta_{t-1}
    worker = sp.Symbol("i", integer=True, positive=True)
    mean, half_width = sp.symbols("mu_g s_g", real=True)
    return (
        Link(
            "L1: r_t = beta1 mbar_t + Delta_t obeys r_t = beta1 r_{t-1} + (1-beta1)(beta1 gbar_t + Delta_t)",
            beta1 * after + sign * total_error,
            beta1 * r + (1 - beta1) * (beta1 * mean_grad + total_error),
        ),
        Link(
            "beta1 a + e obeys the same recursion when a and e average gbar and Delta; same start, so r = beta1 a + e",
            beta1 * (beta1 * a + (1 - beta1) * mean_grad) + (beta1 * e + (1 - beta1) * total_error),
            beta1 * (beta1 * a + e) + (1 - beta1) * (beta1 * mean_grad + total_error),
        ),
        Link(
            "Jensen for an average: a'^2 <= beta1 a^2 + (1-beta1) gbar^2, and so E||e||^2 <= E_Delta^2",
            in_odds((beta1 * a + (1 - beta1) * mean_grad) ** 2),
            in_odds(beta1 * a**2 + (1 - beta1) * mean_grad**2),
            slack=(in_odds(beta1 * (1 - beta1)) * (a - mean_grad) ** 2,),
        ),
        Link(
            "Young: (beta1 a + e)^2 <= 2 beta1^2 a^2 + 2 e^2",
            (beta1 * a + e) ** 2,
            young * (beta1 * a) ** 2 + young * e**2,
            slack=((beta1 * a - e) ** 2,),
        ),
        Link(
            "variance splits: E g^2 = (E g)^2 + Var g, on the two-point law, which is the general case by linearity",
            ((mean + half_width) ** 2 + (mean - half_width) ** 2) / 2,
            mean**2 + half_width**2,
        ),
        Link(
            "N independent workers: the variance of the mean is sigma^2/N",
            cast(sp.Expr, sp.Sum((noise / N) ** 2, (worker, 1, N)).doit()),
            noise**2 / N,
        ),
        Link(
            "P-geometry: p^2 (mean^2 + var) <= p_max (p mean^2) + p_max^2 var for p <= p_max",
            p**2 * (mean**2 + half_width**2),
            (p + room) * (p * mean**2) + (p + room) ** 2 * half_width**2,
            slack=(p * room * mean**2, (2 * p * room + room**2) * half_width**2),
        ),
    )


def smoothness_links() -> tuple[Link, ...]:
    """Descent lemma, polarization and the Lipschitz gradient in the P-norm."""
    step, tau = sp.symbols("h tau", real=True)
    gx, gy = sp.symbols("g_x g_y", real=True)
    change = sp.Symbol("c_g", real=True)
    return (
        Link(
            "descent lemma: the remainder of f(y+h) is at most the integral of L tau h^2 over [0, 1]",
            sp.sympify(sp.Integral(smoothness * tau * step**2, (tau, 0, 1)).doit()),
            smoothness / 2 * step**2,
        ),
        Link(
            "polarization: -<grad f(y), P grad f(x)> = -G_x/2 - G_y/2 + ||grad f(y) - grad f(x)||_P^2 / 2",
            -gy * p * gx,
            -p * gx**2 / 2 - p * gy**2 / 2 + p * (gy - gx) ** 2 / 2,
        ),
        Link(
            "||grad f(y) - grad f(x)||_P^2 <= p_max L^2 ||y - x||^2",
            p * change**2,
            (p + room) * (change**2 + spare),
            slack=(room * change**2, (p + room) * spare),
        ),
    )


def next_gap() -> sp.Expr:
    """Bound of E f(y_{t+1}) - f* before any Lyapunov function is chosen."""
    bounds = one_step()
    return (
        gap
        - lr / 2 * (grad_x + grad_y)
        + lr / 2 * p_max * smoothness**2 * bounds.distance
        + smoothness * lr**2 / 2 * bounds.mean_grad_p
    )


N_STEPS = T
"""Steps counted from the freeze."""
