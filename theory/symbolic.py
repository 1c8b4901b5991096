"""Tools of the proofs: inequalities read off from assumptions, and floating-point arithmetic run on symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import sympy as sp

from theory.theorem import Link


def inequality(claim: str, lhs: sp.Expr, rhs: sp.Expr) -> Link:
    """``lhs <= rhs``, whose slack ``rhs - lhs`` in factored form is non-negative by the assumptions on its symbols.

    The residual of such a link is 0 by construction; what is checked is the sign, and SymPy answers it only if it
    follows from the assumptions (unknown counts as failure).
    """
    return Link(claim, lhs, rhs, slack=(cast(sp.Expr, sp.factor(sp.together(rhs - lhs))),))


def replaced(expression: sp.Expr, mapping: Mapping[sp.Symbol, sp.Expr | int]) -> sp.Expr:
    """``expression`` with symbols replaced, all at once."""
    return cast(sp.Expr, sp.sympify(expression).xreplace({symbol: sp.sympify(to) for symbol, to in mapping.items()}))


class Rounder:
    """One symbolic rounding error per named operation: ``fl("add", a + b)`` is ``(a + b)(1 + d_add)``.

    Algorithms are run through it as they stand in code; :meth:`factors` then writes the claimed product of (1 + d).
    A division's error may be given as a reciprocal factor, which the product lemma T11a allows.
    """

    def __init__(self) -> None:
        self.errors: dict[str, sp.Symbol] = {}
        self.underflows: dict[str, sp.Symbol] = {}

    def __call__(self, operation: str, exact: sp.Expr, *, underflow: bool = False) -> sp.Expr:
        """The rounded value of ``exact``; ``underflow=True`` adds the absolute error that * and / may commit."""
        if operation in self.errors:
            raise ValueError(f"operation {operation!r} was already rounded once")
        self.errors[operation] = sp.Symbol(f"d_{{{operation}}}", real=True)
        rounded = exact * (1 + self.errors[operation])
        if underflow:
            self.underflows[operation] = sp.Symbol(f"e_{{{operation}}}", real=True)
            rounded += self.underflows[operation]
        return rounded

    def factors(self, operations: Iterable[str]) -> sp.Expr:
        """prod (1 + d) over the named operations."""
        return sp.Mul(*(1 + self.errors[name] for name in operations))
