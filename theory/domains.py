"""What values a symbol takes: refused in one sentence where one lies outside its domain."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import sympy as sp

from theory.digits import plain
from theory.notation import Row


def check_domain(row: Row, value: Any) -> None:
    """Refuse a value outside the domain of its row.

    Raises:
        ValueError: it lies outside; the message says what is allowed.
    """
    if row.coq or (callable(value) and not isinstance(row.symbol, sp.Symbol)):
        return
    if callable(value):
        raise ValueError(f"{row.code} is a number ({row.meaning}), no function")
    value = Fraction(int(value.p), int(value.q)) if isinstance(value, sp.Rational) else value
    exact = isinstance(value, (int, Fraction))  # Python compares them exactly
    try:
        numbers: Any = value if exact or np.iscomplexobj(value) else np.asarray(value, dtype=float)
    except OverflowError:  # of whole numbers and fractions: SymPy's are infinite as floats
        numbers = np.zeros(np.shape(cast(Any, value)))
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or np.iscomplexobj(numbers):
        raise ValueError(f"{row.code} = {value!r:.60} is no real number, nor an array of them")
    if not isinstance(row.symbol, sp.Symbol):
        if not np.ndim(numbers) or np.isnan(numbers).any():
            told = "give 1,2,3 or [[1,2],[3,4]], nested lists, or a function"
            raise ValueError(f"{row.code} = {value!r:.60} is no array of numbers: {told}")
        return
    if not exact and not np.isfinite(numbers).all():
        raise ValueError(f"{row.code} = {_named(value)} is not a finite number")
    if row.is_count:
        least = 1 if row.symbol.is_positive else 0
        if np.any(numbers % 1 != 0) or np.any(numbers < least):
            raise ValueError(f"{row.code} = {_named(value)} is not a whole number of at least {least}")
        return
    ends: tuple[Any, Any] = (row.interval.start, row.interval.end)
    low, high = (Fraction(int(end.p), int(end.q)) if exact and end.is_Rational else float(sp.N(end)) for end in ends)
    below = numbers <= low if row.interval.left_open else numbers < low
    above = numbers >= high if row.interval.right_open else numbers > high
    if np.any(below | above):
        raise ValueError(f"{row.code} = {_named(value)} is outside its domain {domain_text(row)}")


def _named(value: Any) -> str:
    return plain(value) if isinstance(value, (int, float, Fraction, np.number)) else str(value)


def domain_text(row: Row) -> str:
    """``(0, 1)``, ``[0, oo)``, or ``1, 2, 3, ...`` for a count."""
    if row.is_count:
        return "1, 2, 3, ..." if row.symbol.is_positive else "0, 1, 2, ..."
    if not isinstance(row.symbol, sp.Symbol):
        return "numbers"
    interval = row.interval
    left, right = "(" if interval.left_open else "[", ")" if interval.right_open else "]"
    return f"{left}{interval.start}, {interval.end}{right}"
