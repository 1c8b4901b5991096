"""The language of statements: SymPy expressions, plus quantifiers, arrays, and the functions that SymPy lacks.

A statement is built from symbols and arrays (``IndexedBase``: ``u[k]``, ``x[t, k]``, and ``x[t]`` for a row), sums
``Sum(f, (k, 0, n - 1))``, and relations. :class:`ForAll` and :class:`Implies` make hypotheses of relations. The same
object is printed as LaTeX, as plain text, and as Coq (:mod:`theory.coq_printer`), and it is evaluated in numbers
(:mod:`theory.evaluate`): there is no second copy of a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, cast

import sympy as sp
from sympy.core.relational import Relational

Expression = Annotated[Any, "an expression or a number", sp.Expr, int, float, Fraction]
"""A part of a statement or a number. SymPy's types say too little of it for a type checker (:mod:`theory.kinds`)."""
Variable = Annotated[Any, "a symbol or an array", sp.Symbol, sp.IndexedBase]
"""What a quantifier binds."""
CACHED = 4096
"""Formulas for which an answer is kept: a mutant has all its formulas but one in common with its theorem."""


class sgn(sp.Function):  # noqa: N801 - printed under this name
    """Sign of a real number with sgn(0) = +1 [C2]."""

    nargs = 1

    def _latex(self, printer: Any, exp: str = "") -> str:
        return rf"\operatorname{{sgn}}{f'^{{{exp}}}' if exp else ''}\left({printer._print(self.args[0])}\right)"

    def _eval_is_real(self) -> bool:
        return True


class At(sp.Function):
    """Coordinate k of a vector that is itself an expression: ``At(grad(x[t]), k)``."""

    nargs = 2

    def _latex(self, printer: Any, exp: str = "") -> str:
        vector, index = map(printer._print, self.args)
        return rf"{vector}_{{{index}}}" + (f"^{{{exp}}}" if exp else "")

    def _eval_is_real(self) -> bool:
        return True


def array(name: str) -> Any:
    """An array (``IndexedBase``) of real numbers with any number of axes; SymPy's types don't know its elements."""
    return cast(sp.IndexedBase, sp.IndexedBase(name, real=True))


def eq(lhs: Any, rhs: Any) -> Relational:
    """``lhs == rhs`` as it stands (SymPy would replace what it can decide by True)."""
    return cast(Relational, sp.Eq(sp.sympify(lhs), sp.sympify(rhs), evaluate=False))


def ne(lhs: Any, rhs: Any) -> Relational:
    """``lhs != rhs`` as it stands."""
    return cast(Relational, sp.Ne(sp.sympify(lhs), sp.sympify(rhs), evaluate=False))


def ge(lhs: Any, rhs: Any) -> Relational:
    """``lhs >= rhs`` as it stands."""
    return cast(Relational, sp.Ge(sp.sympify(lhs), sp.sympify(rhs), evaluate=False))


def le(lhs: Any, rhs: Any) -> Relational:
    """``lhs <= rhs`` as it stands."""
    return cast(Relational, sp.Le(sp.sympify(lhs), sp.sympify(rhs), evaluate=False))


def lt(lhs: Any, rhs: Any) -> Relational:
    """``lhs < rhs`` as it stands."""
    return cast(Relational, sp.Lt(sp.sympify(lhs), sp.sympify(rhs), evaluate=False))


def total(term: Any, index: sp.Symbol, count: Any) -> sp.Sum:
    """Sum of ``term`` over ``index`` = 0 ... ``count`` - 1."""
    return cast(sp.Sum, sp.Sum(term, (index, 0, sp.sympify(count) - 1)))


def mean(term: Any, index: sp.Symbol, count: Any) -> sp.Expr:
    """Mean of ``term`` over ``index`` = 0 ... ``count`` - 1."""
    return cast(sp.Expr, total(term, index, count) / count)


def norm_squared(term: Any, index: sp.Symbol, count: Any) -> sp.Sum:
    """Sum of squares of ``term`` over ``index`` = 0 ... ``count`` - 1."""
    return total(term**2, index, count)


@dataclass(frozen=True)
class ForAll:
    """``body`` for all values of the variables: a variable alone, or ``(index, count)`` for index = 0 ... count - 1."""

    variables: tuple[Variable | tuple[Variable, Expression], ...]
    body: Formula

    def bound(self) -> Iterator[tuple[sp.Basic, sp.Expr | None]]:
        """Each variable with its count, None where it has none."""
        for item in self.variables:
            yield (item[0], sp.sympify(item[1])) if isinstance(item, tuple) else (item, None)


@dataclass(frozen=True)
class Implies:
    """``body`` where every relation of ``given`` holds."""

    given: tuple[Formula, ...]
    body: Formula


Formula = Relational | ForAll | Implies


def sign_of(relation: Relational) -> str:
    """``"=="``, ``"<="``, ``"<"``, ``">="`` or ``">"``."""
    return str(relation.rel_op)  # pyright: ignore[reportAttributeAccessIssue]


def relations(formula: Formula) -> Iterator[Relational]:
    """Every relation in ``formula``, the given ones first."""
    if isinstance(formula, ForAll):
        yield from relations(formula.body)
    elif isinstance(formula, Implies):
        for item in (*formula.given, formula.body):
            yield from relations(item)
    else:
        yield formula


@lru_cache(maxsize=CACHED)
def bound_variables(formula: Formula) -> frozenset[Any]:
    """What ``formula`` quantifies or sums over: symbols and arrays."""
    if isinstance(formula, ForAll):
        return bound_variables(formula.body) | {variable for variable, _ in formula.bound()}
    if isinstance(formula, Implies):
        return frozenset().union(*(bound_variables(item) for item in (*formula.given, formula.body)))
    return frozenset(index for part in formula.atoms(sp.Sum) for index, *_ in part.limits)


@lru_cache(maxsize=CACHED)
def free_symbols(formula: Formula) -> frozenset[Any]:
    """Symbols, arrays and function names that ``formula`` speaks of and doesn't quantify over."""
    if isinstance(formula, ForAll):
        names = free_symbols(formula.body)
        for variable, count in formula.bound():
            names = (names - {variable}) | (free_names(count) if count is not None else set())
        return names
    if isinstance(formula, Implies):
        return frozenset().union(*(free_symbols(item) for item in (*formula.given, formula.body)))
    return frozenset(free_names(formula))


def free_names(expression: Any) -> set[sp.Basic]:
    """Free symbols of an expression; for an element of an array the array itself; functions by their class."""
    found: set[Any] = set()
    bases = expression.atoms(sp.IndexedBase)
    labels = {base.label for base in bases}
    found |= bases
    found |= {symbol for symbol in expression.free_symbols if isinstance(symbol, sp.Symbol) and symbol not in labels}
    found |= {type(call) for call in expression.atoms(sp.core.function.AppliedUndef)}
    return found
