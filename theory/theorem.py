"""What a theorem is: hypotheses and one relation, and a proof of exactly that relation which a machine re-checks.

There are two kinds of machine proof, and a fallback that is never called a proof:

- **kernel**: a Coq file ``theory/theorems/<id>.v``. The statement in it is printed from the Python object
  (:mod:`theory.coq_statement` compares the two, :mod:`theory.kernel` lets Coq check them).
- **symbolic**: a chain of lines from the relation's left side to its right side. Each line is an identity or an
  inequality, and its certificate is ``to - from - sum(times * (rhs - lhs) of what it uses) - sum(slack)``, which SymPy
  must reduce to exactly 0; what is multiplied and the slack must be non-negative by the domains of the symbols. With an
  ``instance`` (say N = 3) the chain is checked for these values only, and the rank says so.
- **numerical**: named checks that must return True. They are evidence, so such a theorem is never said to hold.

:func:`theory.chain.faults` is the checker. It returns one sentence for everything that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

from onebit_files import error_line
from theory import kinds
from theory.formula import Expression, Formula, free_symbols
from theory.given import fixed_inputs
from theory.notation import NOTATION, Row, implied_domain

ID_PATTERN = re.compile(r"T(\d+)([a-z]?)")


class Rank(StrEnum):
    """How a theorem is established, the strongest first."""

    KERNEL = "kernel-checked"
    SYMBOLIC = "symbolic"
    INSTANCE = "instance"
    NUMERICAL = "numerical"


@dataclass(frozen=True)
class Hypothesis:
    """Something that the proof uses: a formula, its name (also in Coq), and the same in words."""

    name: str
    formula: Formula
    words: str


@dataclass(frozen=True)
class Use:
    """A hypothesis, or the conclusion of another theorem, with values for its numbers and indices, times a factor.

    Its arrays and functions keep their names.
    """

    name: str
    times: Expression = 1
    at: Mapping[Any, Expression] = field(default_factory=dict)


@dataclass(frozen=True)
class Quoted:
    """A number that sentences quote: a part of the statement with values put in, as in ``Quoted(limit, at={N: 4})``.

    ``by`` is for what is no part of it, a count or a measurement say: it tells the reader what computes the number.
    """

    part: Expression
    at: Mapping[Expression, Expression] = field(default_factory=dict)
    by: str = ""

    @classmethod
    def of(cls, number: Any) -> Quoted:
        """An entry of ``numbers``, where a part of the statement may stand for itself."""
        return number if isinstance(number, cls) else cls(number)

    @property
    def value(self) -> sp.Expr:
        """What it comes to."""
        return sp.sympify(self.part).subs(dict(self.at), simultaneous=True)


@dataclass(frozen=True)
class Line:
    """One step of a chain: the expression before it is ``relation`` (=, <=, <, >=, >) ``to``, and why.

    A line with < or > has a slack that is positive, or uses a strict hypothesis times something positive.
    """

    relation: str
    to: Expression
    why: str
    uses: tuple[Use, ...] = ()
    slack: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Example:
    """An instance that meets the hypotheses exactly and comes near the bound.

    ``inputs`` has a value for every variable of the theorem, by code name: a number, nested lists, or a function of the
    indices. :mod:`theory.witness` checks the hypotheses on it without rounding: give whole numbers, fractions, floats
    of few bits, or SymPy's numbers. ``attained`` is the left-hand side there, measured by
    running the thing that the theorem speaks of.
    """

    description: str
    attained: float
    inputs: Mapping[str, Any]


class CheckSkipped(Exception):  # noqa: N818  (it reports an absence, not an error)
    """Raised by a numeric check that cannot run here, e.g. for want of an optional extra: says what to install."""


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """Hypotheses and one final relation.

    Attributes:
        id: ``"T5a"``: the id used in code, tests, docs and figures.
        title: a short name in the field's terms. No number is written in it.
        conclusion: the relation that is proved, for all values of its variables within their domains.
        hypotheses: everything the proof uses besides the domains.
        words: the statement in plain English. No number is written in it, nor in ``good_for``: ``{name}`` stands for
            one of ``numbers`` (:mod:`theory.wording`).
        implied: proved theorems whose hypotheses are among these, and which speak of inputs alone: inputs that
            contradict one (moments that no vector has, say) are refused. No proof of this theorem may use them.
        numbers: what the sentences quote: parts of the statement, or a :class:`Quoted`.
        good_for: what a user of the project has from it, one sentence.
        source: paper and number, or ``"ours"``.
        where: rows for symbols that the notation table does not define.
        domains: narrower domains than the table's.
        chain: returns the lines of a symbolic proof; None where Coq proves it, or numbers support it.
        instance: values for which alone the chain is checked.
        example: an instance that comes near the bound.
        numeric_checks: named checks that must return True.
        needs: ids of the theorems whose conclusions the chain uses, or whose files the Coq file requires.
        laws: ids of the laws and conventions (docs/algorithm.md) that it proves, e.g. ``("L10",)``.
        remarks: what it does not say, and how it differs from what is published.
        coq_imports: Coq files of ours, besides Prelude, whose definitions the statement speaks of ("Rounding").
        folder: where its Coq file lies.

    """

    id: str
    title: str
    conclusion: Relational
    words: str
    good_for: str
    source: str
    hypotheses: tuple[Hypothesis, ...] = ()
    implied: tuple[Theorem, ...] = ()
    numbers: Mapping[str, Expression | Quoted] = field(default_factory=dict)
    where: tuple[Row, ...] = ()
    domains: Mapping[sp.Symbol, sp.Interval] = field(default_factory=dict)
    chain: Callable[[], tuple[Line, ...]] | None = None
    instance: Mapping[sp.Symbol, Expression] = field(default_factory=dict)
    example: Callable[[], Example] | None = None
    numeric_checks: Mapping[str, Callable[[], bool]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    remarks: str = ""
    coq_imports: tuple[str, ...] = ()
    folder: Path = Path(__file__).parent / "theorems"

    @property
    def coq_file(self) -> Path:
        """``T5a.v``, which need not exist."""
        return self.folder / f"{self.id}.v"

    @cached_property
    def rank(self) -> Rank:
        """What kind of proof there is; whether it holds is for :func:`faults` and :mod:`theory.kernel` to say."""
        if self.coq_file.exists():
            return Rank.KERNEL
        if self.chain is not None:
            return Rank.INSTANCE if self.instance else Rank.SYMBOLIC
        return Rank.NUMERICAL

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """The hypotheses, then the conclusion."""
        return (*(item.formula for item in self.hypotheses), self.conclusion)

    @cached_property
    def variables(self) -> tuple[Row, ...]:
        """A row for every free name, the notation table's order first; narrowed domains applied.

        Raises:
            ValueError: a name is defined nowhere or twice, or a domain is none or wider than the table's.
        """
        if again := {row.code for row in self.where} & {row.code for row in NOTATION}:
            names = ", ".join(sorted(again))
            raise ValueError(
                f"`where` has {names} of the notation table: narrow it in `domains`, or choose another name"
            )
        used = set().union(*(free_symbols(formula) for formula in self.formulas))
        rows = [row for row in (*NOTATION, *self.where) if row.symbol in used]
        missing = used - {row.symbol for row in rows}
        if twins := {str(symbol) for symbol in missing} & {str(row.symbol) for row in rows}:
            raise ValueError(f"several symbols are named {', '.join(sorted(twins))}, with other assumptions")
        if missing:
            raise ValueError(f"neither the notation table nor `where` defines {', '.join(sorted(map(str, missing)))}")
        if idle := self.domains.keys() - used:
            raise ValueError(f"`domains` narrows {', '.join(sorted(map(str, idle)))}, of which it doesn't speak")
        return tuple(_narrowed(row, self.domains.get(row.symbol)) for row in rows)

    def domain(self, symbol: sp.Symbol) -> sp.Interval:
        """Domain of a real symbol: this theorem's, else the table's, else what its assumptions say."""
        for row in (*self.where, *NOTATION):
            if row.symbol == symbol:
                return self.domains.get(symbol, row.interval)
        return implied_domain(symbol)


def _narrowed(row: Row, domain: sp.Interval | None) -> Row:
    if domain is None:
        return row
    if not row.is_count and domain.is_subset(row.interval) is not True:
        raise ValueError(f"the domain {domain} of {row.code} is no part of its usual one, {row.interval}")
    default = row.default if row.default is None or sp.Rational(row.default) in domain else None
    return Row(row.symbol, row.latex, row.meaning, row.shape, domain, row.unit, default, row.coq)


def run_example(theorem: Theorem) -> Example | None:
    """The example, run now, with inputs that are fixed (:func:`~theory.given.fixed_inputs`); None if there is none.

    Raises:
        ValueError: it ends with an error, or gives something else.
    """
    try:
        example = theorem.example() if theorem.example is not None else None
    except Exception as error:  # it is the author's code
        raise ValueError(f"example() ends with {error_line(error)}") from error
    if reason := next(kinds.wrong(example, Example | None, "example()"), ""):
        raise ValueError(reason)
    return replace(example, inputs=fixed_inputs(example.inputs)) if example else None


def run_checks(theorem: Theorem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the numeric checks that failed, and of those that could not run, with the reason."""
    failed, skipped = list[str](), list[str]()
    for name, check in theorem.numeric_checks.items():
        try:
            outcome = check()
            if not isinstance(outcome, (bool, np.bool_)):
                failed.append(f"{name} (it returns {outcome!r}, neither True nor False)")
            elif not outcome:
                failed.append(name)
        except CheckSkipped as reason:
            skipped.append(f"{name}: {reason}")
        except Exception as error:
            failed.append(f"{name} (it raises {error_line(error)})")
    return tuple(failed), tuple(skipped)


def by_id(theorems: Iterable[Theorem]) -> dict[str, Theorem]:
    """Theorems by their ids."""
    return {theorem.id: theorem for theorem in theorems}
