"""The form of a theorem: it consists of relations, of parts that have a meaning, and of names that mean one thing.

:func:`shape` comes before anything else looks at a formula: what SymPy has decided, and what the project gives no
meaning, is refused in a sentence there. :func:`faults` has the rest: names, sums, powers, the words.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import sympy as sp

from theory import kinds, wording
from theory.coq_printer import FUNCTIONS
from theory.definedness import RELATIONS, undefined_powers, unknown_kinds
from theory.formula import (
    CACHED,
    At,
    ForAll,
    Formula,
    Implies,
    bound_variables,
    free_names,
    free_symbols,
    relations,
)
from theory.notation import NOTATION, code_of, count
from theory.theorem import Theorem
from theory.vocabulary import words

INDEX = count("index", least=0).assumptions0
NUMBER = sp.Symbol("number", real=True).assumptions0


def shape(theorem: Theorem) -> Iterator[str]:
    """What is of another kind than declared, no relation, without a meaning, or defined nowhere.

    With such a part nothing else can be said.
    """
    if wrong := list(kinds.faults(theorem)):
        yield from wrong
        return
    formulas: list[tuple[str, Any, bool]] = [("the conclusion", theorem.conclusion, False)]
    formulas += [(f"the hypothesis {item.name!r}", item.formula, True) for item in theorem.hypotheses]
    formulas += [(f"what {item.id} concludes", item.conclusion, False) for item in theorem.implied]
    found = False
    for name, formula, quantified in formulas:
        for relation in relations(formula) if quantified else (formula,):
            if type(relation) not in RELATIONS:
                where = name if relation is formula else f"in {name} {relation}"
                yield f"{where} is no relation: write it with eq, ne, le, lt or ge of theory.formula"
                found = True
            elif odd := [side for side in relation.args if not isinstance(side, sp.Expr)]:
                yield f"{odd[0]} is a side of a relation in {name}, and no number"
                found = True
            else:
                for reason in unknown_kinds(relation, words(theorem.coq_imports)):
                    yield reason
                    found = True
    if not found:
        try:
            _ = theorem.variables
        except ValueError as reason:
            yield str(reason)


def faults(theorem: Theorem) -> Iterator[str]:
    """What else is wrong with a theorem whose :func:`shape` is right, its proof aside."""
    yield from _wrong_names(theorem)
    for field in ("needs", "implied", "laws", "coq_imports"):
        named = [getattr(item, "id", item) for item in getattr(theorem, field)]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            yield f"`{field}` names {', '.join(twice)} twice: leave it there once"
    for kind, texts in (("code name", [row.code for row in theorem.variables]),
                        ("LaTeX", [row.looks for row in theorem.variables])):  # fmt: skip
        if twice := sorted({text for text in texts if texts.count(text) > 1}):
            yield f"two symbols have the same {kind}: {', '.join(twice)}"
    for row in theorem.variables:
        if row.looks in CONSTANTS and any(relation.has(CONSTANTS[row.looks]) for relation in _relations_of(theorem)):
            yield f"the symbol {row.code} is written as the constant {row.latex}, which the statement has too"
    for relation in _relations_of(theorem):
        yield from unknown_parts(relation, words(theorem.coq_imports))
        for side in relation.args:
            yield from undefined_powers(cast(sp.Expr, side), theorem)
    yield from _wrong_instance(theorem)
    yield from _nothing_to_prove(theorem)
    for formula in theorem.formulas:
        yield from _wrong_binders(formula)
    yield from wording.faults(theorem)


def _wrong_instance(theorem: Theorem) -> Iterator[str]:
    for symbol, value in theorem.instance.items():
        if symbol not in {row.symbol for row in theorem.variables}:
            yield f"the instance gives a value for {symbol}, of which it doesn't speak"
        number = sp.sympify(value)
        if not number.is_number or not number.is_real:
            yield f"the instance {symbol} = {value} is no number"
        elif symbol.is_integer and number.is_integer is not True:
            yield f"the instance {symbol} = {value} is not a whole number"
        elif theorem.domain(symbol).contains(number) is not sp.true:
            yield f"the instance {symbol} = {value} is outside the domain {theorem.domain(symbol)}"


CONSTANTS: dict[str, Any] = {r"\pi": sp.pi, "e": sp.exp}
"""How SymPy writes them."""


def _relations_of(theorem: Theorem) -> Iterator[Any]:
    return (relation for formula in theorem.formulas for relation in relations(formula))


def _nothing_to_prove(theorem: Theorem) -> Iterator[str]:
    if theorem.conclusion.lhs == theorem.conclusion.rhs:
        yield "both sides of the conclusion are the same: it says nothing"
    for item in theorem.hypotheses:
        if item.formula in (theorem.conclusion, theorem.conclusion.reversed):
            yield f"the hypothesis {item.name!r} is the conclusion itself: nothing is left to prove"


@lru_cache(maxsize=CACHED)
def unknown_parts(expression: sp.Basic, taken: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Parts whose meaning the project doesn't define, floats, sums with other limits than 0 ... n - 1."""
    return tuple(_find_unknown_parts(expression, taken))


def _find_unknown_parts(expression: sp.Basic, taken: frozenset[str]) -> Iterator[str]:
    symbols = [*expression.atoms(sp.Symbol), *(sum_.limits[0][0] for sum_ in expression.atoms(sp.Sum))]
    names = {symbol.name: symbol for symbol in symbols}
    if any(names[symbol.name] != symbol for symbol in symbols):
        yield "two different symbols have the same name"
    yield from unknown_kinds(expression, taken)
    for part in expression.atoms(sp.Sum):
        for inner, (index, *_) in enumerate(part.limits):
            if any(index in end.free_symbols for _, *ends in part.limits[inner:] for end in ends):
                yield f"a limit of the sum over {index} has a free {index}: choose another name for the index"
        for index, first, last in part.limits:
            length = last + 1
            if first != 0 or not (length.is_integer and length.is_nonnegative):
                yield f"the sum over {index} must run from 0 to a count less 1, not from {first} to {last}"
            if index.assumptions0 != INDEX:
                yield f"the index {index} of a sum must be a plain natural number: theory.notation.count(name, least=0)"


@lru_cache
def _meanings() -> frozenset[str]:
    """Names that the text of a statement would give another meaning: SymPy's, Python's, and those of our functions."""
    ours = {kind.__name__ for kind in (*FUNCTIONS, At)} - {row.code for row in NOTATION}
    return frozenset((*sp.__all__, *vars(builtins), *ours))


def _wrong_names(theorem: Theorem) -> Iterator[str]:
    """Names that are none, that hide a word, or that stand for two different things.

    Coq and the page know a thing by its name alone. So a name belongs to one symbol, array or function in all of a
    theorem, whether it is free or bound: SymPy would keep two symbols ``p`` of different assumptions apart.
    """
    owners: dict[str, set[Any]] = {}
    bound: set[Any] = set().union(*(bound_variables(formula) for formula in theorem.formulas))
    for thing in (*bound, *(row.symbol for row in theorem.variables)):
        owners.setdefault(code_of(thing), set()).add(thing)
    for name, things in sorted(owners.items()):
        if len(things) > 1:
            yield f"two different symbols have the same name {name}, one of them bound: choose another"
        if name in _meanings() or not name.strip("_"):
            yield f"the name {name!r} has a meaning of its own in SymPy, Python or here: choose another"
    names = [item.name for item in theorem.hypotheses]
    if len(set(names)) < len(names):
        yield "two hypotheses have the same name"
    taken = words(theorem.coq_imports)
    variables = {row.code for row in theorem.variables}
    for name in sorted({*owners, *(f"{code}_domain" for code in variables)}.intersection(names)):
        yield f"a hypothesis and a variable, or its domain, have the same name {name}: choose another"
    for name in (*names, *sorted(owners)):
        if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name in taken:
            yield f"the name {name!r} is no identifier, or one of Coq's own words: choose another"


def _wrong_binders(formula: Formula) -> Iterator[str]:
    if isinstance(formula, ForAll):
        spoken = {name for _, limit in formula.bound() if limit is not None for name in free_names(limit)}
        spoken |= free_symbols(formula.body)
        for variable, _ in formula.bound():
            if variable not in spoken:
                yield f"a hypothesis is for all {code_of(variable)}, of which it doesn't speak: leave that out"
            if isinstance(variable, sp.Symbol) and variable.assumptions0 not in (INDEX, NUMBER):
                yield f"the bound variable {variable} must be a plain natural or real number"
        yield from _wrong_binders(formula.body)
    elif isinstance(formula, Implies):
        for item in (*formula.given, formula.body):
            yield from _wrong_binders(item)
