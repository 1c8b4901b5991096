"""The checker of theorems: their form, and symbolic proofs line by line.

:func:`faults` returns one sentence for everything that is wrong, so that a theorem whose proof is empty, proves
something else, rests on itself or on something weaker, or leaves a hypothesis unused is never shown as proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from onebit_files import error_line
from theory import form, kinds
from theory.definedness import is_nonnegative, is_zero, on_domains, positive, undefined
from theory.form import unknown_parts
from theory.formula import At, ForAll, Formula, Implies, bound_variables, free_names, free_symbols, relations, sign_of
from theory.notation import code_of
from theory.theorem import Line, Rank, Theorem, Use


def faults(theorem: Theorem, lemmas: Mapping[str, Theorem] | None = None) -> tuple[str, ...]:
    """Everything that is wrong with a theorem and its symbolic proof, one sentence each; () if nothing is.

    ``lemmas`` are the theorems that it may use, by id. Coq's part is :func:`theory.kernel_record.faults`.
    """
    return tuple(dict.fromkeys(_faults(theorem, lemmas or {})))


def first_fault(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> str | None:
    """The first of :func:`faults`, without looking for the others; None if there is none."""
    return next(_faults(theorem, lemmas), None)


def _faults(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> Iterator[str]:
    if wrong := list(form.shape(theorem)):
        yield from wrong
        return
    yield from form.faults(theorem)
    if circle := rests_on_itself(theorem, lemmas):
        yield f"it rests on itself: {circle}"
        return
    yield from _not_implied(theorem, lemmas)
    if theorem.chain is not None:
        yield from _Chain(theorem, lemmas).faults()
    elif theorem.rank is Rank.NUMERICAL and not theorem.numeric_checks:
        yield "there is no proof: no Coq file, no chain, no numeric check"


def rests_on_itself(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> str:
    """The circle in what a theorem needs or names as implied, "T1 needs T2 needs T1"; empty if there is none."""

    def walk(name: str, path: tuple[str, ...]) -> str:
        if name in path:
            return " needs ".join((*path, name))
        one = theorem if name == theorem.id else lemmas.get(name)
        needed = (*one.needs, *(item.id for item in one.implied)) if one is not None else ()
        return next((found for other in needed if (found := walk(other, (*path, name)))), "")

    return walk(theorem.id, ())


def _not_implied(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> Iterator[str]:
    """Why what a theorem names as implied does not follow from its hypotheses, or is no condition on its inputs."""
    for item in theorem.implied:
        if lemmas.get(item.id) is not item:
            yield f"{item.id}, which it names as implied, is none of the theorems"
            continue
        strange = free_symbols(item.conclusion) - {row.symbol for row in theorem.variables}
        strange |= {name for name in free_symbols(item.conclusion) if not isinstance(name, sp.Symbol)}
        if strange:
            yield f"{item.id} is no condition on its inputs: it speaks of {', '.join(sorted(map(code_of, strange)))}"
        try:
            lemma(item.id, theorem, lemmas)
        except ValueError as reason:
            yield f"{item.id} is not implied: {reason}"


def lemma(name: str, theorem: Theorem, lemmas: Mapping[str, Theorem], at: Mapping[Any, Any] | None = None) -> Formula:
    """What one of ``lemmas`` concludes, of which it was checked that a theorem may use it ``at`` these values.

    Raises:
        ValueError: its rank is too low, it does not hold, one of its hypotheses is none of the theorem's, or a value
            may lie outside its domains.
    """
    one, values = lemmas[name], at or {}
    if fixed := [key for key in values if not isinstance(key, sp.Symbol)]:
        what = code_of(fixed[0])
        raise ValueError(f"{name} can be used at other numbers, not at another {what}: name it as {name} does")
    if one.rank not in (Rank.KERNEL, Rank.SYMBOLIC):
        raise ValueError(f"{name} is only of the rank {one.rank}: it can't carry a proof")
    if wrong := faults(one, lemmas):
        raise ValueError(f"{name} does not hold: {wrong[0]}")
    ours = {item.formula for item in theorem.hypotheses}
    for item in one.hypotheses:
        if _substituted(item.formula, values) not in ours:
            raise ValueError(f"the hypothesis {item.name!r} of {name} is none of this theorem's")
    for row in one.variables:
        if not isinstance(row.symbol, sp.Symbol):
            continue
        value = sp.sympify(values.get(row.symbol, row.symbol))
        if row.is_count:
            _natural(value, row.symbol, 1 if row.symbol.is_positive else 0)
        else:
            _within(value, row.interval, name, theorem)
    return one.conclusion


def _within(value: sp.Expr, interval: sp.Interval, name: str, theorem: Theorem) -> None:
    for gap, is_open in ((value - interval.start, interval.left_open), (interval.end - value, interval.right_open)):
        if gap.is_infinite:
            continue
        inside = all(sp.factor(e).is_positive is True for e in on_domains(sp.sympify(gap), theorem))
        if not inside and (is_open or not is_nonnegative(gap, theorem)):
            raise ValueError(f"{value} is not known to lie in {interval}, which {name} needs")


DOMAINS = "the domains of its symbols (a hypothesis doesn't count here: give the symbol a domain)"


class _Chain:
    """Checks the lines of one symbolic proof."""

    def __init__(self, theorem: Theorem, lemmas: Mapping[str, Theorem]) -> None:
        self.theorem, self.lemmas = theorem, lemmas
        self.given: dict[str, sp.Expr] = {}
        self.through: set[str] = set()  # hypotheses that a lemma needs which the lines use
        self.symbols = {row.symbol for row in theorem.variables}
        self.lines, self.malformed = tuple[Line, ...](), list[str]()
        try:
            self.lines = theorem.chain() if theorem.chain is not None else ()
            self.malformed = list(kinds.wrong(self.lines, tuple[Line, ...], "chain()"))
        except Exception as error:  # it is the author's code
            self.malformed = [f"its chain() ends with {error_line(error)}"]
        self.hypotheses = {item.name: item.formula for item in theorem.hypotheses}

    def faults(self) -> Iterator[str]:
        conclusion = self.theorem.conclusion
        if self.malformed or not self.lines:
            yield from self.malformed or ["the proof is empty"]
            return
        before, relations_used = cast(sp.Expr, conclusion.lhs), set[str]()
        for number, line in enumerate(self.lines, 1):
            for fault in self._line(before, line):
                yield f"line {number} ({line.why}): {fault}"
            before = sp.sympify(line.to)
            relations_used.add(line.relation)
        for expression in (conclusion.lhs, *(line.to for line in self.lines)):
            yield from self._unclear(expression)
        sides = [side for formula in self.theorem.formulas for each in relations(formula) for side in each.args]
        yield from self._beyond(sp.Tuple(*sides, *(line.to for line in self.lines)))
        if not self.theorem.instance:
            for side in sides:
                yield from undefined(cast(sp.Expr, side), self.theorem)
        if before != conclusion.rhs:
            yield f"the proof ends at {before}, the statement at {conclusion.rhs}"
        yield from _wrong_relation(relations_used - {"="}, sign_of(conclusion))
        for name, given in self.given.items():
            if is_zero(self._at_instance(given)):  # the chain proves the same without it
                yield f"what the lines take from {name!r} adds up to 0: that is no use of it"
        named = {use.name for line in self.lines for use in line.uses}  # also where the use was refused
        for name in sorted(self.hypotheses.keys() - named - self.through):
            if not self._defines(name):
                yield f"no line uses the hypothesis {name!r}"
        for name in sorted(set(self.theorem.needs) - self.given.keys()):
            yield f"no line uses {name}, which it needs"

    def _beyond(self, parts: sp.Tuple) -> Iterator[str]:
        """What lines can't speak of, for nothing tells numbers from vectors here, as Coq's types do."""
        if vectors := sorted(map(str, parts.atoms(At, AppliedUndef))):
            yield f"{vectors[0]}: a chain knows numbers and elements of arrays; functions and vectors are Coq's"
        axes: dict[Any, set[int]] = {}
        for element in parts.atoms(sp.Indexed):
            axes.setdefault(element.base, set()).add(len(element.indices))
        for base in sorted((base for base, counts in axes.items() if len(counts) > 1), key=str):
            yield f"the array {base} has several numbers of axes: a chain knows no rows"
        bound = {index for each in parts.atoms(sp.Sum) for index, *_ in each.limits}
        for index in sorted(bound & self.symbols, key=str):
            yield f"{index} is the index of a sum, and a variable as well: choose another name for one of the two"

    def _defines(self, name: str) -> bool:
        """Whether a hypothesis with < or != is what keeps a divisor from 0, or a number positive."""
        if not isinstance(self.hypotheses[name], (sp.StrictLessThan, sp.StrictGreaterThan, sp.Ne)):
            return False
        others = tuple(item for item in self.theorem.hypotheses if item.name != name)
        without = _Chain(replace(self.theorem, hypotheses=others), self.lemmas)
        return any("not known" in fault for fault in without.faults())

    def _unclear(self, expression: Any) -> Iterator[str]:
        """What keeps an expression from having one value: no meaning, no definition, a symbol of no row."""
        e = self._at_instance(expression)
        if wrong := unknown_parts(sp.sympify(expression)) or unknown_parts(e):
            yield from wrong
            return
        yield from undefined(e, self.theorem)
        yield from undefined(sp.sympify(expression), self.theorem)  # as it is written: SymPy cancels what it rebuilds
        if strange := free_names(e) - self.symbols:
            yield f"{', '.join(sorted(map(str, strange)))} is no variable of the theorem"

    def _line(self, before: sp.Expr, line: Line) -> Iterator[str]:
        to = sp.sympify(line.to)
        if line.relation not in ("=", "<=", ">=", "<", ">"):
            yield f"unknown relation {line.relation!r}"
            return
        if to == before:
            yield "both sides are the same: SymPy writes them alike, there is nothing to prove"
            return
        if line.relation == "=" and line.slack:
            yield "an identity has no slack"
        apart = any(positive(self._at_instance(term), self.theorem) for term in line.slack)
        up = -1 if line.relation in (">=", ">") else 1
        rest = up * (to - before)
        try:
            for use in line.uses:
                given, is_strict = self._used(use, equalities_only=line.relation == "=")
                rest -= given
                apart = apart or is_strict
                self.given[use.name] = self.given.get(use.name, sp.S.Zero) + up * given
        except ValueError as reason:
            yield str(reason)
            return
        for term in line.slack:
            rest -= sp.sympify(term)
            yield from (f"in its slack {fault}" for fault in self._unclear(term))
            if not is_nonnegative(self._at_instance(term), self.theorem):
                yield f"the slack {term} is not known to be non-negative by {DOMAINS}"
        if line.relation in ("<", ">") and not apart:
            yield "a strict line needs a slack that is known to be positive, or such a factor of something strict"
        if not is_zero(self._at_instance(rest)):
            yield "the residual is not 0, or SymPy does not see that it is (what needs sums or induction goes to Coq)"

    def _at_instance(self, expression: Any) -> sp.Expr:
        stated = sp.sympify(expression).subs(dict(self.theorem.instance), simultaneous=True)
        added_up = stated.doit()
        return cast(sp.Expr, stated if added_up.has(sp.Piecewise) else added_up)  # a sum whose form has cases stays one

    def _used(self, use: Use, *, equalities_only: bool) -> tuple[sp.Expr, bool]:
        """``times * (rhs - lhs)`` of a hypothesis or lemma, of which the factor's sign has been checked; is it > 0?"""
        if use.name in self.hypotheses:
            formula = self.hypotheses[use.name]
            bound = {variable for variable, _ in formula.bound()} if isinstance(formula, ForAll) else set()
            if fixed := set(use.at) - bound:
                raise ValueError(f"{use.name!r} speaks of one {', '.join(map(str, fixed))} only: give it no value")
        elif use.name in self.lemmas and use.name in self.theorem.needs:
            formula = lemma(use.name, self.theorem, self.lemmas, use.at)
            needed = {_substituted(item.formula, use.at) for item in self.lemmas[use.name].hypotheses}
            self.through |= {name for name, formula in self.hypotheses.items() if formula in needed}
        else:
            raise ValueError(f"it uses {use.name!r}, which is neither a hypothesis nor in `needs`")
        relation = _instantiated(formula, use.at, self._at_instance)
        for part in (use.times, relation.lhs, relation.rhs, *use.at.values()):
            if fault := next(self._unclear(part), ""):
                raise ValueError(f"in its use of {use.name!r} {fault}")
        if sign_of(relation) == "==":
            return sp.sympify(use.times) * (cast(sp.Expr, relation.rhs) - cast(sp.Expr, relation.lhs)), False
        if equalities_only:
            raise ValueError(f"an identity can't use the inequality {use.name!r}")
        if not is_nonnegative(self._at_instance(use.times), self.theorem):
            raise ValueError(f"the factor {use.times} of {use.name!r} is not known to be non-negative by {DOMAINS}")
        gap = cast(sp.Expr, relation.rhs) - cast(sp.Expr, relation.lhs)
        is_strict = sign_of(relation) in ("<", ">") and positive(self._at_instance(use.times), self.theorem)
        return sp.sympify(use.times) * (gap if sign_of(relation) in ("<=", "<") else -gap), is_strict


def _wrong_relation(used: set[str], stated: str) -> Iterator[str]:
    """Lines with <= and < prove <=, or < if one of them is strict; lines with = alone prove ==, <= and >=."""
    if used & {"<=", "<"} and used & {">=", ">"}:
        yield "some lines go up and some go down"
        return
    proved = "<" if "<" in used else ">" if ">" in used else "<=" if used & {"<="} else ">=" if used else "=="
    enough = {"==": {"==", "<=", ">="}, "<=": {"<="}, ">=": {">="}, "<": {"<", "<="}, ">": {">", ">="}}[proved]
    if stated not in enough:
        yield f"the lines prove a relation with {proved}, the statement has {stated}"


def _instantiated(formula: Formula, values: Mapping[Any, Any], settle: Callable[[Any], sp.Expr]) -> Relational:
    """The relation of a hypothesis with values for the variables that it quantifies over.

    ``settle`` puts the theorem's instance in.
    """
    if isinstance(formula, ForAll):
        for variable, limit in formula.bound():
            if variable not in values:
                raise ValueError(f"give a value for {variable}")
            value = sp.sympify(values[variable])
            if variable.is_integer:
                _natural(settle(value), cast(sp.Symbol, variable), 0)
            if limit is not None and not settle(sp.sympify(limit) - 1 - value).is_nonnegative:
                raise ValueError(f"{variable} = {value} is not known to be below {limit}")
        return _instantiated(formula.body, values, settle)
    if not isinstance(formula, Relational):
        raise ValueError("a chain can use relations only, not implications")
    return cast(Relational, _substituted(formula, values))


def _natural(value: sp.Expr, symbol: sp.Symbol, least: int) -> None:
    """Refuse a value for a count, or an index, that is not known to be a whole number from ``least`` on."""
    if not (value.is_integer and (value - least).is_nonnegative):
        kind = "a natural number" if least == 0 else f"a whole number of at least {least}"
        raise ValueError(f"{symbol} = {value} is not known to be {kind}")


def _substituted(formula: Formula, values: Mapping[Any, Any]) -> Formula:
    """``formula`` with values for its free names.

    Raises:
        ValueError: a value has a name that ``formula`` binds, and would mean something else there.
    """
    taken = set[Any]().union(*(free_names(sp.sympify(value)) for value in values.values()))
    if caught := bound_variables(formula) & taken:
        raise ValueError(f"{', '.join(map(str, caught))} is bound there: choose another name in one of the two")
    if isinstance(formula, ForAll):
        inner = {key: value for key, value in values.items() if key not in dict(formula.bound())}
        counted = tuple(
            variable if limit is None else (variable, limit.subs(inner, simultaneous=True))
            for variable, limit in formula.bound()
        )
        return ForAll(counted, _substituted(formula.body, inner))
    if isinstance(formula, Implies):
        given = tuple(_substituted(item, values) for item in formula.given)
        return Implies(given, _substituted(formula.body, values))
    swap = {key: sp.sympify(value) for key, value in values.items()}
    sides = [cast(sp.Expr, side).subs(swap, simultaneous=True) for side in (formula.lhs, formula.rhs)]
    return cast(Relational, formula.func(*sides, evaluate=False))
