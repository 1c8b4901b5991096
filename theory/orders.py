"""Orders of evaluation: a linear expression as a tree of additions and products, and its rounded value, exactly.

The same four nodes and the same functions stand in ``theory/theorems/Rounding.v`` and ``Updates.v``, where theorems are
proved for every tree. Here they are run, in rational arithmetic: examples, and the search for the worst inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Number = float | Fraction


@dataclass(frozen=True)
class Read:
    """Input k."""

    k: int


@dataclass(frozen=True)
class Plus:
    """fl(a + b)."""

    a: Order
    b: Order


@dataclass(frozen=True)
class Times:
    """fl(c a), with a constant c that need not be a number of the format (division by N is c = 1/N).

    In ``Rounding.v`` (``tree``) constants lie in [0, 1], in ``Updates.v`` (``evaluation``) they are any real numbers.
    """

    c: Number
    a: Order


@dataclass(frozen=True)
class Fused:
    """fl(c a + b), rounded once."""

    c: Number
    a: Order
    b: Order


Order = Read | Plus | Times | Fused


def nearest(value: Number, precision: int, least: int) -> Fraction:
    """The number of the format that is next to ``value``, ties to even; overflow is not modelled."""
    exact = Fraction(value)
    if exact == 0:
        return exact
    top = exact.numerator.bit_length() - exact.denominator.bit_length()
    if abs(exact) < Fraction(2) ** top:
        top -= 1  # 2^top <= abs(exact) < 2^(top + 1)
    spacing = Fraction(2) ** max(top - precision + 1, -least)
    return round(exact / spacing) * spacing


def computed(order: Order, inputs: Sequence[Number], precision: int, least: int) -> Fraction:
    """The value with every operation rounded."""

    def value(o: Order) -> Fraction:
        if isinstance(o, Read):
            return Fraction(inputs[o.k])
        if isinstance(o, Plus):
            return nearest(value(o.a) + value(o.b), precision, least)
        product = Fraction(o.c) * value(o.a)
        return nearest(product if isinstance(o, Times) else product + value(o.b), precision, least)

    return value(order)


def exact(order: Order, inputs: Sequence[Number]) -> Fraction:
    """The value in exact arithmetic."""
    if isinstance(order, Read):
        return Fraction(inputs[order.k])
    if isinstance(order, Plus):
        return exact(order.a, inputs) + exact(order.b, inputs)
    product = Fraction(order.c) * exact(order.a, inputs)
    return product if isinstance(order, Times) else product + exact(order.b, inputs)


def reads(order: Order, inputs: Sequence[Number]) -> Fraction:
    """The sum of what is read, each input as often as it is read."""
    if isinstance(order, Read):
        return Fraction(inputs[order.k])
    rest = reads(order.b, inputs) if isinstance(order, (Plus, Fused)) else 0
    return reads(order.a, inputs) + rest


def longest_path(order: Order, k: int, *, only_products: bool = False) -> int | None:
    """The most roundings (or products) between input k and the result; None if k is not read."""
    if isinstance(order, Read):
        return 0 if order.k == k else None
    sides = [(order.a, 0 if only_products and isinstance(order, Plus) else 1)]
    if isinstance(order, (Plus, Fused)):
        sides.append((order.b, 0 if only_products else 1))
    found = [
        step + below
        for side, step in sides
        if (below := longest_path(side, k, only_products=only_products)) is not None
    ]
    return max(found, default=None)


def passed(q: Number, order: Order, inputs: Sequence[Number]) -> Fraction:
    """The value with every constant by its size and a factor q for each operation."""
    if isinstance(order, Read):
        return Fraction(inputs[order.k])
    one = passed(q, order.a, inputs)
    if isinstance(order, Plus):
        return Fraction(q) * (one + passed(q, order.b, inputs))
    other = passed(q, order.b, inputs) if isinstance(order, Fused) else 0
    return Fraction(q) * (abs(Fraction(order.c)) * one + other)


def spill(q: Number, order: Order, inputs: Sequence[Number]) -> Fraction:
    """What one unit lost in each product of something else than 0 comes to in the end, at most."""
    if isinstance(order, Read):
        return Fraction(0)
    one = spill(q, order.a, inputs)
    if isinstance(order, Plus):
        return Fraction(q) * (one + spill(q, order.b, inputs))
    other = spill(q, order.b, inputs) if isinstance(order, Fused) else 0
    return Fraction(q) * (abs(Fraction(order.c)) * one + other) + reads(order.a, [int(value != 0) for value in inputs])
