"""Floating-point arithmetic in statements: rounding, its constants, and orders of evaluation, as in Coq.

Each function has the name and the meaning of a definition in ``theory/theorems/Rounding.v`` or ``Updates.v``, and a
numeric value.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from theory import orders
from theory.coq_printer import FUNCTIONS
from theory.formula import ForAll, array, eq
from theory.notation import Row, count
from theory.theorem import Hypothesis


class _Defined(sp.Function):
    """A function that ``Rounding.v`` or ``Updates.v`` defines under the same name."""

    if TYPE_CHECKING:

        def __new__(cls, *args: Any) -> Any: ...


class unit_roundoff(_Defined):  # noqa: N801 - printed under this name
    """2^-precision: the largest relative error of one rounding."""

    nargs = 1

    def _latex(self, printer: Any) -> str:
        return rf"\upsilon_{{{printer._print(self.args[0])}}}"

    @staticmethod
    def numeric(precision: float) -> Fraction:
        return Fraction(1, 2 ** int(precision))


class smallest_subnormal(_Defined):  # noqa: N801
    """2^-least: the spacing of the numbers next to zero."""

    nargs = 1

    def _latex(self, printer: Any) -> str:
        return rf"\eta_{{{printer._print(self.args[0])}}}"

    @staticmethod
    def numeric(least: float) -> Fraction:
        return Fraction(1, 2 ** int(least))


class gamma(_Defined):  # noqa: N801
    """gamma(k, precision) = k u/(1 - k u), u = unit_roundoff(precision)."""

    nargs = 2

    def _latex(self, printer: Any) -> str:
        return rf"\gamma_{{{printer._print(self.args[0])},{printer._print(self.args[1])}}}"

    @staticmethod
    def numeric(k: Any, precision: float) -> Any:
        product = k * Fraction(1, 2 ** int(precision))
        return product / (1 - product)


class nonzero(_Defined):  # noqa: N801
    """0 where the argument is 0, else 1."""

    nargs = 1

    def _latex(self, printer: Any) -> str:
        return rf"\left[{printer._print(self.args[0])} \neq 0\right]"

    @staticmethod
    def numeric(x: Any) -> Any:
        return (np.asarray(x) != 0).astype(float)[()]


class fl(_Defined):  # noqa: N801
    """fl(precision, least, x): x rounded to nearest, ties to even, subnormals included."""

    nargs = 3

    def _latex(self, printer: Any) -> str:
        return rf"\operatorname{{fl}}\left({printer._print(self.args[2])}\right)"

    @staticmethod
    def numeric(precision: float, least: float, x: Any) -> Any:
        return np.vectorize(lambda value: orders.nearest(value, int(precision), int(least)), otypes=[object])(x)[()]


class computed(_Defined):  # noqa: N801
    """computed(precision, least, order, inputs): the value of an order of evaluation, every operation rounded."""

    nargs = 4

    @staticmethod
    def numeric(precision: float, least: float, order: orders.Order, inputs: Any) -> Fraction:
        return orders.computed(order, inputs, int(precision), int(least))


class exact(_Defined):  # noqa: N801
    """exact(order, inputs): the value of an order of evaluation in exact arithmetic."""

    nargs = 2

    @staticmethod
    def numeric(order: orders.Order, inputs: Any) -> Fraction:
        return orders.exact(order, inputs)


class reads(_Defined):  # noqa: N801
    """reads(order, inputs): the sum of what is read, each input as often as it is read."""

    nargs = 2

    @staticmethod
    def numeric(order: orders.Order, inputs: Any) -> Fraction:
        return orders.reads(order, inputs)


class roundings(_Defined):  # noqa: N801
    """roundings(order, k): the most roundings between input k and the result, 0 if it is not read."""

    nargs = 2

    @staticmethod
    def numeric(order: orders.Order, k: float) -> int:
        return orders.longest_path(order, int(k)) or 0


class products(_Defined):  # noqa: N801
    """products(order, k): the most products between input k and the result, 0 if it is not read."""

    nargs = 2

    @staticmethod
    def numeric(order: orders.Order, k: float) -> int:
        return orders.longest_path(order, int(k), only_products=True) or 0


class evaluated(_Defined):  # noqa: N801
    """The same as ``computed``, for an order whose constants may be any numbers (``Updates.v``)."""

    nargs = 4
    numeric = computed.numeric


class ideal(_Defined):  # noqa: N801
    """The same as ``exact``, for an order whose constants may be any numbers."""

    nargs = 2
    numeric = exact.numeric


class passed(_Defined):  # noqa: N801
    """passed(q, order, inputs): every constant by its size, and a factor q for each operation."""

    nargs = 3

    @staticmethod
    def numeric(q: Any, order: orders.Order, inputs: Any) -> Fraction:
        return orders.passed(q, order, inputs)


class spill(_Defined):  # noqa: N801
    """spill(q, order, inputs): what one unit lost in each product of something else than 0 comes to, at most."""

    nargs = 3

    @staticmethod
    def numeric(q: Any, order: orders.Order, inputs: Any) -> Fraction:
        return orders.spill(q, order, inputs)


FUNCTIONS |= {
    kind: kind.__name__
    for kind in (
        unit_roundoff, smallest_subnormal, gamma, nonzero, fl, computed, exact, reads, roundings, products,
        evaluated, ideal, passed, spill,
    )
}  # fmt: skip

precision = count("precision")
least = count("least", least=0)
order = sp.IndexedBase("order")
inputs = array("inputs")
x = array("x")
k = count("k", least=0)

PRECISION = Row(precision, "p", "bits of a significand, with the hidden one", default=24)
LEAST = Row(least, "e", "the smallest positive number is 2^-least", default=149)
ORDER = Row(order, r"\tau", "order of evaluation: a tree of additions, products and fused operations", coq="tree")
EVALUATION = Row(order, r"\tau", "order of evaluation, its constants any numbers", coq="evaluation")
INPUTS = Row(inputs, "z", "what the order of evaluation reads")
FORMAT = (PRECISION, LEAST)


def u() -> sp.Expr:
    """Unit roundoff of the format."""
    return unit_roundoff(precision)


def eta() -> sp.Expr:
    """Smallest subnormal of the format."""
    return smallest_subnormal(least)


def compose(*relative_errors: Any) -> Any:
    """prod(1 + r) - 1, relative errors one after another, in a form that loses no digits where they are small."""
    total: Any = sp.Integer(0)
    for error in relative_errors:
        total = total + error + total * error
    return total


def representable(values: Any, number: Any, name: str, words: str) -> Hypothesis:
    """``values[k]`` for k < ``number`` are numbers of the format."""
    return Hypothesis(name, ForAll(((k, number),), eq(fl(precision, least, values[k]), values[k])), words)
