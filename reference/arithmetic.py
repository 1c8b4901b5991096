"""The three arithmetics of the reference: float32, float64, and exact (object arrays of ``fractions.Fraction``)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EXACT = np.dtype(object)


def is_exact(array: Array) -> bool:
    """Whether ``array`` holds Fractions, so that every law can be tested with ``==``."""
    return array.dtype == EXACT


def is_supported(array: Array) -> bool:
    """float32, float64, or an object array whose elements are all Fractions (an int divided by N would be a float)."""
    if is_exact(array):
        return all(isinstance(value, Fraction) for value in array.flat)
    return array.dtype in (np.float32, np.float64)


def as_scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """A hyper-parameter in the arithmetic of ``dtype``: the exact Fraction of a float, or a float.

    A Python float times a float32 array stays float32 (NumPy 2): the coefficient is rounded to float32 first.
    """
    return Fraction(value) if dtype == EXACT else float(value)


def zeros(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of zeros; in exact arithmetic of ``Fraction(0)``, not of the int that NumPy would put there."""
    return np.full(shape, Fraction(0), dtype) if dtype == EXACT else np.zeros(shape, dtype)


def _exact_sqrt(value: Fraction | int) -> Fraction:
    value = Fraction(value)
    if value >= 0:
        root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
        if root * root == value:
            return root
    raise ValueError(f"{value} has no rational square root: exact arithmetic needs perfect squares under a root")


def sqrt(array: Array) -> Array:
    """Elementwise square root; in exact arithmetic a ValueError where the root is irrational."""
    if is_exact(array):
        return np.array([_exact_sqrt(value) for value in array.flat], dtype=object).reshape(array.shape)
    return np.sqrt(array)


def round_to_bfloat16(array: Array) -> Array:
    """The nearest numbers with 8 significant bits, ties to even, in the dtype of ``array``.

    That is bfloat16 between 2^-126 and 2^127, where every P lies for which it is meant: no smaller or larger number
    is handled.

    Raises:
        ValueError: ``array`` holds Fractions.
    """
    if is_exact(array):
        raise ValueError("frozen_dtype='bfloat16' rounds; arrays of Fractions need frozen_dtype='float32'")
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8)


def is_finite(array: Array) -> bool:
    """Whether no element is NaN or infinite (a Fraction never is)."""
    return is_exact(array) or bool(np.isfinite(array.min()) and np.isfinite(array.max()))  # a NaN is both


def finite(array: Array) -> NDArray[np.bool_]:
    """Mask of the elements that are finite, as every Fraction is."""
    return np.ones(array.shape, np.bool_) if is_exact(array) else np.isfinite(array)


def sum_of_squares(array: Array) -> Any:
    """Sum of squares in float64 (pairwise): float32 inputs of any magnitude neither overflow nor vanish."""
    flat = array.ravel()
    return sum(x * x for x in flat) if is_exact(array) else float(np.square(flat, dtype=np.float64).sum())


def power_to_divide_by(largest: Any) -> Any:
    """1, or a power of two that brings float64 numbers up to ``largest`` where no square overflows or vanishes."""
    exponent = np.frexp(largest)[1]
    return np.ldexp(1.0, np.where(np.abs(exponent) > SAFE_EXPONENT, exponent - 1, 0))


SAFE_EXPONENT = 400
"""In float64 squares of numbers below 2^400 and their sums are finite, and from 2^-400 on none vanishes."""


def root_mean_square(array: Array, count: int) -> float:
    """sqrt(sum of squares / count) in float64 (pairwise): no number in the array is too large or too small."""
    if array.dtype == np.float64 and (unit := float(power_to_divide_by(np.abs(array).max()))) != 1:
        return math.sqrt(sum_of_squares(array / unit) / count) * unit
    return math.sqrt(sum_of_squares(array) / count)


def sum_of_magnitudes(array: Array) -> Any:
    """Sum of absolute values in float64 (pairwise)."""
    return sum(abs(x) for x in array.flat) if is_exact(array) else float(np.abs(array).sum(dtype=np.float64))


def norm(array: Array) -> float:
    """Euclidean norm as a float: for reports and plots, never inside an algorithm."""
    return math.sqrt(sum_of_squares(array))
