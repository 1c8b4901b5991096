"""Change a theorem in one place: every number, sign, exponent, relation, symbol and domain, each on its own.

The mutants of a theorem are theorems that look like it. :mod:`theory.mutants` asks whether the checker rejects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import sympy as sp
from sympy.core.relational import Relational

from theory.formula import ForAll, Formula, Implies, sign_of
from theory.theorem import Hypothesis, Line, Quoted, Theorem, Use
from theory.wording import is_part

RELATIONS: dict[str, tuple[Any, ...]] = {
    "==": (sp.Le, sp.Ge),
    "<=": (sp.Ge, sp.Eq),
    "<": (sp.Gt, sp.Eq),
    ">=": (sp.Le, sp.Eq),
    ">": (sp.Lt, sp.Eq),
    "!=": (sp.Eq,),
}


@dataclass(frozen=True)
class Mutant:
    """A theorem changed in one place: where (``part``), how (``kind``), and what is now what."""

    theorem: Theorem
    part: str
    kind: str
    change: str

    def __str__(self) -> str:
        return f"{self.theorem.id}, {self.part}: {self.change}"


Change = tuple[str, str, Any]
"""Kind, description, changed thing."""


def changed_expressions(expression: Any, symbols: Sequence[sp.Symbol]) -> Iterator[Change]:
    """``expression`` with one node changed, every node in turn."""
    e = sp.sympify(expression)
    for kind, text, other in _changed_node(e, symbols):
        if other != e:
            yield kind, text, other
    for index, argument in enumerate(e.args):
        if isinstance(e, sp.Indexed) and index == 0:
            continue  # the array itself
        if isinstance(e, sp.Sum) and index > 0:
            yield from _changed_limits(e)
            continue
        for kind, text, other in changed_expressions(argument, symbols):
            try:
                rebuilt = e.func(*(other if place == index else a for place, a in enumerate(e.args)))
            except (TypeError, ValueError, IndexError):
                continue  # no expression at all
            if rebuilt != e:
                yield _exponent(e, index, kind), text, rebuilt


def _exponent(e: Any, index: int, kind: str) -> str:
    return "exponent" if isinstance(e, sp.Pow) and index == 1 else kind


def _changed_node(e: Any, symbols: Sequence[sp.Symbol]) -> Iterator[Change]:
    if e.is_Integer or e.is_Rational:
        yield "number", f"{e} -> {e + 1}", e + 1
        if e not in (0, 1, -1):
            yield "number", f"{e} -> {e - 1}", e - 1
            yield "number", f"{e} -> 1", sp.Integer(1)
        if e != 0:
            yield "sign", f"{e} -> {-e}", -e
    elif isinstance(e, sp.Symbol):
        for other in symbols:
            if other != e and other.is_integer == e.is_integer:
                yield "symbol", f"{e} -> {other}", other
                break
        if not e.is_integer:
            yield "sign", f"{e} -> -{e}", -e
            yield "exponent", f"{e} -> {e}**2", e**2
    elif isinstance(e, sp.Add):
        for term in e.args:
            yield "sign", f"sign of {term}", e - 2 * term
            yield "term", f"without {term}", e - term
    elif isinstance(e, (sp.Abs, sp.Max, sp.Min)):
        yield "function", f"{e.func.__name__} dropped", e.args[0]


def _changed_limits(e: sp.Sum) -> Iterator[Change]:
    for place, (index, first, last) in enumerate(e.limits):
        for end in (last + 1, last - 1):
            limits = (*e.limits[:place], (index, first, end), *e.limits[place + 1 :])
            yield "number", f"sum over {index} to {end}", sp.Sum(e.function, *limits)


def changed_formulas(formula: Formula, symbols: Sequence[sp.Symbol]) -> Iterator[Change]:
    """``formula`` with one node or relation changed, every one in turn."""
    if isinstance(formula, ForAll):
        for place, (variable, limit) in enumerate(formula.bound()):
            if limit is not None:
                wider: Any = tuple((variable, limit + 1) if n == place else v for n, v in enumerate(formula.variables))
                yield "number", f"{variable} up to {limit + 1}", ForAll(wider, formula.body)
        for kind, text, body in changed_formulas(formula.body, symbols):
            yield kind, text, ForAll(formula.variables, body)
    elif isinstance(formula, Implies):
        for index, item in enumerate(formula.given):
            for kind, text, other in changed_formulas(item, symbols):
                given = tuple(other if place == index else g for place, g in enumerate(formula.given))
                yield kind, text, Implies(given, formula.body)
        for kind, text, body in changed_formulas(formula.body, symbols):
            yield kind, text, Implies(formula.given, body)
    else:
        yield from _changed_relation(formula, symbols)


def _changed_relation(formula: Relational, symbols: Sequence[sp.Symbol]) -> Iterator[Change]:
    for relation in RELATIONS[sign_of(formula)]:
        yield "relation", f"{sign_of(formula)} -> {relation.rel_op}", relation(*formula.args, evaluate=False)
    for index, side in enumerate(formula.args):
        for kind, text, other in changed_expressions(side, symbols):
            sides = [other if place == index else s for place, s in enumerate(formula.args)]
            yield kind, text, cast(Relational, formula.func(*sides, evaluate=False))


def mutants_of(theorem: Theorem) -> Iterator[Mutant]:
    """Every mutant of a theorem: conclusion, hypotheses, domains, numbers of its words, what is implied, its proof."""
    symbols = [row.symbol for row in theorem.variables if isinstance(row.symbol, sp.Symbol)]

    def mutant(part: str, kind: str, text: str, **changes: Any) -> Mutant:
        return Mutant(replace(theorem, **changes), part, kind, text)

    for kind, text, relation in changed_formulas(theorem.conclusion, symbols):
        yield mutant("conclusion", kind, text, conclusion=relation)
    for index, item in enumerate(theorem.hypotheses):
        others = theorem.hypotheses[:index], theorem.hypotheses[index + 1 :]
        yield mutant(f"hypothesis {item.name}", "dropped", "left out", hypotheses=(*others[0], *others[1]))
        for kind, text, formula in changed_formulas(item.formula, symbols):
            changed = Hypothesis(item.name, formula, item.words)
            yield mutant(f"hypothesis {item.name}", kind, text, hypotheses=(*others[0], changed, *others[1]))
    for symbol, interval in theorem.domains.items():
        yield mutant(f"domain of {symbol}", "number", f"{interval} -> its usual one", domains={
            key: value for key, value in theorem.domains.items() if key != symbol})  # fmt: skip
    for name, number in theorem.numbers.items():
        quoted = Quoted.of(number)
        for _, text, part in changed_expressions(quoted.part, symbols) if not quoted.by else ():
            if not is_part(part, theorem):  # which of its own numbers a sentence quotes is for its author to see
                changed = {**theorem.numbers, name: replace(quoted, part=part)}
                yield mutant(f"number {name} of the words", "words", text, numbers=changed)
    for index, item in enumerate(theorem.implied):
        others = theorem.implied[:index], theorem.implied[index + 1 :]
        for _, text, relation in changed_formulas(item.conclusion, symbols):
            changed = replace(item, conclusion=relation)
            yield mutant(f"implied {item.id}", "implied", text, implied=(*others[0], changed, *others[1]))
    if theorem.chain is not None:
        yield from _proof_mutants(theorem, theorem.chain(), symbols)


def _proof_mutants(theorem: Theorem, lines: tuple[Line, ...], symbols: Sequence[sp.Symbol]) -> Iterator[Mutant]:
    def mutant(number: int, kind: str, text: str, *changed: Line) -> Mutant:
        chain: Callable[[], tuple[Line, ...]] = lambda: (*lines[: number - 1], *changed, *lines[number:])  # noqa: E731
        return Mutant(replace(theorem, chain=chain), f"line {number}", kind, text)

    for number, line in enumerate(lines, 1):
        yield mutant(number, "dropped", "left out")
        for relation in [other for other in ("=", "<=", ">=") if other != line.relation]:
            yield mutant(number, "relation", f"{line.relation} -> {relation}", replace(line, relation=relation))
        for kind, text, to in changed_expressions(line.to, symbols):
            yield mutant(number, kind, text, replace(line, to=to))
        for index, term in enumerate(line.slack):
            for kind, text, other in changed_expressions(term, symbols):
                slack = tuple(other if place == index else s for place, s in enumerate(line.slack))
                yield mutant(number, kind, f"slack: {text}", replace(line, slack=slack))
        for index, use in enumerate(line.uses):
            for kind, text, times in changed_expressions(use.times, symbols):
                uses = tuple(
                    Use(u.name, times if place == index else u.times, u.at) for place, u in enumerate(line.uses)
                )
                yield mutant(number, kind, f"factor of {use.name}: {text}", replace(line, uses=uses))
