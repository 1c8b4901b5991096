"""``onebit prove --set NAME=NUMBER``: what was typed, read exactly, and the bounds at these numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
import typer

from theory.arrays import axes_of, check_axes, check_lengths, check_scalars, sample_of
from theory.digits import Rounded
from theory.evaluate import Input, exact_bound, inputs
from theory.form import shape
from theory.notation import ALIASES, NOTATION
from theory.theorem import Theorem
from theory.witness import check_arrays

LARGEST_POWER = 5000
"""Numbers of more digits, or with more zeros behind the point, are no inputs."""

TYPED = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,9})? *", re.IGNORECASE)
"""A number in plain decimal or scientific notation."""


def parse_assignments(texts: Iterable[str], names: Mapping[str, str] = ALIASES) -> dict[str, Any]:
    """``["N=64", "T=1e5"]`` -> ``{"n_workers": 64, "n_steps": 100000}``; ``g=1,2`` and
    ``g=[[1,2],[3,4]]`` give lists.

    ``names``: what may be typed -> code name (:func:`typed_names`); any other name is taken for a code name.

    Raises:
        ValueError: a text is not NAME=NUMBER, or a name is set twice.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not (name and equals and number):
            raise ValueError(f"--set takes NAME=NUMBER, got {text!r}")
        code = names.get(name, name)
        if code in values:
            raise ValueError(f"--set gives {code} twice")
        if number.lstrip().startswith("["):
            values[code] = _nested(name, number)
            continue
        numbers = [_exact(name, part) for part in number.split(",")]
        values[code] = numbers if "," in number else numbers[0]
    return values


def _nested(name: str, text: str) -> list[Any]:
    """An array of several axes as it was typed: nested lists, whose numbers are read by :func:`_exact`."""
    exact = partial(_exact, name)
    try:
        found = json.loads(text, parse_int=exact, parse_float=exact, parse_constant=exact)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"--set {name}: {text!r:.60} is no list of lists: write it like [[1,2],[0.5,1e-3]]") from None
    if odd := [item for item in _leaves(found) if isinstance(item, bool) or not isinstance(item, (int, Fraction))]:
        raise ValueError(f"--set {name}: {json.dumps(odd[0])} is not a number: write it like 12, -0.5 or 1e-3")
    try:
        axes_of(found)
    except ValueError as reason:
        raise ValueError(f"--set {name}: {reason}") from None
    return found


def _leaves(value: Any) -> Iterator[Any]:
    """What nested lists hold."""
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _exact(name: str, text: str) -> int | Fraction:
    """A typed number as it was typed: 0.999 is 999/1000."""
    if not TYPED.fullmatch(text):
        raise ValueError(f"--set {name}: {text!r} is not a number: write it like 12, -0.5 or 1e-3")
    typed = Decimal(text)
    if typed and max(abs(typed.adjusted()), abs(int(typed.as_tuple().exponent))) > LARGEST_POWER:
        raise ValueError(f"--set {name}: a number has at most {LARGEST_POWER} digits or zeros")
    exact = Fraction(typed)
    return exact.numerator if exact.denominator == 1 else exact


def _as_typed(value: Any) -> Any:
    """A default as it is printed, exactly: the float 0.999 stands for 999/1000, in an array too."""
    if isinstance(value, (list, tuple)):
        return [_as_typed(item) for item in value]
    if isinstance(value, np.ndarray):
        return _as_typed(value.tolist())
    return Fraction(repr(float(value))) if isinstance(value, float) and np.isfinite(value) else value


def typed_names(theorems: Iterable[Theorem]) -> dict[str, str]:
    """What ``--set`` may call the inputs of these bounds -> code name.

    A code name means itself. A symbol means what it stands for in these theorems, and what it stands for in the paper
    where they don't use it, or not all for the same.
    """
    rows = [item.row for theorem in theorems if not any(shape(theorem)) for item in inputs(theorem)]
    meant: dict[str, set[str]] = {}
    for row in rows:
        for spelling in row.spellings:
            meant.setdefault(spelling, set()).add(row.code)
    own = {symbol: min(codes) for symbol, codes in meant.items() if len(codes) == 1}
    return ALIASES | own | {row.code: row.code for row in rows}


def evaluated(theorems: Sequence[Theorem], values: dict[str, Any]) -> dict[str, tuple[Rounded, dict[str, Any]]]:
    """Theorem id -> value of its right-hand side and the inputs it was evaluated with.

    Raises:
        ValueError: a name that no selected bound takes, or a number outside its domain.
    """
    for theorem in theorems:
        if fault := next(shape(theorem), None):
            raise ValueError(f"{theorem.id} has no bound: {fault}")
    needed = {theorem.id: inputs(theorem) for theorem in theorems}
    known = {item.row.code: item.row for items in needed.values() for item in items}
    if unknown := sorted(set(values) - known.keys()):
        choices = ", ".join(known[code].named for code in sorted(known))
        named = {row.code: row.named for row in NOTATION}
        told = ", ".join(named.get(code, code) for code in unknown)
        raise ValueError(f"no selected bound takes {told}; they take {choices or 'none'}")
    results: dict[str, tuple[Rounded, dict[str, Any]]] = {}
    refused: dict[str, str] = {}
    for theorem in theorems:
        own = {item.row.code: values.get(item.row.code, item.default) for item in needed[theorem.id]}
        if not any(name in own for name in values):
            continue  # nothing was said about this one
        try:
            check_scalars(theorem, own)
            check_axes(needed[theorem.id], own)
            check_lengths(theorem, values, own)
            exact = {name: _as_typed(number) for name, number in own.items() if number is not None}
            check_arrays(theorem, exact)
            results[theorem.id] = exact_bound(theorem, **exact), own
        except ArithmeticError as reason:
            refused[theorem.id] = f"{theorem.id} has no value at these numbers: {reason}"
        except IndexError:
            more = _more(needed[theorem.id], values)
            refused[theorem.id] = f"{theorem.id} needs longer arrays for these numbers: {more}"
        except ValueError as reason:
            refused[theorem.id] = str(reason)
    if not results:
        raise ValueError(next(iter(refused.values())))
    for reason in refused.values():
        typer.echo(f"onebit prove: not evaluated: {reason}", err=True)
    return results


IN_MEMORY = "; theory.rounding has the tolerances of arrays in memory"


def _entries(item: Input, given: int | None = None) -> str:
    """How many entries an array with one axis must have, and has: `` (2 of T + 1 entries)``; else nothing."""
    wanted = item.row.shape.strip("()").removesuffix(",")
    if not wanted or "," in wanted:
        return ""
    return f" ({wanted} entries)" if given is None else f" ({given} of {wanted} entries)"


def _more(items: Iterable[Input], values: Mapping[str, Any]) -> str:
    """What to do where an array does not reach so far."""
    items = list(items)
    arrays = [item for item in items if not isinstance(item.row.symbol, sp.Symbol)]
    given = {item.row.code: len(values[item.row.code]) for item in arrays if item.row.code in values}
    counts = [item for item in items if item not in arrays and item.row.code not in values]
    for name, size in given.items():
        if beyond := [item for item in counts if isinstance(item.default, int) and item.default > size]:
            first = beyond[0]
            told = f"{name} has {size}, and {first.row.code} is {first.default} unless it is given"
            return f"{told}; give {first.row.code}={size}, say{IN_MEMORY}"
    left = [item for item in arrays if item.row.code not in values]
    if not left:
        told = " and ".join(item.row.code + _entries(item, given.get(item.row.code)) for item in arrays)
        return f"give more of {told}, or smaller numbers{IN_MEMORY}"
    first = left[0]
    return (
        f"the defaults of {' and '.join(item.row.code for item in left)} are those of a small example; give "
        f"{first.row.code}={sample_of(axes_of(first.default) or 1)}{_entries(first)} and so on, or smaller "
        f"numbers{IN_MEMORY}"
    )
