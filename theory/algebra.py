"""SymPy's factor and subs with the return type that arithmetic needs (SymPy declares them as Basic)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import sympy as sp


def factored(expression: sp.Expr) -> sp.Expr:
    """``sympy.factor``: the form in which the signs of a rational function can be read off."""
    return cast(sp.Expr, sp.factor(expression))


def substitute(expression: sp.Expr, values: Mapping[Any, Any]) -> sp.Expr:
    """Simultaneous ``expression.subs``."""
    return cast(sp.Expr, expression.subs(list(values.items()), simultaneous=True))


@lru_cache(maxsize=4096)
def under_one_root(product: sp.Mul) -> sp.Expr:
    """sqrt(a) sqrt(b) / sqrt(c) as sqrt(a b/c), which may be a fraction where the roots are none."""
    powers = [factor.as_base_exp() for factor in product.args]
    roots = [(base, 2 * power) for base, power in powers if abs(power) == sp.S.Half and base.is_nonnegative]
    if len(roots) < 2:
        return product
    rest = [base**power for base, power in powers if (base, 2 * power) not in roots]
    under = sp.Mul(*(base**power for base, power in roots))
    return cast(sp.Expr, sp.Mul(*rest, sp.Pow(under, sp.S.Half, evaluate=False), evaluate=False))
