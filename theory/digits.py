"""Numbers as they are shown: rounded to six digits, or as they were typed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np

from theory.arithmetic import Unsettled


class HasEnds(Protocol):
    """An arithmetic that says between which fractions a number lies."""

    def ends(self, value: Any) -> tuple[Fraction, Fraction]:
        """Both, exactly."""
        ...


@dataclass(frozen=True)
class Rounded:
    """A number, rounded to nearest: to six digits, and for a computer."""

    digits: Decimal
    double: float | str

    def __str__(self) -> str:
        return shown(self.digits)


def rounded(value: Any, arithmetic: HasEnds) -> Rounded:
    """An interval, or a fraction, as a number: six digits, and the nearest double, or 17 digits where none is near.

    Raises:
        Unsettled: its ends differ in these digits.
    """
    low, high = arithmetic.ends(value)
    found = {(_digits(end, 6), _digits(end, 17) if beyond_float64(end) else float(end)) for end in (low, high)}
    if len(found) > 1:
        raise Unsettled("the digits of a number are not known")
    short, long = found.pop()
    return Rounded(short, shown(long) if isinstance(long, Decimal) else long)


def beyond_float64(value: Fraction) -> bool:
    """Whether a number is beyond the doubles that have all their digits."""
    return bool(value) and not Fraction(np.finfo(float).tiny) <= abs(value) <= Fraction(np.finfo(float).max)


def _digits(value: Fraction, count: int) -> Decimal:
    context = Context(prec=count, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def shown(value: Decimal) -> str:
    """A decimal number as ``%g`` would write it, of any size."""
    if not value:
        return "0"
    sign, digits, _ = value.as_tuple()
    text, exponent = "".join(map(str, digits)).rstrip("0"), value.adjusted()
    if -5 < exponent < max(6, len(text)):
        return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"
    point = f"{text[0]}.{text[1:]}" if text[1:] else text
    return f"{'-' if sign else ''}{point}e{exponent:+03d}"


def plain(value: int | float | Fraction | np.number) -> str:
    """A number as it was typed: whole or decimal, in 24 digits at most. A float is the number that it prints as."""
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            return str(float(value))
        value = Fraction(repr(float(value)))
    exact = Fraction(cast(Any, value))
    if exact.denominator == 1 and abs(exact) < 10**18:
        return str(exact)
    digits = _digits(exact, 24)
    return shown(digits if Fraction(digits) == exact and abs(digits.adjusted()) < 24 else _digits(exact, 6))
