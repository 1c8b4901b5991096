"""The third arithmetic of :func:`theory.evaluate.evaluate`: exact, and so the one that can tell that numbers are equal.

Intervals (:mod:`theory.arithmetic`) tell two numbers apart that differ; that they do not differ only this one knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

import mpmath
import numpy as np
from mpmath.libmp import to_rational

from theory.arithmetic import LONGEST_EXPONENT, NotEvaluated, Unsettled, plain_argument

LARGEST_POWER = 2**18
"""Bits of a power, at most: longer numbers take long."""


class Rationals:
    """Fractions. What is no fraction, a root or an exponential say, is :class:`~theory.arithmetic.Unsettled` here."""

    @property
    def pi(self) -> Any:
        """No fraction."""
        raise Unsettled("pi is no fraction")

    def number(self, value: Any) -> Any:
        """A number as it is: a float is the fraction that it stands for. An array stays one.

        Raises:
            NotEvaluated: it is no finite number.
        """
        if isinstance(value, mpmath.mpf):
            _, _, exponent, _ = digits = value._mpf_  # pyright: ignore[reportAttributeAccessIssue]
            if abs(exponent) > LARGEST_POWER:
                raise Unsettled("a number has too many digits")
            value = Fraction(*map(int, to_rational(digits)))
        if isinstance(value, np.ndarray) and value.ndim:
            return value
        try:
            return Fraction(value.item() if isinstance(value, (np.ndarray, np.generic)) else value)
        except (OverflowError, ValueError):
            raise NotEvaluated(f"{value} is no number") from None

    def rational(self, value: Fraction) -> Fraction:
        """A fraction."""
        return value

    def whole(self, value: Fraction) -> int:
        """A number as an index or a count.

        Raises:
            NotEvaluated: it is no natural number.
        """
        if value.denominator != 1 or value < 0:
            raise NotEvaluated(f"{value} is no index")
        return value.numerator

    def called(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Value of a function that an example gives: it takes whole numbers, floats and arrays."""
        return self.number(function(*(plain_argument(arg) if isinstance(arg, Fraction) else arg for arg in args)))

    def defined(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Value of a function that the project defines."""
        return self.number(function(*args))

    def power(self, base: Fraction, exponent: Fraction) -> Fraction:
        """``base`` to the power ``exponent``, which may be a half if the root is a fraction.

        Raises:
            NotEvaluated: that has no value: 1/0, the root of a negative number.
        """
        if exponent.denominator == 2:
            base, exponent = _root(base), 2 * exponent
        if exponent.denominator != 1:
            raise Unsettled("a real power is no fraction")
        if exponent < 0 and not base:
            raise NotEvaluated("something is divided by 0")
        if exponent.numerator.bit_length() > LONGEST_EXPONENT:
            raise NotEvaluated("an exponent is too large")
        if abs(exponent.numerator) * max(base.numerator.bit_length(), base.denominator.bit_length()) > LARGEST_POWER:
            raise Unsettled("a power has too many digits")
        return base**exponent.numerator

    def largest(self, values: Iterable[Fraction]) -> Fraction:
        """The largest of some numbers."""
        return max(values)

    def smallest(self, values: Iterable[Fraction]) -> Fraction:
        """The smallest of some numbers."""
        return min(values)

    def total(self, values: Iterable[Fraction]) -> Fraction:
        """The sum of some numbers."""
        return sum(values, Fraction())

    def sign(self, x: Fraction) -> Fraction:
        """1 from 0 on, else -1 [C2]."""
        return Fraction(1 if x >= 0 else -1)

    def exp(self, x: Fraction) -> Fraction:
        """The exponential: a fraction at 0 only."""
        if x:
            raise Unsettled("an exponential is no fraction")
        return Fraction(1)

    def log(self, x: Fraction) -> Fraction:
        """The natural logarithm: a fraction at 1 only."""
        if x <= 0:
            raise NotEvaluated("a logarithm is taken of a number that is not positive")
        if x != 1:
            raise Unsettled("a logarithm is no fraction")
        return Fraction()

    def ends(self, value: Fraction) -> tuple[Fraction, Fraction]:
        """Both ends of a number: itself."""
        return value, value

    def below(self, less: Fraction, more: Fraction, *, strict: bool) -> bool:
        """Whether one is below the other."""
        return less < more if strict else less <= more

    def equal(self, one: Fraction, other: Fraction) -> bool:
        """Whether two numbers are equal."""
        return one == other

    near = equal


def _root(base: Fraction) -> Fraction:
    if base < 0:
        raise NotEvaluated("a negative number stands under a root")
    above, below = isqrt(base.numerator), isqrt(base.denominator)
    if above**2 != base.numerator or below**2 != base.denominator:
        raise Unsettled("a root is no fraction")
    return Fraction(above, below)


RATIONALS = Rationals()


def fractions(values: Any) -> Any:
    """An array of exact numbers: what is computed from it with fractions and whole numbers is exact."""
    return np.vectorize(Fraction, otypes=[object])(values)
