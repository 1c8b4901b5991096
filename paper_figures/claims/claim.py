"""What a claim is, and how its verdict follows from its checks.

A claim is measured by several checks, each in one setting (a problem, a hyper-parameter, a network). Two rules decide:

1. A check with a p-value tests a null hypothesis under which the claim is *false*, and holds only if that is rejected
   at ``ALPHA`` after Holm's correction over all such checks of all claims. A check without one is exact: a proved
   bound, a count, an arithmetic identity.
2. Not reproduced, if a required check or a guard fails, or nothing holds but guards. Reproduced, if all hold. With
   conditions, if other settings fail: these are the conditions under which the claim does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

ALPHA = 0.05
"""Family-wise: the chance that any check at all holds although its null is true."""

Facts = Mapping[str, Any]
"""What claims are decided on, by name: tables of figures, results of checks, published numbers. See ``facts.py``."""


class EvidenceError(ValueError):
    """The evidence is there but can't decide: an algorithm, a seed or a number is missing. Says which."""


class Verdict(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    CONDITIONS = "reproduced with conditions"
    NOT_REPRODUCED = "not reproduced"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One measurement of a claim in one setting, and the test that decides whether the claim holds there.

    Attributes:
        setting: where it was measured, e.g. ``"digits MLP"``; short, it is what the verdict's sentence names.
        value: the measurement.
        unit: its unit, e.g. ``"x Adam's final loss"``.
        test: what was compared with what, in a few words.
        low: lower end of the 95 % confidence interval; None where nothing is random.
        high: upper end.
        n_seeds: independent runs behind the interval.
        bound: the derived number that ``value`` is compared with, in the same unit; None if it is 0 or 1 by ``test``.
        p_value: of the null under which the claim is false; None for an exact check.
        exact: whether an exact check holds; None for a statistical one.
        required: the claim is not reproduced if this fails, whatever the other settings say.
        guard: the same, but that it holds says nothing for the claim yet: it shows that the measurement can tell, or
            something that is necessary and not sufficient.
    """

    setting: str
    value: float
    unit: str
    test: str
    low: float | None = None
    high: float | None = None
    n_seeds: int | None = None
    bound: float | None = None
    p_value: float | None = None
    exact: bool | None = None
    required: bool = False
    guard: bool = False

    def __post_init__(self) -> None:
        if (self.p_value is None) == (self.exact is None):
            raise ValueError(f"check {self.setting!r} needs exactly one of p_value and exact")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of the paper, or about it.

    Attributes:
        id: ``"P1"``: the same in docs, captions and the report.
        title: a few words.
        statement: the claim, so that it could be false.
        where: section, figure or table of the paper, or who else makes it.
        published: the published number in words, "" if there is none.
        source: how the published claim is known, as docs/published.md marks it; "ours" where it is not the paper's.
        conditions: under which conditions it is expected to fail, and why.
        figures: figures whose tables ``measure`` reads.
        others: other facts that it reads, by the names in ``facts.py``.
        theorems: ids of the theorems that it rests on.
        laws: ids of laws and conventions (docs/algorithm.md).
        properties: ids of the properties of ``verification`` that check it.
        pair: the two labels that it compares: exchanging them in the tables must overturn the verdict. None if it
            compares no two algorithms (then exchanging any two labels changes nothing).
        pair_column: the column that holds them; a sweep compares values of what it sweeps.
        measure: facts -> checks, the first one the headline; pure.
    """

    id: str
    title: str
    statement: str
    where: str
    published: str
    source: Literal["seen", "recalled", "ours"]
    conditions: str
    measure: Callable[[Facts], list[Check]]
    figures: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    theorems: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    pair: tuple[Any, Any] | None
    pair_column: str = "label"

    @property
    def needs(self) -> tuple[str, ...]:
        """All facts that it reads."""
        return self.figures + self.others


def decide(checks: list[Check], holds: list[bool]) -> tuple[Verdict, str]:
    """Verdict and the sentence that says why; ``holds`` has one entry a check."""
    good = [check for check, held in zip(checks, holds, strict=True) if held]
    bad = [check for check, held in zip(checks, holds, strict=True) if not held]
    if all(check.guard for check in good) or any(check.required or check.guard for check in bad):
        verdict = Verdict.NOT_REPRODUCED
    elif bad:
        verdict = Verdict.CONDITIONS
    else:
        verdict = Verdict.REPRODUCED
    bad.sort(key=lambda check: not (check.required or check.guard))
    good.sort(key=lambda check: check.guard)
    groups = {
        "Fails": [check for check in bad if check.p_value is None],
        "Not shown": [check for check in bad if check.p_value is not None],
        "Holds": good,
    }
    return verdict, " ".join(f"{word}: {listed(some)}." for word, some in groups.items() if some)


def listed(checks: list[Check]) -> str:
    """The first three in numbers; the table has the others."""
    more = f"; and in {len(checks) - 3} more settings" if len(checks) > 3 else ""
    return "; ".join(map(describe, checks[:3])) + more


def describe(check: Check) -> str:
    """``digits MLP: 1.02 (0.98 to 1.06) x Adam's final loss``."""
    interval = "" if check.low is None or check.high is None else f" ({number(check.low)} to {number(check.high)})"
    return f"{check.setting}: {number(check.value)}{interval} {check.unit}"


def number(value: float) -> str:
    """Three digits, and no exponent where a reader would not expect one."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
