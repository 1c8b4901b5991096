"""Checks of arguments: one sentence that names the argument, what it must be, and the value that was given."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from reference.arithmetic import Array, is_supported

DTYPES = ("float32", "float64")


def integer(name: str, value: Any, minimum: int = 1) -> int:
    """``value`` as an int, if it is an integer of 64 bits (a bool is not) and at least ``minimum``."""
    try:
        result = operator.index(value)
    except TypeError:
        result = None
    if result is None or isinstance(value, bool | np.bool_ | np.ndarray) or not minimum <= result < 2**63:
        below = " and < 2^63" if result is not None and result >= 2**63 else ""
        raise ValueError(f"{name} must be an integer >= {minimum}{below}, got {value!r}")
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
    except (TypeError, ValueError, OverflowError):
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


def scale_block(name: str, value: Any) -> int | None:
    """``value`` if it is None or a positive multiple of 8, so that blocks begin at whole bytes [C13]."""
    if value is not None and integer(name, value, 8) % 8:
        raise ValueError(f"{name} must be None or a multiple of 8, got {value!r}")
    return value


def decay(name: str, value: Any) -> float:
    """``value`` if it lies in [0, 1), the range of Adam's betas."""
    if number(name, value) >= 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
    return value


def choice(name: str, value: Any, choices: Collection[str], otherwise: str = "") -> str:
    """``value`` if it is one of ``choices``; ``otherwise`` says what else the argument may be."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be {otherwise}one of {', '.join(choices)}, got {value!r}")
    return value


def keywords(name: str, constructor: Callable[..., Any], given: Collection[str]) -> None:
    """ValueError unless ``constructor(**given)`` has all that it needs and nothing that it does not know."""
    signature = inspect.signature(constructor)
    for argument in given:
        if argument not in signature.parameters:
            raise ValueError(f"{name} takes no argument {argument!r}; it takes {', '.join(signature.parameters)}")
    for parameter in signature.parameters.values():
        if parameter.default is inspect.Parameter.empty and parameter.name not in given:
            raise ValueError(f"{name} needs the argument {parameter.name!r}")


def array(name: str, value: Any, shape: tuple[int | None, ...], dtype: np.dtype[Any] | None = None) -> Array:
    """Return ``value`` if it is an array of a supported dtype and of ``shape`` (None: any length >= 1).

    Raises:
        TypeError: not an array, or a dtype that is neither float32, float64 nor Fractions, or not ``dtype``.
        ValueError: wrong shape, or an empty axis.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {type(value).__name__}")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a NumPy array without a mask: it would be ignored")
    wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
    if value.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, value.shape, strict=True)):
        raise ValueError(f"{name} must have shape {wanted}, got {value.shape}")
    if 0 in value.shape:
        raise ValueError(f"{name} must not be empty, got shape {value.shape}")
    if dtype is not None and value.dtype != dtype:
        raise TypeError(f"{name} must have the dtype of the parameters, {dtype}, got {value.dtype}")
    if not is_supported(value):
        raise TypeError(f"{name} must hold float32, float64 or fractions.Fraction, got dtype {value.dtype}")
    return value
