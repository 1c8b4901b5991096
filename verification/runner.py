"""Search one property for a counterexample: targeted examples first, then Hypothesis, then simplification."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Flaky, FlakyFailure, Unsatisfiable

from verification.cases import Case
from verification.driver import Driver
from verification.finding import AdapterError, Finding, Misbehaved, Unsupported
from verification.property import Property
from verification.shrink import simplify

PROFILES: dict[str, tuple[int, float]] = {"quick": (40, 50.0), "ci": (300, 240.0), "deep": (20_000, 4 * 3600.0)}
"""Examples a property, and seconds for all properties together."""


@dataclass(frozen=True)
class Verdict:
    """What came of one property.

    Attributes:
        outcome: "holds", "fails" or "skipped".
        findings: of the simplest failing case.
        case: that case.
        tried: cases that were checked.
        note: why it was skipped.
    """

    prop: Property
    outcome: str
    findings: tuple[Finding, ...] = ()
    case: Case | None = None
    tried: int = 0
    seconds: float = 0.0
    note: str = ""


EVERY_CHECK: Any = list(HealthCheck)
"""Hypothesis need not say that data is large or slow to make: it is."""


class _Falsified(Exception):  # noqa: N818 - a signal, not an error
    """Carries no message: Hypothesis compares failures by where they were raised."""


def check_case(prop: Property, driver: Driver, case: Any) -> list[Finding]:
    """Findings of one case; a class that raises there, or returns nonsense, is a finding too."""
    try:
        return list(prop.check(driver, case))
    except Misbehaved as error:
        return [Finding("protocol", "raises", str(error))]


def run_property(
    prop: Property, driver: Driver, *, max_examples: int, seed: int = 0, seconds: float = 60.0, shrink: bool = True
) -> Verdict:
    """Search for a counterexample of ``prop``, with the same cases for the same ``seed``."""
    missing = [name for name in prop.needs if not callable(getattr(driver.under_test, name, None))]
    if missing:
        return Verdict(prop, "skipped", note=f"{driver.name} has no {' and no '.join(f'{name}()' for name in missing)}")
    begin, tried, unsupported = time.monotonic(), 0, ""
    failing: list[tuple[Case, list[Finding]]] = []

    def attempt(case: Any) -> bool:
        """Whether ``case`` fails; the last one that did is kept."""
        nonlocal tried, unsupported
        try:
            findings = check_case(prop, driver, case)
        except Unsupported as reason:
            unsupported = str(reason)
            return False
        tried += 1
        if findings:
            failing.append((case, findings))
        return bool(findings)

    if not any(attempt(case) for case in prop.examples(driver.traits)):
        late = begin + seconds
        count = max(3, round(max_examples / prop.cost))
        _search(prop.cases(driver.traits), attempt, max_examples=count, seed=seed, late=late, shrink=shrink)
    if not failing:
        outcome = "holds" if tried else "skipped"
        return Verdict(
            prop, outcome, tried=tried, seconds=time.monotonic() - begin, note=unsupported if not tried else ""
        )
    if shrink:
        failing.append(_simplest(failing[-1], lambda case: attempt(case) and failing[-1][1][0], seconds / 2))
    case, findings = failing[-1]
    return Verdict(prop, "fails", tuple(findings), case, tried, time.monotonic() - begin)


def _simplest(
    found: tuple[Case, list[Finding]], first_finding: Callable[[Case], Finding | bool], seconds: float
) -> tuple[Case, list[Finding]]:
    """The case simplified, as long as its first finding is of the same clause: else it is about something else."""
    late, clause = time.monotonic() + seconds, found[1][0].clause
    kept = [found]

    def fails_the_same_way(case: Case) -> bool:
        finding = first_finding(case) if time.monotonic() < late else False
        if isinstance(finding, Finding) and finding.clause == clause:
            kept.append((case, [finding]))
            return True
        return False

    simplify(found[0], fails_the_same_way)
    return kept[-1]


def _search(
    strategy: Any, attempt: Callable[[Any], bool], *, max_examples: int, seed: int, late: float, shrink: bool
) -> None:
    """Let Hypothesis draw cases until one fails, and shrink what it drew; no exception leaves."""

    @hypothesis.seed(seed)
    @settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        suppress_health_check=EVERY_CHECK,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        report_multiple_bugs=False,
    )
    @given(strategy)
    def test(case: Any) -> None:
        if time.monotonic() < late and attempt(case):
            raise _Falsified

    try:
        test()
    except (_Falsified, Flaky, FlakyFailure, Unsatisfiable):
        return  # attempt() has kept the case; a flaky one is an implementation whose result changes from call to call


def probe(driver: Driver, properties: Iterable[Property]) -> None:
    """Drive the class once with a plain input.

    Raises:
        AdapterError: it can't even do that; one sentence says why.
    """
    from verification.plain import plain_case  # noqa: PLC0415 - imports the strategies

    for level in driver.levels:
        if not any(prop.level == level for prop in properties):
            continue
        case = plain_case(level, driver.traits)
        try:
            list(driver.outputs(case) if level == "collective" else driver.transitions(case))  # pyright: ignore[reportArgumentType]
        except Misbehaved as error:
            raise AdapterError(f"{error} (on a plain input: {case!r})") from None
        except Unsupported:
            continue  # it may support other runs; a property for which it supports none is reported as skipped


def run_all(
    driver: Driver,
    properties: Iterable[Property],
    *,
    profile: str = "quick",
    seed: int = 0,
    report: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Run the properties of the levels that the class has; ``report`` is called after each.

    Raises:
        AdapterError: the class can't be driven at all.
    """
    chosen = [prop for prop in properties if prop.level in driver.levels]
    probe(driver, chosen)
    examples, budget = PROFILES[profile]
    end, verdicts = time.monotonic() + budget, []
    for index, prop in enumerate(chosen):
        share = max(0.2, (end - time.monotonic()) / (len(chosen) - index))
        verdict = run_property(prop, driver, max_examples=examples, seed=seed, seconds=share)
        verdicts.append(verdict)
        report(verdict)
    return verdicts
