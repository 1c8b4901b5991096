"""Arguments of tolerances: what they may be, and one sentence where they are something else."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def number(name: str, value: Any) -> float:
    """One real number as a float64; a scalar of NumPy is one too."""
    if type(value) is float and not math.isnan(value):  # nearly always
        return value
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with suppress(OverflowError):
            if not math.isnan(found := float(value)):
                return found
    raise ValueError(f"{name} must be a number of float64, got {value!r:.80}")


def amount(name: str, value: Any) -> float:
    """A finite number that is not negative."""
    found = number(name, value)
    if 0 <= found < math.inf:
        return found
    raise ValueError(f"{name} must be finite and not negative, got {value!r}")


def share(name: str, value: Any) -> float:
    """A number in [0, 1)."""
    found = number(name, value)
    if 0 <= found < 1:
        return found
    raise ValueError(f"{name} must lie in [0, 1), got {value!r}")


def correction(name: str, value: Any) -> float:
    """What m or v is divided by, 1 - beta^t: a number in (0, 1]."""
    found = number(name, value)
    if 0 < found <= 1:
        return found
    raise ValueError(f"{name} must lie in (0, 1], got {value!r}")


def count(name: str, value: Any, least: int = 0) -> int:
    """A whole number, ``least`` or more."""
    found = number(name, value)
    if found >= least and found.is_integer():
        return int(value)
    raise ValueError(f"{name} must be a whole number, {least} or more, got {value!r}")


def pair(name: str, values: Any) -> tuple[Any, Any]:
    """Two things: one of m and one of v."""
    if isinstance(values, (tuple, list)) and len(values) == 2:
        first, second = values
        return first, second
    raise ValueError(f"{name} must be two numbers, of m and of v, got {values!r}")


def length(name: str, values: ArrayLike, axis: int) -> int:
    """Elements of an array along an axis, which it must have."""
    shape = np.shape(values)
    if shape:
        return shape[axis]
    raise ValueError(f"{name} must be an array, got {values!r}")


def workers(name: str, values: ArrayLike) -> int:
    """Workers on the first axis of an array, at least one."""
    return count(f"the length of {name}", length(name, values, 0), 1)


def plus_or_minus(name: str, values: ArrayLike) -> ArrayLike:
    """An array of +1 and -1."""
    array = np.asarray(values)
    if array.dtype.kind in "iuf" and (abs(array) == 1).all():
        return array
    raise ValueError(f"{name} must be +1 and -1, got {values!r}")
