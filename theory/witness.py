"""Statements on an instance: is there one that meets the hypotheses, so that a theorem is not empty?

The example of a theorem gives a value to every variable. :func:`contradictions` checks that each hypothesis holds
there and that the conclusion does, exactly: in fractions, or where a root or an exponential is no fraction in intervals
(:mod:`theory.arithmetic`), so nothing is rounded and nothing underflows. What can't be evaluated, or what the example's
arrays don't reach, does not hold. Two things remain that a false theorem could hide behind:

- a quantifier over all steps runs as far as the arrays are given, :data:`LONGEST` values at most;
- a quantifier over numbers or vectors runs over a sample, relative to the numbers of the example and to what both sides
  of the hypothesis come to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from theory.arithmetic import Intervals, NotEvaluated, Unsettled, settled
from theory.domains import check_domain
from theory.evaluate import INEQUALITIES, contradicted, evaluate
from theory.formula import ForAll, Formula, Implies, eq, free_names, free_symbols, relations, sign_of
from theory.rationals import RATIONALS, Rationals
from theory.theorem import Example, Theorem

LONGEST = 12
"""Values of an index that a quantifier without a limit runs through, at most."""
MOST_PLACES = 10**6
"""Values of its indices together that a quantifier with limits runs through, at most."""
NUMBERS = tuple(map(mpmath.mpf, (-1e6, -2.0, -0.75, 0.0, 0.5, 3.0, 1e6)))
DRAWS = 24
"""Values that a quantifier over numbers or vectors takes."""
HIGHEST_POWER = 2**40
"""2 to a number of the example is tried as well, up to this power."""


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
        values[row.symbol] = inputs[row.code]
    found += [
        f"the example lies outside the instance: {symbol} is {values[symbol]}, not {value}"
        for symbol, value in theorem.instance.items()
        if symbol in values and not true_of(eq(symbol, value), values)
    ]
    if found:
        return found
    for item in theorem.hypotheses:
        found += _unmet(f"the example does not meet the hypothesis {item.name!r}", item.formula, values)
    return found or _unmet("the conclusion is false on the example", theorem.conclusion, values)


def _unmet(told: str, formula: Formula, values: Mapping[Any, Any]) -> list[str]:
    """What is to be told of a formula that does not hold, or of which that can't be said; nothing if it holds."""
    try:
        if holds(formula, values):
            return []
    except Unsettled as reason:
        return [f"{told}, as far as can be told: {reason}"]
    except NotEvaluated as reason:
        return [f"{told}: {reason}"]
    if any(isinstance(one, sp.Eq) for one in relations(formula)):
        return [f"{told} (nothing is rounded: 0.1 is a float, Fraction(1, 10) a tenth)"]
    return [told]


def holds(formula: Formula, values: Mapping[Any, Any]) -> bool:
    """Whether a formula holds for these values, on the range that they cover, and at one place at least.

    Raises:
        NotEvaluated: it can't be evaluated there, or the arrays that are given reach no place of its range.
    """
    reached = False
    for truth in _places(formula, values):
        if truth is False:
            return False
        reached = reached or truth is True
    if not reached:
        raise NotEvaluated("its arrays are too short, or no number of the sample could be tried")
    return True


def check_arrays(theorem: Theorem, values: Mapping[str, Any]) -> None:
    """Refuse, with a ValueError, arrays that don't meet an inequality for all indices about inputs alone."""
    known = {row.symbol: values[row.code] for row in theorem.variables if values.get(row.code) is not None}
    for item in theorem.hypotheses:
        formula = item.formula
        if not isinstance(formula, ForAll) or not isinstance(formula.body, INEQUALITIES):
            continue
        if not all(_is_index(one) for one, _ in formula.bound()) or not free_symbols(formula) <= known.keys():
            continue
        with suppress(NotEvaluated, Unsettled):
            if not holds(formula, known):
                raise contradicted(theorem, item)


def _places(formula: Formula, values: Mapping[Any, Any]) -> Iterator[bool | None]:
    """Whether a formula holds, place by place of its range; None where an endless range is not covered."""
    if isinstance(formula, ForAll):
        endless = any(limit is None for _, limit in formula.bound())
        places = list(_ranged(formula, values))
        if not places:
            yield True  # there is no k below 0
        for inner in places:
            try:
                yield from _places(formula.body, inner)
            except NotEvaluated:
                if not endless:
                    raise
                yield None
    elif isinstance(formula, Implies):
        if all(_given(item, values) for item in formula.given):
            yield from _places(formula.body, values)
        else:
            yield True
    else:
        yield true_of(formula, values)


def _given(formula: Formula, values: Mapping[Any, Any]) -> bool:
    """Whether what an implication starts from holds; where it can't be evaluated nothing follows."""
    try:
        return holds(formula, values)
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
    if math.prod(map(len, counts)) > MOST_PLACES:
        raise NotEvaluated(f"it speaks of more than {MOST_PLACES:,} places: give a smaller example")
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
    """A constant vector, zero too, or a random one, of the size of the example's numbers or of size 1.

    Its numbers have few bits, so that a function of the example need not round.
    """
    size = chance.choice([0.0, 1.0, 2 * 2.0 ** math.ceil(math.log2(scale))])
    return size * chance.choice([np.ones(length), np.round(chance.normal(0, 1, length) * 2**6) / 2**6])


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
                rows = [evaluate(item.body.rhs, {**values, index: k}, RATIONALS) for k in range(length)]
                found[side.base] = np.array(rows, object)
    return found


def true_of(relation: Any, values: Mapping[Any, Any]) -> bool:
    """Whether a relation holds for these values: exactly, nothing is rounded.

    Raises:
        Unsettled: it can't be told: two numbers are not fractions, and equal or very near each other.
        NotEvaluated: it can't be evaluated.
    """
    sign = sign_of(relation)

    def told(arithmetic: Intervals | Rationals) -> bool:
        lhs, rhs = (evaluate(side, values, arithmetic) for side in relation.args)
        if sign in ("==", "!="):
            return arithmetic.equal(lhs, rhs) is (sign == "==")
        less, more = (lhs, rhs) if sign in ("<", "<=") else (rhs, lhs)
        return arithmetic.below(less, more, strict=sign in ("<", ">"))

    try:
        with suppress(Unsettled):
            return told(RATIONALS)
        try:
            return settled(told)
        except Unsettled:  # equal, and no fractions
            if not _equal_in_sympy(relation, values):
                raise
            return sign in ("==", "<=", ">=")
    except IndexError:
        raise NotEvaluated("an array of the example is too short") from None
    except ZeroDivisionError:
        raise NotEvaluated("something is divided by 0") from None


def _equal_in_sympy(relation: Any, values: Mapping[Any, Any]) -> bool:
    """Whether SymPy finds that both sides are one number: roots, pi and exponentials of scalars."""
    names = {name for side in relation.args for name in free_names(side)}
    if any(not isinstance(name, sp.Symbol) or callable(values[name]) for name in names):
        return False
    given = {name: sp.Rational(v) if isinstance(v := values[name], float) else sp.sympify(v) for name in names}
    return bool(sp.simplify(relation.lhs.xreplace(given) - relation.rhs.xreplace(given)) == 0)
