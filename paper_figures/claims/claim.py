"""What a claim is, and how its verdict follows from its checks.

A claim is measured by several checks, each in one setting (a problem, a hyper-parameter, a network). Three rules:

1. A statistical check tests two null hypotheses. It *holds* if the one under which the claim is false is rejected at
   ``ALPHA``, it *fails* if the one under which the claim is true is rejected, and it is *not decided* otherwise: there
   are too few seeds to tell. Each of the two is corrected by Holm's method over the checks of the claim. An exact check
   (a proved bound, a count, an arithmetic identity) holds or fails.
2. A guard is a check that the measurement itself must pass, such as "the same test finds a broken algorithm worse". A
   statistical guard that does not hold decides nothing: what holds beside it, in the same part, is not decided.
3. Not reproduced, if a required check or an exact guard fails, or if something fails and nothing holds but guards.
   Reproduced, if everything holds. With conditions, if some checks hold and others don't: these are the conditions.
   Not decided, otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

ALPHA = 0.05
"""The chance that any check of a claim holds although its null hypothesis is true."""

MAIN_MARGIN, OTHER_MARGIN = 0.05, 0.10
"""How much higher a loss may be and still count as no worse: of the main claims, P1, P2, P7 and P30, and of others.

Fixed beforehand, for every problem and number of seeds."""

Facts = Mapping[str, Any]
"""What claims are decided on, by name: tables of figures, results of checks, published numbers. See ``facts.py``."""


class EvidenceError(ValueError):
    """The evidence is there but can't decide: an algorithm, a seed or a number is missing. Says which."""


class Outcome(StrEnum):
    """What became of a check."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_DECIDED = "not decided"


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
        p_value: of the null hypothesis under which the claim is false; None for an exact check.
        p_contrary: of the null hypothesis under which the claim is true; None for an exact check.
        exact: whether an exact check holds; None for a statistical one.
        required: the claim is not reproduced if this fails, whatever the other settings say.
        guard: that it holds says nothing for the claim yet: it shows that the measurement can tell, or something that
            is necessary and not sufficient.
        part: the problem that it belongs to; a guard speaks for its own part.
        measurably_worse: whether the interval lies above 1 although the check asks for no more than "no worse".
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
    p_contrary: float | None = None
    exact: bool | None = None
    required: bool = False
    guard: bool = False
    part: str = ""
    measurably_worse: bool = False

    def __post_init__(self) -> None:
        if (self.p_value is None) == (self.exact is None) or (self.p_value is None) != (self.p_contrary is None):
            raise ValueError(f"check {self.setting!r} needs either exact, or both of p_value and p_contrary")

    @property
    def role(self) -> str:
        """What it does for the verdict: required, a guard (exact or by statistics), or one setting among others."""
        if self.guard:
            return "guard" if self.exact is None else "exact guard"
        return "required" if self.required else "a setting"


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
        conditions: where it is expected to hold, where to fail, and why.
        figures: figures whose tables ``measure`` reads.
        shown_in: other figures that show it, whose tables ``measure`` does not read.
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
    shown_in: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    theorems: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    pair: tuple[Any, Any] | None
    pair_column: str = "label"

    @property
    def needs(self) -> tuple[str, ...]:
        """All facts that it reads: what it rests on. A figure of ``shown_in`` is none of them."""
        return self.figures + self.others


def guarded(checks: list[Check], outcomes: list[Outcome]) -> list[Outcome]:
    """``outcomes``, with "not decided" for what holds in a part whose statistical guard does not."""
    blind = {
        check.part
        for check, outcome in zip(checks, outcomes, strict=True)
        if check.guard and check.exact is None and outcome is not Outcome.HOLDS
    }
    return [
        Outcome.NOT_DECIDED
        if not check.guard and check.exact is None and check.part in blind and outcome is Outcome.HOLDS
        else outcome
        for check, outcome in zip(checks, outcomes, strict=True)
    ]


def decide(checks: list[Check], outcomes: list[Outcome]) -> tuple[Verdict, str]:
    """Verdict and the sentence that says why; ``outcomes`` has one entry a check, see ``guarded``."""
    groups: dict[Outcome, list[Check]] = {outcome: [] for outcome in Outcome}
    for check, outcome in zip(checks, outcomes, strict=True):
        groups[outcome].append(check)
    held = [check for check in groups[Outcome.HOLDS] if not check.guard]
    failed = groups[Outcome.FAILS]
    open_ = groups[Outcome.NOT_DECIDED]
    fatal = any(check.required or (check.guard and check.exact is not None) for check in failed)
    if fatal or (not held and any(not check.guard for check in failed)):
        verdict = Verdict.NOT_REPRODUCED
    elif not held or any(check.required for check in open_):
        verdict = Verdict.NOT_DECIDED
    elif failed or open_:
        verdict = Verdict.CONDITIONS
    else:
        verdict = Verdict.REPRODUCED
    failed.sort(key=lambda check: not (check.required or check.guard))
    groups[Outcome.HOLDS].sort(key=lambda check: check.guard)
    said = {
        "Fails": failed,
        "Not decided": open_,
        "Holds": groups[Outcome.HOLDS],
        "Measurably worse, within the margin": [check for check in held if check.measurably_worse],
    }
    return verdict, " ".join(f"{word}: {listed(some)}." for word, some in said.items() if some)


def deciding(checks: list[Check], outcomes: list[Outcome], verdict: Verdict) -> int | None:
    """Which check the verdict hangs on; None where there is no check.

    What fails decides against a claim, and what is open leaves it open; required ones and guards come first. For a
    claim that is reproduced it is the required check, else the first that is no guard.
    """
    against = [Outcome.FAILS, Outcome.NOT_DECIDED]
    wanted = [Outcome.HOLDS] if verdict is Verdict.REPRODUCED else against
    for outcome in [*wanted, *Outcome]:
        found = [i for i, one in enumerate(outcomes) if one is outcome]
        if outcome is Outcome.HOLDS:
            found.sort(key=lambda i: (checks[i].guard, not checks[i].required))
        else:
            found.sort(key=lambda i: not (checks[i].required or checks[i].guard))
        if found:
            return found[0]
    return None


def listed(checks: list[Check]) -> str:
    """The first three in numbers; the table has the others."""
    more = f"; and in {len(checks) - 3} more settings" if len(checks) > 3 else ""
    return "; ".join(map(describe, checks[:3])) + more


def describe(check: Check) -> str:
    """``digits MLP: 1.02 (0.98 to 1.06) x Adam's final loss``."""
    return f"{check.setting}: {measured(check.value, check.low, check.high, check.unit)}"


def measured(value: float, low: float | None, high: float | None, unit: str) -> str:
    """A measurement with its interval, if it has one, and its unit."""
    interval = "" if low is None or high is None else f" ({number(low)} to {number(high)})"
    return f"{number(value)}{interval} {unit}"


def asked_for(check: Mapping[str, Any]) -> str:
    """What a check, as a record of ``claims_table``, was held against."""
    return check["test"] + ("" if check["bound"] is None else f"; {number(check['bound'])}")


def number(value: float) -> str:
    """Three digits, and no exponent where a reader would not expect one."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
