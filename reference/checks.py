"""Checks of arguments: one sentence that names the argument, what it must be, and the value that was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from reference.arithmetic import Array, is_supported


def check_real(name: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> None:
    """Raise ValueError unless ``value`` is a finite number with ``value > above`` and ``value >= at_least``."""
    must = f"> {above}" if above is not None else f">= {at_least}"
    try:
        ok = bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        ok = False
    if not ok or (above is not None and value <= above) or (at_least is not None and value < at_least):
        raise ValueError(f"{name} must be a finite number {must}, got {value!r}")


def check_fraction(name: str, value: Any) -> None:
    """Raise ValueError unless ``0 <= value < 1`` (the range of Adam's betas)."""
    check_real(name, value, at_least=0)
    if value >= 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")


def check_count(name: str, value: Any, *, at_least: int = 1) -> None:
    """Raise ValueError unless ``value`` is an integer >= ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value!r}")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(sorted(choices))}; got {value!r}")


def check_array(name: str, value: Any, shape: tuple[int | None, ...], dtype: np.dtype[Any] | None = None) -> Array:
    """Return ``value`` if it is an array of a supported dtype and of ``shape`` (None: any length >= 1).

    Raises:
        TypeError: not an array, or a dtype that is neither float32, float64 nor Fractions, or not ``dtype``.
        ValueError: wrong shape, or an empty axis.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {type(value).__name__}")
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


def check_keywords(name: str, constructor: Callable[..., Any], keywords: Collection[str]) -> None:
    """Raise ValueError unless ``constructor(**keywords)`` has all that it needs and nothing that it does not know."""
    try:
        inspect.signature(constructor).bind(**dict.fromkeys(keywords))
    except TypeError as error:
        known = ", ".join(inspect.signature(constructor).parameters)
        raise ValueError(f"{name}: {error}; it takes {known}") from None
