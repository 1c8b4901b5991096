"""Statements on an instance: is there one that meets the hypotheses, so that a theorem is not empty?

The example of a theorem gives a value to every variable. :func:`contradictions` checks that each hypothesis holds
there and that the conclusion does, in intervals (:mod:`theory.arithmetic`): nothing underflows. What can't be
evaluated, or what the example's arrays don't reach, does not hold. Three things remain that a false theorem could hide
behind:

- an example is a run in float64, so an equation, and a <= of arrays or functions, holds up to :data:`ROUNDING` of its
  terms; a <, and a <= whose terms cancel, must hold by more. Hypotheses that contradict one another by less than that
  are not noticed;
- a quantifier over all steps runs as far as the arrays are given, :data:`LONGEST` values at most;
- a quantifier over numbers or vectors runs over a sample, relative to the numbers of the example and to what both sides
  of the hypothesis come to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from theory.algebra import exactly
from theory.arithmetic import ROUNDING, Intervals, NotEvaluated, Unsettled, settled
from theory.evaluate import check_domain, evaluate, summed
from theory.formula import CACHED, At, ForAll, Formula, Implies, eq, relations, sign_of
from theory.theorem import Example, Theorem

LONGEST = 12
"""Values of an index that a quantifier without a limit runs through, at most."""
NUMBERS = tuple(map(mpmath.mpf, (-1e6, -2.0, -0.75, 0.0, 0.5, 3.0, 1e6)))
DRAWS = 24
"""Values that a quantifier over numbers or vectors takes."""
LARGEST = 1e12
"""An example is a run in float64: above this its rounding could hide a contradiction of whole numbers."""
HIGHEST_POWER = 2**40
"""2 to a number of the example is tried as well, up to this power."""
FEW_OPERATIONS = 20
CANCELLING = 2**10
"""The terms of two sides cancel if they come to so many times what the sides come to."""


class Met(Enum):
    """How a relation is to be met."""

    NEARLY = "up to rounding"
    ROUNDED = "by more than equations are off that hold up to rounding"
    EXACTLY = "as it stands"


def instance(theorem: Theorem, description: str, inputs: Mapping[str, Any]) -> Example:
    """An example whose attained value is the left-hand side on ``inputs``, say on the arrays that a run left."""
    values = {row.symbol: inputs[row.code] for row in theorem.variables if row.code in inputs}
    return Example(description, float(evaluate(theorem.conclusion.lhs, values)), inputs)


def contradictions(theorem: Theorem, inputs: Mapping[str, Any]) -> list[str]:
    """What is wrong with an instance: a value missing or outside its domain, a hypothesis or the conclusion false."""
    found: list[str] = []
    values: dict[Any, Any] = {}
    for row in theorem.variables:
        if row.code not in inputs:
            found.append(f"the example gives no value for {row.code}")
            continue
        try:
            check_domain(row, inputs[row.code])
        except ValueError as reason:
            found.append(f"the example: {reason}")
            continue
        value = inputs[row.code]
        if not row.coq and not callable(value) and np.abs(np.asarray(value, float)).max(initial=0) > LARGEST:
            found.append(f"the example: {row.code} is above {LARGEST:g}, where rounding could hide a contradiction")
        values[row.symbol] = inputs[row.code]
    found += [
        f"the example lies outside the instance: {symbol} is {values[symbol]}, not {value}"
        for symbol, value in theorem.instance.items()
        if symbol in values and not true_of(eq(symbol, value), values)
    ]
    if found:
        return found
    met = Met.EXACTLY if all(_is_exact(item.formula, values) for item in theorem.hypotheses) else Met.ROUNDED
    found += [
        f"the example does not meet the hypothesis {item.name!r}{reason}"
        for item in theorem.hypotheses
        if (reason := _unmet(item.formula, values, met=met)) is not None
    ]
    if not found and (reason := _unmet(theorem.conclusion, values, met=Met.NEARLY)) is not None:
        found.append(f"the conclusion is false on the example{reason}")
    return found


def _is_exact(formula: Formula, values: Mapping[Any, Any]) -> bool:
    """Whether no rounding of a run is in it: it is no equation, or one of numbers that hold exactly."""
    if isinstance(formula, sp.Eq):
        try:
            return exactly(formula, values) is True
        except (KeyError, TypeError, ValueError, ZeroDivisionError):  # arrays, functions
            return False
    return not any(isinstance(one, sp.Eq) for one in relations(formula))


def _unmet(formula: Formula, values: Mapping[Any, Any], *, met: Met) -> str | None:
    """None if a formula holds; if not, the reason why it can't be evaluated, empty if it can."""
    try:
        return None if holds(formula, values, met=met) else ""
    except NotEvaluated as reason:
        return f": {reason}"


def holds(formula: Formula, values: Mapping[Any, Any], *, met: Met = Met.NEARLY) -> bool:
    """Whether a formula holds for these values, on the range that they cover, and at one place at least.

    With ``NEARLY`` every relation may be off by rounding, else only those that the rounding of a run can touch.

    Raises:
        NotEvaluated: it can't be evaluated there, or the arrays that are given reach no place of its range.
    """
    reached = False
    for truth in _places(formula, values, met=met):
        if truth is False:
            return False
        reached = reached or truth is True
    if not reached:
        raise NotEvaluated("its arrays are too short, or no number of the sample could be tried")
    return True


def _places(formula: Formula, values: Mapping[Any, Any], *, met: Met) -> Iterator[bool | None]:
    """Whether a formula holds, place by place of its range; None where an endless range is not covered."""
    if isinstance(formula, ForAll):
        endless = any(limit is None for _, limit in formula.bound())
        places = list(_ranged(formula, values))
        if not places:
            yield True  # there is no k below 0
        for inner in places:
            try:
                yield from _places(formula.body, inner, met=met)
            except NotEvaluated:
                if not endless:
                    raise
                yield None
    elif isinstance(formula, Implies):
        if all(_given(item, values) for item in formula.given):
            yield from _places(formula.body, values, met=met)
        else:
            yield True
    else:
        yield true_of(formula, values, met=met)


def _given(formula: Formula, values: Mapping[Any, Any]) -> bool:
    """Whether what an implication starts from holds; where it can't be evaluated nothing follows."""
    try:
        return holds(formula, values, met=Met.ROUNDED)
    except NotEvaluated:
        return False


def _ranged(formula: ForAll, values: Mapping[Any, Any]) -> Iterator[dict[Any, Any]]:
    """Values of what is bound: every index of a range, with a sample of numbers and vectors."""
    indices = [(variable, limit) for variable, limit in formula.bound() if _is_index(variable)]
    others = [variable for variable, _ in formula.bound() if not _is_index(variable)]
    counts = [
        range(LONGEST if limit is None else settled(lambda a, n=limit: a.whole(evaluate(n, values, a))))
        for _, limit in indices
    ]
    for combination in product(*counts):
        inner = {**values, **dict(zip((variable for variable, _ in indices), combination, strict=True))}
        yield from _samples(formula.body, others, inner) if others else (inner,)


def _is_index(variable: Any) -> bool:
    return not isinstance(variable, sp.IndexedBase) and bool(variable.is_integer)


def _samples(body: Formula, variables: list[Any], values: Mapping[Any, Any]) -> Iterator[dict[Any, Any]]:
    """Draws of numbers and vectors: first from the example's own numbers, then from what both sides came to there."""
    chance = np.random.default_rng(3)
    scalars = [value for value in values.values() if isinstance(value, (int, float)) and not isinstance(value, bool)]
    own = [mpmath.mpf(value) for value in scalars]
    numbers = [*NUMBERS, *_around(own)]
    longest = int(max([64, *(value + 1 for value in scalars if isinstance(value, int) and value < 10**5)]))
    scale = float(max([1.0, *map(abs, scalars)]))
    reached: list[Any] = []
    for draw in range(2 * DRAWS):
        if draw == DRAWS:
            if any(isinstance(variable, sp.IndexedBase) for variable in variables):
                return
            numbers = _around(_farthest(reached))
        if not numbers:
            return
        one: dict[Any, Any] = {}
        for variable in variables:
            alike = [value for other, value in one.items() if type(other) is type(variable)]
            if alike and chance.random() < 1 / 2:
                one[variable] = alike[-1]
            elif isinstance(variable, sp.IndexedBase):
                one[variable] = _vector(chance, longest, scale)
            else:
                place = draw % DRAWS
                one[variable] = (
                    numbers[place] if len(variables) == 1 and place < len(numbers) else chance.choice(numbers)
                )
        inner = {**values, **one}
        inner |= _solved(body, variables, inner)
        if draw < DRAWS:
            reached += _sides(body, inner)
        yield inner


def _vector(chance: np.random.Generator, length: int, scale: float) -> np.ndarray:
    """A constant vector, zero too, or a random one, of the size of the example's numbers or of size 1."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: np.zeros(length), lambda: np.ones(length), lambda: chance.normal(0, 1, length),
        lambda: chance.normal(0, 2 * scale, length),
    )  # fmt: skip
    return kinds[chance.integers(len(kinds))]()


def _around(numbers: list[Any]) -> list[Any]:
    """Each number, its double, its neighbours, its inverse and 2 to it, with both signs, and 0."""
    found: dict[Any, None] = {}
    for number in numbers:
        x = abs(number)
        powers = [mpmath.ldexp(1, int(x) + 1)] if x < HIGHEST_POWER else []
        for near in (2 * x, x, x + 1, x / 2, *powers, *([1 / x] if x else [])):
            found |= {near: None, -near: None}
    return list(found)


def _farthest(numbers: list[Any]) -> list[Any]:
    """The two largest and the smallest of them but 0: beyond these a relation that held may fail."""
    sizes = sorted({abs(number) for number in numbers if number})
    return [*sizes[-2:], *sizes[:1]]


def _sides(body: Formula, values: Mapping[Any, Any]) -> list[Any]:
    """What both sides of every relation of a formula come to, where they can be evaluated."""
    found: list[Any] = []
    for side in (side for relation in relations(body) for side in relation.args):
        try:
            found.append(mpmath.mpf(settled(lambda a, s=side: evaluate(s, values, a).mid)._mpi_[0]))
        except (NotEvaluated, ArithmeticError, IndexError, KeyError, AttributeError):
            continue
    return found


def _solved(body: Formula, variables: list[Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Vectors that what is given defines: ``if (for all k < n: v[k] == ...) then`` leaves no choice of v."""
    found: dict[Any, Any] = {}
    for item in body.given if isinstance(body, Implies) else ():
        if isinstance(item, ForAll) and len(item.variables) == 1 and isinstance(item.body, sp.Eq):
            ((index, limit),) = item.bound()
            side: Any = item.body.lhs
            if isinstance(side, sp.Indexed) and side.base in variables and side.indices == (index,):
                length = int(evaluate(limit, values))
                rows = [evaluate(item.body.rhs, {**values, index: k}) for k in range(length)]
                found[side.base] = np.array(rows, float)
    return found


def true_of(relation: Any, values: Mapping[Any, Any], *, met: Met = Met.NEARLY) -> bool:
    """Whether a relation holds for these values.

    Up to rounding, if ``NEARLY``; else rounding may touch equations, and <= and >= of arrays and functions.

    Raises:
        NotEvaluated: it can't be evaluated, or it can't be told.
    """
    sign = sign_of(relation)
    of_a_run = relation.has(sp.Indexed, At, AppliedUndef) and sign in ("<=", ">=")
    slack = ROUNDING if (met is Met.NEARLY or of_a_run or sign == "==") and not _has_one_term(relation) else 0.0

    def told(arithmetic: Intervals) -> bool:
        lhs, rhs = (evaluate(side, values, arithmetic) for side in (relation.lhs, relation.rhs))
        if sign == "!=":
            return not arithmetic.equal(lhs, rhs)
        if sign == "==" and not slack:
            return arithmetic.equal(lhs, rhs)
        less, more = (lhs, rhs) if sign in ("<", "<=") else (rhs, lhs)
        strict, size, gap = sign in ("<", ">"), abs(lhs) + abs(rhs), abs(lhs - rhs) if sign == "==" else less - more
        if slack:
            with suppress(Unsettled):
                if arithmetic.below(gap, slack * size, strict=strict):
                    return True
        terms = sum(_size(side, values, arithmetic) for side in (relation.lhs, relation.rhs))
        if not slack:  # by more than an equation of the same terms may be off, if it is strict or they cancel
            rounded = met is Met.ROUNDED and not arithmetic.below(terms, CANCELLING * size, strict=False)
            return arithmetic.below(less + (ROUNDING * terms if strict or rounded else 0), more, strict=strict)
        return arithmetic.below(gap, slack * terms, strict=strict)

    try:
        return settled(told)
    except Unsettled:
        if (known := exactly(relation, values)) is None:
            raise
        return known
    except IndexError:
        raise NotEvaluated("an array of the example is too short") from None
    except ZeroDivisionError:
        raise NotEvaluated("something is divided by 0") from None


@lru_cache(maxsize=CACHED)
def _has_one_term(relation: Any) -> bool:
    """Whether one side less the other is a number or a product: then nothing is rounded that could cancel."""
    if sp.count_ops(relation) > FEW_OPERATIONS:  # SymPy takes long over it
        return False
    return not sp.expand(relation.lhs - relation.rhs).has(sp.Add, sp.Sum)


def _size(expression: Any, values: Mapping[Any, Any], arithmetic: Intervals) -> Any:
    """What the terms of an expression come to with their signs left out: to this, rounding errors are in proportion."""
    if isinstance(expression, sp.Add):
        return sum(_size(term, values, arithmetic) for term in expression.args)
    if isinstance(expression, sp.Mul):
        return math.prod(_size(factor, values, arithmetic) for factor in expression.args)
    if isinstance(expression, sp.Pow) and expression.exp.is_Integer and expression.exp > 0:
        return _size(expression.base, values, arithmetic) ** int(expression.exp)
    if isinstance(expression, sp.Sum):
        return summed(expression, values, arithmetic, of=lambda term, inner: _size(term, inner, arithmetic))
    return abs(evaluate(expression, values, arithmetic))
