"""Statements in numbers: the value of either side of a theorem, for inputs given by their code names.

A bound is the right-hand side of the theorem's relation and nothing else, so it can't differ from what is proved.
Inputs outside their domain are refused in one sentence; what is not given takes the default of its row. :func:`bound`
computes in float64, on arrays too; :func:`exact_bound` in intervals, and gives digits that are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from theory.algebra import under_one_root
from theory.arithmetic import Answer, Floats, Intervals, NotEvaluated, Unsettled, settled
from theory.digits import Rounded, rounded
from theory.domains import check_domain
from theory.formula import CACHED, At, ForAll, Formula, free_names, le, lt, sgn, sign_of
from theory.notation import Row
from theory.rationals import RATIONALS, Rationals
from theory.text import text_of
from theory.theorem import Hypothesis, Theorem, run_example

FLOATS = Floats()
Arithmetic = Floats | Intervals | Rationals
MOST_TERMS = 10**7
"""A longer sum would take minutes."""
INEQUALITIES = (sp.Le, sp.Lt, sp.Ge, sp.Gt)


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
    unfit = None in defaults.values() or not _fit(theorem, defaults)
    example = run_example(theorem) if unfit else None
    given = example.inputs if example else {}
    return tuple(Input(row, given.get(row.code, row.default)) for row in rows)


def no_warnings() -> AbstractContextManager[None]:
    """What NumPy would warn of is an error; what the caller has it ignore stays as it is."""
    return np.errstate(**{kind: "raise" for kind, mode in np.geterr().items() if mode == "warn"})  # pyright: ignore[reportArgumentType]


def _fit(theorem: Theorem, defaults: Mapping[Any, Any]) -> bool:
    """Whether no hypothesis speaks against the defaults: one that has no value in float64 does."""
    try:
        with no_warnings():
            return unmet(theorem, defaults) is None
    except ArithmeticError:
        return False


def bound(theorem: Theorem, **values: Any) -> Any:
    """Value of the theorem's right-hand side. Scalars may be NumPy arrays, which broadcast; arrays are nested lists.

    Raises:
        ValueError: a name is no input, a value is missing, lies outside its domain, or a hypothesis is not met.
        NotEvaluated: it has no value there, or float64 doesn't reach so far.
    """
    known = with_defaults(theorem, None, values)
    try:
        with no_warnings():
            check_conditions(theorem, known)
            return evaluate(theorem.conclusion.rhs, known)
    except ArithmeticError as reason:
        told = f"{theorem.id} has no value in float64 at these numbers ({reason}): exact_bound takes any"
        raise NotEvaluated(told) from None


def exact_bound(theorem: Theorem, **values: Any) -> Rounded:
    """Value of the theorem's right-hand side, rounded once: a number is what it is, whole, fraction or float.

    Raises:
        ValueError: a name is no input, a value is missing, lies outside its domain, or a hypothesis is not met.
        NotEvaluated: it has no value there.
    """
    known = with_defaults(theorem, None, values)
    settled(lambda arithmetic: check_conditions(theorem, known, arithmetic))
    return settled_value(theorem.conclusion.rhs, known, rounded)


def settled_value(
    expression: Any, values: Mapping[Any, Any], answer: Callable[[Any, Intervals | Rationals], Answer]
) -> Answer:
    """What ``answer`` says of the value of an expression, which is computed exactly where no interval can tell.

    Raises:
        NotEvaluated: it has no value, or ``answer`` can't tell.
    """
    try:
        return settled(lambda arithmetic: answer(evaluate(expression, values, arithmetic), arithmetic))
    except Unsettled:
        value: Fraction = evaluate(expression, values, RATIONALS)
        try:
            return settled(lambda arithmetic: answer(arithmetic.rational(value), arithmetic))
        except Unsettled:  # a number halfway between two of six digits is one that no interval tells
            return answer(value, RATIONALS)


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
    """What it names as implied, and what its hypotheses say of the two ends of something between them."""
    return (*_proved(theorem), *_squeezed(theorem.hypotheses))


def _proved(theorem: Theorem) -> tuple[Hypothesis, ...]:
    each = theorem.implied
    return tuple(Hypothesis(item.id, item.conclusion, f"they obey {item.id} ({item.title})") for item in each)


@lru_cache(maxsize=CACHED)
def _squeezed(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """a <= c wherever hypotheses say a <= b and b <= c, for all k say.

    So numbers that leave no b are refused, though b itself, an array of the run, is no input.
    """
    steps = {step for item in hypotheses for step in _inequalities(item.formula)}
    while True:  # a <= b <= c <= d, whatever lies between
        further = {
            (lower, upper, strict or also)
            for lower, middle, strict in steps
            for other, upper, also in steps
            if middle == other
        }
        if further <= steps:
            break
        steps |= further
    known = {
        (lower, upper): (lower, upper, True) in steps
        for lower, upper, _ in sorted(steps, key=str)
        if not any(end.has(sp.Indexed, *_INDICES) for end in (lower, upper))
    }
    return tuple(
        Hypothesis("squeezed", (lt if strict else le)(lower, upper), f"{lower} {'<' if strict else '<='} {upper}")
        for (lower, upper), strict in known.items()
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


def check_conditions(theorem: Theorem, values: Mapping[Any, Any], arithmetic: Arithmetic = FLOATS) -> None:
    """Refuse values that contradict a hypothesis which speaks of nothing but them, say of the step size.

    Raises:
        ValueError: one does; the message says what is asked for.
    """
    if (item := unmet(theorem, values, arithmetic)) is not None:
        raise contradicted(theorem, item)


def contradicted(theorem: Theorem, item: Hypothesis) -> ValueError:
    """What says that numbers do not meet a hypothesis."""
    formula = text_of(item.formula)
    needed = formula if item.words == formula else f"{item.words}: {formula}"
    return ValueError(f"{theorem.id} does not apply to these numbers; it needs that {needed}")


def unmet(theorem: Theorem, values: Mapping[Any, Any], arithmetic: Arithmetic = FLOATS) -> Hypothesis | None:
    """The first hypothesis on ``values`` alone that they do not meet; equations up to rounding.

    That a number is one of a format is not asked: it is what rounding leaves.
    """
    unknown: ArithmeticError | None = None
    # What no choice of the others mends is told first.
    for item in (*_proved(theorem), *theorem.hypotheses, *_squeezed(theorem.hypotheses)):
        try:
            if not _met(item.formula, values, arithmetic):
                return item
        except Unsettled:
            raise
        except ArithmeticError as reason:  # perhaps because of one that is not met
            unknown = unknown or reason
    if unknown is not None:
        raise unknown
    return None


def _met(formula: Any, values: Mapping[Any, Any], arithmetic: Arithmetic) -> bool:
    """Whether ``values`` meet a formula, or it speaks of more than them."""
    if not isinstance(formula, (*INEQUALITIES, sp.Eq)) or not free_names(formula) <= values.keys():
        return True
    equation = isinstance(formula, sp.Eq)
    if equation and any(hasattr(kind, "numeric") for kind in map(type, formula.atoms(sp.Function))):
        return True
    ends = formula.args if equation else (formula.lts, formula.gts)  # pyright: ignore[reportAttributeAccessIssue]
    less, more = (evaluate(side, values, arithmetic) for side in ends)
    met = arithmetic.near if equation else partial(arithmetic.below, strict=sign_of(formula) in ("<", ">"))
    try:
        return met(less, more)
    except Unsettled:
        return _met(formula, values, RATIONALS)


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


def evaluate(expression: Any, values: Mapping[Any, Any], arithmetic: Arithmetic = FLOATS) -> Any:  # noqa: PLR0911, PLR0912
    """Value of an expression, given a value (or array, or function) for every free name in it.

    Raises:
        NotEvaluated: with intervals, where it has none.
        IndexError: an array is too short.
    """
    e: Any = sp.sympify(expression)
    if e.is_Rational:
        return arithmetic.rational(Fraction(int(e.p), int(e.q)))
    if e is sp.pi:
        return arithmetic.pi
    if e is sp.E:
        return arithmetic.exp(arithmetic.number(1))
    if e.is_Number:
        return arithmetic.number(float(e))
    if isinstance(e, sp.Symbol):
        return _number(values[e], arithmetic)
    if isinstance(e, sp.Indexed):
        places = [
            known if isinstance(known := values.get(index), int) else evaluate(index, values, arithmetic)
            for index in e.indices
        ]
        return element(values[e.base], places, arithmetic)
    if isinstance(e, sp.IndexedBase):
        return values[e]
    if isinstance(e, sp.Sum):
        return summed(e, values, arithmetic)
    e = under_one_root(e) if isinstance(e, sp.Mul) and arithmetic is RATIONALS else e
    args = [evaluate(argument, values, arithmetic) for argument in e.args]
    if isinstance(e, sp.Add):
        return sum(args[1:], args[0])
    if isinstance(e, sp.Mul):
        return math.prod(args[1:], start=args[0])
    if isinstance(e, sp.Pow):
        return arithmetic.power(*args)
    if isinstance(e, (sp.Max, sp.Min)):
        return (arithmetic.largest if isinstance(e, sp.Max) else arithmetic.smallest)(args)
    if isinstance(e, At):
        return element(args[0], [args[1]], arithmetic)
    if isinstance(e, AppliedUndef):
        return arithmetic.called(values[type(e)], args)
    if hasattr(type(e), "numeric"):
        return arithmetic.defined(type(e).numeric, args)
    if type(e) not in (known := {sp.Abs: abs, sp.exp: arithmetic.exp, sp.log: arithmetic.log, sgn: arithmetic.sign}):
        raise NotEvaluated(f"{type(e).__name__} is no number that can be computed here")
    return known[type(e)](args[0])


def summed(
    expression: sp.Sum,
    values: Mapping[Any, Any],
    arithmetic: Arithmetic = FLOATS,
    of: Callable[[Any, Mapping[Any, Any]], Any] | None = None,
) -> Any:
    """Value of a sum (or of something else ``of`` its terms), its terms added up exactly and rounded once.

    Raises:
        ValueError: it is too long.
    """
    *inner, (index, first, last) = expression.limits  # SymPy makes one object of a sum of sums, the inner index first
    term = sp.Sum(expression.function, *inner) if inner else expression.function
    start = arithmetic.whole(evaluate(first, values, arithmetic))
    counts = range(start, arithmetic.whole(evaluate(last + 1, values, arithmetic)))
    if counts.stop > MOST_TERMS:
        raise ValueError(f"a sum over {index} has {counts.stop:g} terms: more than {MOST_TERMS:,} are not added up")
    value = of or partial(evaluate, arithmetic=arithmetic)
    return arithmetic.total(value(term, {**values, index: count}) for count in counts)


def element(values: Any, indices: list[Any], arithmetic: Arithmetic = FLOATS) -> Any:
    """An element (or row) of an array, which may be given as nested lists or as a function of its indices.

    Raises:
        IndexError: the array does not reach so far.
    """
    places = tuple(index if isinstance(index, int) else arithmetic.whole(index) for index in indices)
    if min(places) < 0:
        raise IndexError(f"{min(places)} is no index")
    return _number(values(*places) if callable(values) else _item(values, places), arithmetic)


def _number(value: Any, arithmetic: Arithmetic) -> Any:
    """A value that is given: a number, also one of SymPy's, a root say; an array stays one."""
    return evaluate(value, {}, arithmetic) if isinstance(value, sp.Expr) else arithmetic.number(value)


def _item(values: Any, places: tuple[int, ...]) -> Any:
    """A place in an array, or in nested lists, which keep the numbers as they are."""
    if isinstance(values, np.ndarray):
        return values[places]
    for place in places:
        if not isinstance(values, (list, tuple, np.ndarray)):
            raise ValueError(f"an array has fewer axes than the {len(places)} that its formula takes: nest the lists")
        values = values[place]
    return np.asarray(values) if isinstance(values, (list, tuple)) else values
