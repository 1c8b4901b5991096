"""What an example gives, as values that stay what they are: numbers are copied, and functions are asked once a place.

So two hypotheses can't see two values of one thing, whatever the objects are that an example was made of.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory import orders

KINDS = (bool, int, float, Fraction)
NEEDED = "give an int, float, Fraction, number of SymPy, array or list of these, or a function"


def fixed_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """All that an example gives, each value :func:`fixed`.

    Raises:
        ValueError: one is of another kind; the message names it.
    """
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        try:
            found[name] = fixed(value)
        except ValueError as reason:
            shown = " ".join(reprlib.repr(value).split())
            raise ValueError(f"{name} = {shown}: {reason}") from None
    return found


def fixed(value: Any) -> Any:
    """The same as plain Python, NumPy and SymPy values, or as a function that gives these.

    Raises:
        ValueError: something else is in it.
    """
    kind = type(value)
    if kind in KINDS or kind.__module__ == orders.__name__:
        return value
    if kind in (list, tuple):
        return [fixed(one) for one in value]
    if kind is np.ndarray:
        return _array(value)
    if kind.__module__ == "numpy" and isinstance(value, np.generic) and type(value.item()) in KINDS:
        return value.item()
    if kind.__module__.startswith("sympy.") and isinstance(value, sp.Expr) and value.is_number:
        return sp.Rational(value) if isinstance(value, sp.Float) else value
    if callable(value):
        return _asked_once(value)
    raise ValueError(f"a value of type {kind.__name__} is no real number: {NEEDED}")


def _array(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "biuf" and values.dtype.itemsize <= 8:
        return values.copy()
    found = np.empty(values.shape, object)
    for place, one in np.ndenumerate(values):
        found[place] = fixed(one)
    return found


def _asked_once(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def answer(*args: Any) -> Any:
        place = tuple(map(_as_key, args))
        if place not in known:
            known[place] = fixed(function(*args))
        return known[place]

    return answer


def _as_key(value: Any) -> Any:
    """Equal for equal numbers, of whatever type they are."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_as_key, value)) if isinstance(value, (list, tuple)) else value
