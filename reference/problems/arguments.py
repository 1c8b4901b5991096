"""Argument checks shared by all problems: one ValueError that names the argument and the value."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from reference.problems.base import Array

DTYPES = ("float32", "float64")


def integer(name: str, value: Any, minimum: int = 1) -> int:
    """``value`` as an int, if it is an integer (a bool is not) and at least ``minimum``."""
    try:
        result = operator.index(value)
    except TypeError:
        result = None
    if result is None or isinstance(value, bool | np.bool_) or result < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    return result


def integers(name: str, values: Any, minimum: int = 1) -> tuple[int, ...]:
    """A tuple of integers, each at least ``minimum``."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ValueError(f"{name} must be a list of integers, got {values!r}")
    return tuple(integer(f"{name}[{k}]", value, minimum) for k, value in enumerate(values))


def number(name: str, value: Any, minimum: float = 0.0, *, strict: bool = False) -> float:
    """``value`` as a finite float, at least ``minimum``, or above it where ``strict``."""
    try:
        result = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        result = math.nan
    if not math.isfinite(result) or result < minimum or (strict and result == minimum):
        raise ValueError(f"{name} must be a finite number {'>' if strict else '>='} {minimum:g}, got {value!r}")
    return result


def boolean(name: str, value: Any) -> bool:
    """``value`` as a bool, if it is one."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return bool(value)


def floating(name: str, value: Any) -> np.dtype[Any]:
    """The dtype called ``value``: float32 or float64."""
    try:
        dtype = None if value is None else np.dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in DTYPES:
        raise ValueError(f"{name} must be one of {', '.join(DTYPES)}, got {value!r}")
    return dtype


def vector(name: str, value: Any, dim: int, dtype: Any) -> Array:
    """``value`` as an array (D,) of ``dtype``."""
    array = np.asarray(value, dtype)
    if array.shape != (dim,):
        raise ValueError(f"{name} must have shape ({dim},), got {array.shape}")
    return array
