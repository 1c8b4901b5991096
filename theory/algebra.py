"""SymPy's factor and subs with the return type that arithmetic needs (SymPy declares them as Basic)."""

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
