"""What a theorem is: a statement, the hypotheses it needs, a proof that a machine re-checks, and numbers.

A proof is a tuple of :class:`Link` objects. A link is an identity ``lhs == rhs``, or an inequality ``lhs <= rhs`` whose
slack ``rhs - lhs`` is written out as a sum of terms that are non-negative by the assumptions on their symbols. Either
way the certificate is the residual ``rhs - lhs - sum(slack)``, and it must simplify to exactly the integer 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter

import sympy as sp


class Status(StrEnum):
    """How far a theorem is established."""

    PROVED = "proved"
    CERTIFIED = "certified numerically"
    ASSUMED = "assumed"


def is_zero(expression: sp.Expr) -> bool:
    """True only if SymPy reduces ``expression`` to the exact 0 (a float residual never counts)."""
    if expression.has(sp.Float):
        return False
    # A common denominator and an expanded numerator settle every rational function quickly, false ones included.
    if sp.expand(sp.fraction(sp.together(expression))[0]) == 0:
        return True
    if expression.is_rational_function() and all(power.exp.is_Integer for power in expression.atoms(sp.Pow)):
        return False
    for reduce in (sp.expand, sp.cancel, sp.simplify):
        expression = sp.sympify(reduce(expression))
        if expression == 0:
            return True
    return False


def is_nonnegative(expression: sp.Expr) -> bool:
    """True only if the assumptions on the symbols make ``expression`` >= 0 (unknown counts as False)."""
    return any(form.is_nonnegative is True for form in (expression, sp.factor(expression), sp.expand(expression)))


@dataclass(frozen=True)
class Link:
    """One step of a proof: ``lhs == rhs`` when ``slack`` is empty, else ``lhs <= rhs`` with the slack as a sum."""

    claim: str
    lhs: sp.Expr
    rhs: sp.Expr
    slack: tuple[sp.Expr, ...] = ()

    def residual(self) -> sp.Expr:
        """``rhs - lhs - sum(slack)``: 0 exactly when the link is established (and the slack is non-negative)."""
        return sp.sympify(self.rhs) - sp.sympify(self.lhs) - sp.Add(*map(sp.sympify, self.slack))

    def holds(self) -> bool:
        """Whether the residual is exactly zero and every slack term is non-negative by assumption."""
        return is_zero(self.residual()) and all(is_nonnegative(sp.sympify(term)) for term in self.slack)


@dataclass(frozen=True)
class Example:
    """An instance that comes near the bound: ``attained <= bound``, and how near (``ratio``, 1 is tight)."""

    description: str
    attained: float
    bound: float

    @property
    def ratio(self) -> float:
        """``attained / bound``."""
        return self.attained / self.bound


@dataclass(frozen=True)
class WrongVariant:
    """A theorem that looks like this one and is false; ``rejected()`` must return True."""

    description: str
    rejected: Callable[[], bool]


class CheckSkipped(Exception):  # noqa: N818  (it reports an absence, not an error)
    """Raised by a numeric check that cannot run here, e.g. for want of an optional extra: says what to install."""


@dataclass(frozen=True)
class Certificate:
    """The outcome of re-checking one theorem; ``skipped`` names the numeric checks that could not run, and why."""

    theorem_id: str
    holds: bool
    failed: tuple[str, ...]
    links: int
    seconds: float
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Theorem:
    """One claim. ``proof`` and ``numeric_checks`` are functions, so that importing a theorem costs nothing.

    Attributes:
        id: ``"T5a"``: the issue-independent id used in code, tests, docs and figures.
        title: a short name in the field's terms.
        words: the statement in one or two sentences of plain English.
        statement: the same as SymPy relations, printable as text and LaTeX.
        hypotheses: everything the proof uses, one item each.
        source: paper and number, or ``"ours"``.
        status: proved, certified numerically, or assumed.
        proof: returns the links; every one must hold.
        bound: evaluates the theorem's bound (or value) for numbers given by their code names.
        example: an instance that comes near the bound.
        numeric_checks: named checks that must return True (for what symbols cannot reach).
        wrong_variants: at least three false neighbours that the certificate or the numeric check rejects.
        laws: ids of the laws and conventions (docs/algorithm.md) that it proves, e.g. ``("L10",)``.
        remarks: what it does not say, and how it differs from what is published.
    """

    id: str
    title: str
    words: str
    statement: tuple[sp.Basic, ...]
    hypotheses: tuple[str, ...]
    source: str
    status: Status
    proof: Callable[[], tuple[Link, ...]]
    bound: Callable[..., float]
    example: Callable[[], Example]
    wrong_variants: tuple[WrongVariant, ...]
    numeric_checks: dict[str, Callable[[], bool]] = field(default_factory=dict)
    laws: tuple[str, ...] = ()
    remarks: str = ""

    def certificate(self) -> Certificate:
        """Re-check every link and every numeric check; never raises for a false one, it reports it."""
        start = perf_counter()
        links = self.proof()
        failed = [link.claim for link in links if not link.holds()]
        skipped: list[str] = []
        for name, check in self.numeric_checks.items():
            try:
                if not check():
                    failed.append(name)
            except CheckSkipped as reason:
                skipped.append(f"{name}: {reason}")
        return Certificate(self.id, not failed, tuple(failed), len(links), perf_counter() - start, tuple(skipped))
