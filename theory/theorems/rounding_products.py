"""T11a: k rounding errors, multiplied or divided, amount to at most gamma_k."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from theory.rounding import gamma, unit_roundoff
from theory.symbolic import inequality
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

# k >= 0 roundings so far, and (k + 1) u < 1 made visible by u = 1/(k + 1 + z) with z > 0
k = sp.Symbol("k", integer=True, nonnegative=True)
j = sp.Symbol("j", integer=True, nonnegative=True)
z = sp.Symbol("z", positive=True)


def gamma_of(count: sp.Expr, roundoff: sp.Expr) -> sp.Expr:
    """gamma_count as an expression."""
    return count * roundoff / (1 - count * roundoff)


def proof() -> tuple[Link, ...]:
    """Induction on k (each new factor at its extreme), then products of products and the triangle inequality."""
    u = 1 / (k + 1 + z)
    now, after = gamma_of(k, u), gamma_of(k + 1, u)
    shared = 1 / (j + k + z)
    first, second, both = gamma_of(j, shared), gamma_of(k, shared), gamma_of(j + k, shared)
    a, b, f, g = sp.symbols("a b f g", nonnegative=True)
    bound = sp.Symbol("gamma_k", nonnegative=True)
    return (
        Link("base: no factor, no error", gamma_of(sp.Integer(0), u), sp.Integer(0)),
        inequality("step, upper side, factor 1 + u", (1 + now) * (1 + u), 1 + after),
        inequality("step, upper side, factor 1/(1 - u)", (1 + now) / (1 - u), 1 + after),
        inequality("step, lower side, factor 1 - u", 1 - after, (1 - now) * (1 - u)),
        inequality("step, lower side, factor 1/(1 + u)", 1 - after, (1 - now) / (1 + u)),
        inequality("two groups of factors", first + second + first * second, both),
        Link(
            "terms add up: a(gamma - f) + b(gamma - g) <= gamma (a + b)",
            a * (bound - f) + b * (bound - g),
            bound * (a + b),
            slack=(a * f, b * g),
        ),
    )


def bound(k: float = 3, dtype: str = "float32") -> float:
    """gamma_k."""
    return gamma(k, dtype)


def example() -> Example:
    """Three divisions by 1 - u, in float16 so that second-order terms show."""
    u = Fraction(unit_roundoff("float16"))
    return Example("(1 - u)^-3 - 1 in float16", float((1 - u) ** -3 - 1), gamma(3, "float16"))


def _power_exceeds(bound_of_k: sp.Expr, power: sp.Expr) -> bool:
    """Whether the claim ``power - 1 <= bound`` is rejected, as an inequality for all u and at u = 2^-8."""
    u = sp.Symbol("u", positive=True)
    claim = inequality("wrong", power - 1, bound_of_k)
    return not claim.holds() and bool((power - 1 - bound_of_k).subs(u, sp.Rational(1, 256)) > 0)


def _wrong_variants() -> tuple[WrongVariant, ...]:
    u = sp.Symbol("u", positive=True)
    return (
        WrongVariant("three factors 1 + u cost 3 u, no second-order term", lambda: _power_exceeds(3 * u, (1 + u) ** 3)),
        WrongVariant("half the constant", lambda: _power_exceeds(3 * u / (2 * (1 - 3 * u)), (1 + u) ** 3)),
        WrongVariant("a division costs no more than 1 + u", lambda: _power_exceeds((1 + u) ** 3 - 1, (1 - u) ** -3)),
        WrongVariant("k u/(1 + k u), a sign wrong", lambda: _power_exceeds(3 * u / (1 + 3 * u), (1 + u) ** 3)),
    )


_u, _theta, _count = sp.Symbol("upsilon", positive=True), sp.Symbol("theta_k", real=True), sp.Symbol("k", positive=True)

THEOREM = Theorem(
    id="T11a",
    title="Products of rounding errors",
    words="If abs(d_i) <= u and k u < 1, then prod (1 + d_i)^(+-1) = 1 + theta with abs(theta) <= k u/(1 - k u).",
    statement=(sp.Le(sp.Abs(_theta), gamma_of(_count, _u)),),
    hypotheses=("each abs(d_i) <= u", "k u < 1"),
    source="Higham, Accuracy and Stability of Numerical Algorithms, Lemma 3.1 and Lemma 3.3",
    status=Status.PROVED,
    proof=proof,
    bound=bound,
    example=example,
    wrong_variants=_wrong_variants(),
    remarks="Every tolerance of theory.rounding counts factors (1 + d) and then uses this. A rounding that an "
    "implementation does not commit (FMA, an exact coefficient) is a factor with d = 0, so fewer are covered.",
)
