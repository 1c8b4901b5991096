"""The form of what is given for an array: its axes, and how far each of them goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import sympy as sp

from theory.evaluate import Input, evaluate
from theory.formula import ForAll, Formula, Implies, free_names
from theory.theorem import Theorem


def check_scalars(theorem: Theorem, values: Mapping[str, Any]) -> None:
    """Refuse, with a ValueError that names the symbol, several numbers where one is asked for."""
    for row in theorem.variables:
        value: Any = values.get(row.code)
        if isinstance(row.symbol, sp.Symbol) and axes_of(value) > 0:
            raise ValueError(f"{row.code} is one number ({row.meaning}), not {len(value)} of them")


def check_axes(items: Iterable[Input], values: Mapping[str, Any]) -> None:
    """Refuse, with a ValueError that names it, an array whose axes are not those of its default."""
    for item in items:
        row, expected = item.row, axes_of(item.default)
        if expected and (given := axes_of(values.get(row.code))) != expected:
            raise ValueError(
                f"{row.code} ({row.meaning}) has {expected} {'axis' if expected == 1 else 'axes'}, not {given}: write "
                f"it like {row.code}={sample_of(expected)}"
            )


def axes_of(value: Any) -> int:
    """Axes of an array or of nested lists; 0 for a number or a function.

    Raises:
        ValueError: lists stand beside numbers.
    """
    if not isinstance(value, (list, tuple)):
        return int(np.ndim(value))
    inner = {axes_of(item) for item in value} or {0}
    if len(inner) > 1:
        raise ValueError("an array holds lists beside numbers, or lists of other depths")
    return 1 + inner.pop()


def sample_of(axes: int) -> str:
    """How an array of so many axes is typed; brackets in quotes, for the shell."""
    text = "1,2"
    for _ in range(axes - 1):
        text = f"[{text}],[{text}]"
    return f"{text},3 (one entry: '[1]')" if axes == 1 else f"'[{text}]'"


def check_lengths(theorem: Theorem, given: Collection[str], values: Mapping[str, Any]) -> None:
    """Refuse, with a ValueError that names it, one of the ``given`` arrays with more entries than are counted."""
    known = {row.symbol: values[row.code] for row in theorem.variables if values.get(row.code) is not None}
    typed = {row.symbol: row for row in theorem.variables if row.code in given}
    for (base, axis), count in counts(theorem).items():
        if base not in typed or not free_names(count) <= known.keys():
            continue
        row = typed[base]
        length, wanted = length_of(values[row.code], axis), int(evaluate(count, known))
        if length > wanted:
            where = f" on its axis {axis + 1}" if axes_of(values[row.code]) > 1 else ""
            raise ValueError(f"{row.code} has {length} entries{where}, and {count} is {wanted}: give no more of them")


def length_of(value: Any, axis: int) -> int:
    """Entries of an array, or of nested lists, along an axis; the most, where rows are of several lengths."""
    return len(value) if axis == 0 else max((length_of(row, axis - 1) for row in value), default=0)


def counts(theorem: Theorem) -> dict[tuple[sp.IndexedBase, int], sp.Expr]:
    """Array and axis -> how many entries the statement speaks of, where each of its indices runs to one same count."""
    found: dict[tuple[sp.IndexedBase, int], set[sp.Expr | None]] = {}
    for formula in theorem.formulas:
        for element, limits in _elements(formula, {}):
            for axis, index in enumerate(element.indices):
                found.setdefault((element.base, axis), set()).add(limits.get(index))
    return {place: one for place, limits in found.items() if len(limits) == 1 and (one := next(iter(limits)))}


def _elements(part: Formula | sp.Basic, limits: Mapping[Any, Any]) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """Every element of an array, with the counts to which the indices run that are bound there."""
    if isinstance(part, ForAll):
        yield from _elements(part.body, {**limits, **dict(part.bound())})
    elif isinstance(part, Implies):
        for item in (*part.given, part.body):
            yield from _elements(item, limits)
    else:
        if isinstance(part, sp.Indexed):
            yield part, limits
        if isinstance(part, sp.Sum):
            limits = {**limits, **{index: last + 1 for index, _, last in part.limits}}
        for inner in part.args:
            yield from _elements(inner, limits)
