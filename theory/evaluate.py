"""Statements in numbers: the value of either side of a theorem, for inputs given by their code names.

A bound is the right-hand side of the theorem's relation and nothing else, so it can't differ from what is proved.
Inputs outside their domain are refused in one sentence; what is not given takes the default of its row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, cast

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from theory.formula import CACHED, At, ForAll, Formula, free_names, le, lt, sgn, sign_of
from theory.notation import Row
from theory.theorem import Hypothesis, Theorem

ROUNDING = 2.0**-42
"""Statements are evaluated in float64, in far fewer than 2^10 operations: equality is looked for up to this."""
MOST_TERMS = 10**7
"""A longer sum would take minutes."""
INEQUALITIES = (sp.Le, sp.Lt, sp.Ge, sp.Gt)
UNARY = {sp.Abs: np.abs, sp.exp: np.exp, sp.log: np.log, sgn: lambda x: np.where(np.asarray(x) >= 0, 1.0, -1.0)[()]}


@dataclass(frozen=True)
class Input:
    """One input of a bound: its row, and the value taken where none is given (None: it must be given)."""

    row: Row
    default: Any


def inputs(theorem: Theorem, side: Any = None) -> tuple[Input, ...]:
    """What the bound (or ``side``) needs, in the order of the notation table.

    A bound is its right-hand side under its :func:`conditions`: both have inputs. Where something has no default, an
    array say, or where the defaults contradict a hypothesis, all defaults are those of the theorem's example: they fit
    together.
    """
    names = free_names(theorem.conclusion.rhs if side is None else side)
    if side is None:
        names = names.union(*(free_names(item.formula) for item in conditions(theorem)))
    rows = [row for row in theorem.variables if row.symbol in names]
    defaults = {row.symbol: row.default for row in rows}
    unfit = None in defaults.values() or unmet(theorem, defaults) is not None
    example = theorem.example().inputs if unfit and theorem.example is not None else {}
    return tuple(Input(row, example.get(row.code, row.default)) for row in rows)


def bound(theorem: Theorem, **values: Any) -> Any:
    """Value of the theorem's right-hand side. Scalars may be NumPy arrays, which broadcast; arrays are nested lists.

    Raises:
        ValueError: a name is no input, a value is missing, lies outside its domain, or a hypothesis is not met.
    """
    known = with_defaults(theorem, None, values)
    check_conditions(theorem, known)
    return evaluate(theorem.conclusion.rhs, known)


def conditions(theorem: Theorem) -> tuple[Hypothesis, ...]:
    """Inequalities between scalars among the hypotheses: without them the bound says nothing, so they are checked.

    Each scalar must be an input of the right-hand side, or have a default. One without a default is the outcome of a
    computation, a number as it is stored say: what is assumed of it is not for the user to meet.
    """
    known = free_names(theorem.conclusion.rhs) | {row.symbol for row in theorem.variables if row.default is not None}
    return tuple(
        item
        for item in (*theorem.hypotheses, *implied(theorem))
        if isinstance(item.formula, INEQUALITIES)
        if all(isinstance(name, sp.Symbol) and name in known for name in free_names(item.formula))
    )


def implied(theorem: Theorem) -> tuple[Hypothesis, ...]:
    """What the theorem says is implied, and what its hypotheses say of the two ends of something between them."""
    return theorem.implied + _squeezed(theorem.hypotheses)


@lru_cache(maxsize=CACHED)
def _squeezed(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """a <= c wherever hypotheses say a <= b and b <= c, for all k say.

    So numbers that leave no b are refused, though b itself, an array of the run, is no input.
    """
    steps = [step for item in hypotheses for step in _inequalities(item.formula)]
    squeezed = {
        (lower, upper): strict or also
        for lower, middle, strict in steps
        for other, upper, also in steps
        if middle == other and not any(end.has(sp.Indexed, *_INDICES) for end in (lower, upper))
    }
    return tuple(
        Hypothesis("squeezed", (lt if strict else le)(lower, upper), f"{lower} {'<' if strict else '<='} {upper}")
        for (lower, upper), strict in squeezed.items()
    )


_INDICES = tuple(sp.Symbol(f"index {place}", integer=True) for place in range(10))


def _inequalities(formula: Formula) -> Iterator[tuple[sp.Expr, sp.Expr, bool]]:
    """What is less, what is more, and whether strictly; for all k < count, k under a name of its own."""
    names: dict[Any, Any] = {}
    while isinstance(formula, ForAll):
        for variable, count in formula.bound():
            if count is not None and not count.is_positive:
                return  # there may be no k
            names[variable] = _INDICES[len(names)]
        formula = formula.body
    if isinstance(formula, INEQUALITIES) and all(isinstance(name, sp.Symbol) for name in names):
        less, more = (cast(sp.Expr, side.xreplace(names)) for side in (formula.lts, formula.gts))  # pyright: ignore[reportAttributeAccessIssue]
        yield less, more, sign_of(formula) in ("<", ">")


def check_conditions(theorem: Theorem, values: Mapping[Any, Any]) -> None:
    """Refuse values that contradict a hypothesis which speaks of nothing but them, say of the step size.

    Raises:
        ValueError: one does; the message says what is asked for.
    """
    if (item := unmet(theorem, values)) is not None:
        raise ValueError(f"{theorem.id} does not apply to these numbers; it needs that {item.words}")


def unmet(theorem: Theorem, values: Mapping[Any, Any]) -> Hypothesis | None:
    """The first hypothesis on ``values`` alone that they do not meet, rounding aside."""
    for item in (*theorem.hypotheses, *implied(theorem)):
        if isinstance(item.formula, INEQUALITIES) and free_names(item.formula) <= values.keys():
            less, more = evaluate(item.formula.lts, values), evaluate(item.formula.gts, values)  # pyright: ignore[reportAttributeAccessIssue]
            strict = sign_of(item.formula) in ("<", ">")
            margin = ROUNDING * (abs(less) + abs(more))  # next to equality a strict relation is not known to hold
            if not np.all(less + margin < more if strict else less <= more + margin):
                return item
    return None


def with_defaults(theorem: Theorem, side: Any, values: Mapping[str, Any]) -> dict[Any, Any]:
    """Values by symbol for everything that the bound (``side`` None) or a side needs, checked against the domains.

    Raises:
        ValueError: a name is no input, a value is missing, or lies outside its domain.
    """
    needed = inputs(theorem, side)
    names = {item.row.code for item in needed}
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ValueError(f"{theorem.id} has no input {unknown[0]!r}; it takes {' '.join(sorted(names)) or 'none'}")
    result: dict[Any, Any] = {}
    for item in sorted(needed, key=lambda item: item.row.code not in values):  # what is given is looked at first
        value = values.get(item.row.code, item.default)
        if value is None:
            raise ValueError(f"{theorem.id} needs {item.row.code} ({item.row.meaning})")
        check_domain(item.row, value)
        result[item.row.symbol] = value
    return result


def check_domain(row: Row, value: Any) -> None:
    """Refuse a value outside the domain of its row.

    Raises:
        ValueError: it lies outside; the message says what is allowed.
    """
    if not isinstance(row.symbol, sp.Symbol) or callable(value):
        return
    numbers = np.asarray(value, dtype=float)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{row.code} = {value} is not a finite number")
    if row.is_count:
        least = 1 if row.symbol.is_positive else 0
        if (numbers != np.round(numbers)).any() or (numbers < least).any():
            raise ValueError(f"{row.code} = {value} is not a whole number of at least {least}")
        return
    low, high = (float(sp.N(end)) for end in (row.interval.start, row.interval.end))
    below = numbers <= low if row.interval.left_open else numbers < low
    above = numbers >= high if row.interval.right_open else numbers > high
    if (below | above).any():
        raise ValueError(f"{row.code} = {value} is outside its domain {domain_text(row)}")


def domain_text(row: Row) -> str:
    """``(0, 1)``, ``[0, oo)``, or ``1, 2, 3, ...`` for a count."""
    if row.is_count:
        return "1, 2, 3, ..." if row.symbol.is_positive else "0, 1, 2, ..."
    if not isinstance(row.symbol, sp.Symbol):
        return "numbers"
    interval = row.interval
    left, right = "(" if interval.left_open else "[", ")" if interval.right_open else "]"
    return f"{left}{interval.start}, {interval.end}{right}"


def evaluate(expression: Any, values: Mapping[Any, Any]) -> Any:  # noqa: PLR0911  (one line a kind of node)
    """Value of an expression, given a value (or array, or function) for every free name in it."""
    e = sp.sympify(expression)
    if e.is_Number or e is sp.pi:
        return float(e)
    if isinstance(e, sp.Symbol):
        value = values[e]
        return value if isinstance(value, (int, np.integer)) else np.asarray(value, dtype=float)[()]
    if isinstance(e, sp.Indexed):
        return element(values[e.base], [evaluate(index, values) for index in e.indices])
    if isinstance(e, sp.IndexedBase):
        return values[e]
    if isinstance(e, sp.Sum):
        return summed(e, values)
    args = [evaluate(argument, values) for argument in e.args]
    if isinstance(e, sp.Add):
        return sum(args[1:], args[0])
    if isinstance(e, sp.Mul):
        return math.prod(args[1:], start=args[0])
    if isinstance(e, sp.Pow):
        return np.power(args[0], args[1]) if not isinstance(args[1], int) else args[0] ** args[1]
    if isinstance(e, (sp.Max, sp.Min)):
        return reduce(np.maximum if isinstance(e, sp.Max) else np.minimum, args)
    if isinstance(e, At):
        return element(args[0], [args[1]])
    if isinstance(e, AppliedUndef):
        return values[type(e)](*args)
    if hasattr(type(e), "numeric"):
        return type(e).numeric(*args)
    return UNARY[type(e)](args[0])


def summed(expression: sp.Sum, values: Mapping[Any, Any]) -> float:
    """Value of a sum, its terms added up exactly and rounded once.

    Raises:
        ValueError: it is too long.
    """
    *inner, (index, first, last) = expression.limits  # SymPy makes one object of a sum of sums, the inner index first
    term = sp.Sum(expression.function, *inner) if inner else expression.function
    counts = range(int(evaluate(first, values)), int(evaluate(last, values)) + 1)
    if counts.stop > MOST_TERMS:
        raise ValueError(f"a sum over {index} has {counts.stop:g} terms: more than {MOST_TERMS:,} are not added up")
    return math.fsum(evaluate(term, {**values, index: count}) for count in counts)


def element(values: Any, indices: list[Any]) -> Any:
    """An element (or row) of an array, which may be given as nested lists or as a function of its indices."""
    places = tuple(int(index) for index in indices)
    return values(*places) if callable(values) else np.asarray(values)[places]
