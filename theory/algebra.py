"""SymPy's factor and subs with the return type that arithmetic needs (SymPy declares them as Basic); exact values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import sympy as sp


def factored(expression: sp.Expr) -> sp.Expr:
    """``sympy.factor``: the form in which the signs of a rational function can be read off."""
    return cast(sp.Expr, sp.factor(expression))


def substitute(expression: sp.Expr, values: Mapping[Any, Any]) -> sp.Expr:
    """Simultaneous ``expression.subs``."""
    return cast(sp.Expr, expression.subs(list(values.items()), simultaneous=True))


RATIONAL = (sp.Add, sp.Mul, sp.Pow, sp.Max, sp.Min, sp.Abs, sp.Symbol, sp.Rational)
LARGEST_POWER = 2**18
"""Bits of an exact number's power, at most: SymPy takes long over more."""


def rational_value(expression: sp.Expr, values: Mapping[Any, Any]) -> Any:
    """Value of what consists of rational operations, exactly: two that are equal no interval tells apart.

    None: there are other operations in it, or long powers.
    """
    if all(isinstance(part, RATIONAL) for part in sp.preorder_traversal(expression)):
        exact: dict[Any, Any] = {name: sp.Rational(values[name]) for name in expression.free_symbols}
        powers = [cast(sp.Expr, power.exp.xreplace(exact)) for power in expression.atoms(sp.Pow)]
        longest = max([1, *(int(end).bit_length() for one in exact.values() for end in (one.p, one.q))])
        if all(power.is_Integer and abs(power) * longest <= LARGEST_POWER for power in powers):
            value = expression.xreplace(exact)
            if value.is_Rational:
                return value
    return None


def exactly(relation: Any, values: Mapping[Any, Any]) -> bool | None:
    """Whether a relation holds, by exact arithmetic.

    None: a side has no :func:`rational_value`, or an equation fails, which may be met up to rounding.
    """
    sides = [rational_value(side, values) for side in relation.args]
    if None in sides:
        return None
    return bool(relation.func(*sides)) or (None if isinstance(relation, sp.Eq) else False)
