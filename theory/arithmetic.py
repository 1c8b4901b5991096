"""Two arithmetics in which :func:`theory.evaluate.evaluate` says what a statement is worth.

:class:`Floats` is float64, and takes NumPy arrays. :class:`Intervals` keeps every number between two ends (mpmath) of
as many bits as are asked for and of any size, so nothing underflows, overflows or is rounded unseen. Where an interval
is too wide to answer a question (which of two numbers is larger, what the sixth digit is), :func:`settled` asks again
with more bits. What has no value is never guessed: :class:`NotEvaluated` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, reduce
from numbers import Rational
from sys import float_info
from typing import Any, TypeVar

import mpmath
import numpy as np
from mpmath.ctx_iv import MPIntervalContext, ivmpf
from mpmath.libmp import from_float, from_int, mpf_ge, mpf_le, to_rational

ROUNDING = 2.0**-42
"""In float64 statements take far fewer than 2^10 operations: equality is looked for up to this."""
BITS = (128, 512, 2048, 8192, 2**16)
"""Of the ends of intervals, one after another, until a question is settled."""
LARGEST_EXPONENT = 2**22
"""Numbers above 2 to this, or below its inverse, are not written out; they have a million digits."""
LONGEST_EXPONENT = 2048
"""Bits of an exponent, at most: a power of a power of a power would take for ever."""
_TWO = from_int(2)
Answer = TypeVar("Answer")


class NotEvaluated(ArithmeticError):  # noqa: N818  (it says what is missing)
    """Something has no value, or none that can be computed; the message says what."""


class Unsettled(NotEvaluated):
    """The intervals are too wide to tell: more bits may."""


def settled(answer: Callable[[Intervals], Answer]) -> Answer:
    """What ``answer`` says in the first of the arithmetics of :data:`BITS` in which it can tell.

    Raises:
        Unsettled: it can't tell in any.
        NotEvaluated: it asks for what has no value.
    """
    for bits in BITS:
        try:
            return answer(intervals(bits))
        except Unsettled:
            continue
    near = f"two numbers are too near each other to be told apart with {BITS[-1]} bits"
    raise Unsettled(f"{near}: give others, of fewer digits or zeros, or whose roots and logarithms are fractions")


def plain_argument(value: Fraction) -> int | float:
    """A number as a function of an example takes it: whole, or a float; else NotEvaluated."""
    if value.denominator == 1:
        return value.numerator
    if abs(value) <= float_info.max and float(value) == value:
        return float(value)
    raise NotEvaluated("a function of the example takes whole numbers and floats, and is asked for another one")


class Floats:
    """float64; a number may be an array, which broadcasts."""

    pi = math.pi

    def number(self, value: Any) -> Any:
        """A value as it is computed with: whole numbers stay whole."""
        return value if isinstance(value, (int, np.integer)) else np.asarray(value, dtype=float)[()]

    def rational(self, value: Fraction) -> Any:
        """An exact number."""
        return float(value)

    def whole(self, value: Any) -> int:
        """A number as an index or a count."""
        return int(value)

    def called(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Value of a function that an example gives."""
        return function(*args)

    def defined(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Value of a function that the project defines."""
        return self.number(function(*args))

    def power(self, base: Any, exponent: Any) -> Any:
        """``base`` to the power ``exponent``."""
        return base**exponent if isinstance(exponent, int) else np.power(base, exponent)

    def largest(self, values: Iterable[Any]) -> Any:
        """The largest of some numbers."""
        return reduce(np.maximum, values)

    def smallest(self, values: Iterable[Any]) -> Any:
        """The smallest of some numbers."""
        return reduce(np.minimum, values)

    def total(self, values: Iterable[Any]) -> Any:
        """The sum of some numbers, rounded once."""
        return math.fsum(values)

    def sign(self, x: Any) -> Any:
        """1 from 0 on, else -1 [C2]."""
        return np.where(np.asarray(x) >= 0, 1.0, -1.0)[()]

    def exp(self, x: Any) -> Any:
        """The exponential."""
        return np.exp(x)

    def log(self, x: Any) -> Any:
        """The natural logarithm."""
        return np.log(x)

    def below(self, less: Any, more: Any, *, strict: bool) -> bool:
        """Whether one is below the other; next to equality a strict relation is not known to hold."""
        margin = ROUNDING * (abs(less) + abs(more))
        return bool(np.all(less + margin < more if strict else less <= more + margin))

    def near(self, one: Any, other: Any) -> bool:
        """Whether two numbers are equal, up to rounding."""
        return bool(np.all(abs(one - other) <= ROUNDING * (abs(one) + abs(other))))


class Intervals:
    """Numbers between two ends of ``bits`` bits and of any size."""

    def __init__(self, bits: int) -> None:
        self.context: Any = MPIntervalContext()
        self.context.prec = bits
        self.pi = self.context.pi + 0

    def number(self, value: Any) -> Any:
        """An exact number; an array stays as it is.

        Raises:
            NotEvaluated: it is no finite number.
        """
        if isinstance(value, (float, np.floating)):
            if not math.isfinite(value):
                raise NotEvaluated(f"{value} is no number")
            return self._point(from_float(float(value)))
        if isinstance(value, (int, np.integer, np.bool_)):
            return self._point(from_int(int(value)))
        if isinstance(value, Rational):
            return self.rational(Fraction(value))
        if isinstance(value, mpmath.mpf):
            return self._point(value._mpf_)
        if isinstance(value, np.ndarray) and not value.ndim:
            return self.number(value.item())
        return value

    def _point(self, end: Any) -> Any:
        return self.context.make_mpf((end, end))

    def rational(self, value: Fraction) -> Any:
        """An exact number, as narrow as the bits allow."""
        whole = self._point(from_int(value.numerator))
        return whole if value.denominator == 1 else whole / self._point(from_int(value.denominator))

    def ends(self, value: Any) -> tuple[Fraction, Fraction]:
        """Both ends, exactly.

        Raises:
            NotEvaluated: it is no finite number, or too large or small to be written out.
        """
        if not isinstance(value, ivmpf):
            raise NotEvaluated("an array stands where a number is asked for")
        ends: Any = value._mpi_  # pyright: ignore[reportAttributeAccessIssue]
        for _, mantissa, exponent, bits in ends:
            if not mantissa and exponent:
                raise NotEvaluated("there is no finite number")
            if mantissa and abs(exponent + bits) > LARGEST_EXPONENT:
                raise NotEvaluated(f"a number is above 2^{LARGEST_EXPONENT} or below its inverse")
        low, high = (Fraction(*map(int, to_rational(end))) for end in ends)
        return low, high

    def exact(self, value: Any) -> Fraction:
        """The number, where both ends are the same."""
        low, high = self.ends(value)
        if low != high:
            raise Unsettled("a number is known up to rounding only")
        return low

    def whole(self, value: Any) -> int:
        """A number as an index or a count.

        Raises:
            NotEvaluated: it is not known to be a natural number.
        """
        (sign, mantissa, exponent, bits), high = value._mpi_
        if value._mpi_[0] == high and not sign and 0 <= exponent < LARGEST_EXPONENT - bits:
            return int(mantissa) << exponent  # the way of nearly all
        raise NotEvaluated(f"{self.exact(value)} is no index")

    def called(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Value of a function that an example gives: it takes whole numbers, floats and arrays."""
        return self.number(function(*(self._plain(arg) if isinstance(arg, ivmpf) else arg for arg in args)))

    def _plain(self, value: Any) -> float | int:
        return plain_argument(self.exact(value))

    def defined(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Value of a function that the project defines: exactly where its arguments are known exactly.

        Each of those that may be known up to rounding only is constant between two numbers of one sign with the same
        value.
        """
        ends = [self.ends(arg) if isinstance(arg, ivmpf) else (arg, arg) for arg in args]
        wide = [isinstance(arg, ivmpf) and low != high for arg, (low, high) in zip(args, ends, strict=True)]
        value = function(*(low for low, _ in ends))
        if any(wide):
            if sum(wide) > 1 or any(low * high <= 0 for (low, high), w in zip(ends, wide, strict=True) if w):
                raise Unsettled("a number is known up to rounding only")
            if function(*(high for _, high in ends)) != value:
                raise Unsettled("a number is known up to rounding only")
        return self.number(value)

    def power(self, base: Any, exponent: Any) -> Any:
        """``base`` to the power ``exponent``.

        Raises:
            NotEvaluated: that has no value: 1/0, a root or a real power of a negative number.
        """
        low, high = exponent._mpi_
        if low == _TWO == high:
            return base**2
        number = self.exact(exponent) if low == high else None
        if number is not None and number < 0:
            return 1 / self._nonzero(self.power(base, -exponent))
        if number is not None and number.denominator == 1:
            if number.numerator.bit_length() > LONGEST_EXPONENT:
                raise NotEvaluated("an exponent is too large")
            return base**number.numerator
        if number == Fraction(1, 2):
            return self._root(base)
        return self.exp(exponent * self.log(base))

    def _nonzero(self, divisor: Any) -> Any:
        if divisor == 0:
            raise NotEvaluated("something is divided by 0")
        if 0 in divisor:
            raise Unsettled("a divisor may be 0")
        return divisor

    def _root(self, base: Any) -> Any:
        low, high = base._mpi_
        if high[0]:
            raise NotEvaluated("a negative number stands under a root")
        if low[0]:
            raise Unsettled("what stands under a root may be negative")
        return self.context.sqrt(base)

    def exp(self, x: Any) -> Any:
        """The exponential."""
        if max(exponent + bits for _, _, exponent, bits in x._mpi_) > LONGEST_EXPONENT:
            raise NotEvaluated("an exponent is too large")
        return self.context.exp(x)

    def log(self, x: Any) -> Any:
        """The natural logarithm.

        Raises:
            NotEvaluated: it is taken of a number that is not known to be positive.
        """
        if (x > 0) is None:
            raise Unsettled("what stands in a logarithm may be 0")
        if not x > 0:
            raise NotEvaluated("a logarithm is taken of a number that is not positive")
        return self.context.log(x)

    def largest(self, values: Iterable[Any]) -> Any:
        """The largest of some numbers."""
        return reduce(lambda a, b: self._by_ends(a, b, mpf_ge), values)

    def smallest(self, values: Iterable[Any]) -> Any:
        """The smallest of some numbers."""
        return reduce(lambda a, b: self._by_ends(a, b, mpf_le), values)

    def _by_ends(self, a: Any, b: Any, before: Callable[[Any, Any], bool]) -> Any:
        low, high = (one if before(one, other) else other for one, other in zip(a._mpi_, b._mpi_, strict=True))
        return self.context.make_mpf((low, high))

    def total(self, values: Iterable[Any]) -> Any:
        """The sum of some numbers."""
        return sum(values, self.context.zero)

    def sign(self, x: Any) -> Any:
        """1 from 0 on, else -1 [C2]."""
        return self.context.one if self._told(x >= 0) else -self.context.one

    def below(self, less: Any, more: Any, *, strict: bool) -> bool:
        """Whether one is below the other.

        Raises:
            Unsettled: the intervals overlap.
        """
        return self._told(less < more if strict else less <= more)

    def near(self, one: Any, other: Any) -> bool:
        """Whether two numbers are equal, up to rounding.

        Raises:
            Unsettled: the intervals overlap.
        """
        return one == other or self.below(abs(one - other), ROUNDING * (abs(one) + abs(other)), strict=False)

    def equal(self, one: Any, other: Any) -> bool:
        """Whether two numbers are equal.

        Raises:
            Unsettled: the intervals overlap.
        """
        gap = one - other
        if 0 not in gap:
            return False
        if gap != 0:
            raise Unsettled("two numbers are near each other")
        return True

    def _told(self, answer: bool | None) -> bool:
        if answer is None:
            raise Unsettled("two numbers are near each other")
        return answer


@cache
def intervals(bits: int) -> Intervals:
    """The arithmetic with so many bits."""
    return Intervals(bits)
