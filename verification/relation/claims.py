"""Claims: what must be true, as Python that a program can assert about ``before`` and ``after``, or about outputs.

Elements are read by ``.item(...)``, a Python float, so that a claim is evaluated in float64 whatever the dtype.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from verification.protocol import Array


def number(value: Any, slack: Any = 0.0) -> str:
    """The shortest text of ``value`` to within ``slack``; NaN and Inf are given too."""
    value, slack = float(value), max(0.0, float(slack))
    if not math.isfinite(value):
        return f"float('{value}')"
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return next(text for text in texts if abs(float(text) - value) <= slack)


def near(expression: str, expected: Any, tolerance: Any) -> str:
    """``expression`` is within ``tolerance`` of ``expected``, numbers; the texts of both may take a 64th of it more."""
    expected, tolerance = float(expected), float(tolerance)
    if tolerance == 0 or not math.isfinite(expected + tolerance):
        return f"{expression} == {number(expected)}"
    text = number(expected, tolerance / 64)
    less = "" if float(text) == 0 else f" - {text}" if expected > 0 else f" + {text[1:]}"
    return f"abs({expression}{less}) <= {above(tolerance + abs(float(text) - expected))}"


def above(tolerance: float) -> str:
    """``tolerance`` in at most three digits, or the next number of so many above it; below 0, which none is, 0."""
    if tolerance <= 0:
        return "0"
    texts = (f"{factor * tolerance:.2e}" for factor in (1.0, 1.005, 1.01))
    text = next(text for text in texts if float(text) >= tolerance)
    digits, _, exponent = text.partition("e")
    return f"{float(digits):g}e{int(exponent)}"


def equal(name: str, other: str, one: Array, another: Array) -> str:
    """Two arrays that differ must be equal; bit by bit where they are equal as numbers."""
    if one.shape == another.shape and np.array_equal(one, another):
        return f"{name}.tobytes() == {other}.tobytes()"
    return f"np.array_equal({name}, {other})"
