"""Search all clauses at once: every case of the plan, then a smaller counterexample of each clause that fails."""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from onebit_files import counted
from verification.independent.correct import correct_class
from verification.relation.finding import AdapterError, Finding, OutOfTime, Unsupported
from verification.search.cases import Case
from verification.search.causes import Cause, Causes, Failing
from verification.search.clauses import Clause, clauses_of
from verification.search.covering import Row, Space
from verification.search.driver import Driver
from verification.search.pace import Pace
from verification.search.plan import PROFILES, Plan, Profile, costs_of_row, plain_case
from verification.search.runs import check
from verification.search.verdicts import Coverage, Result, Verdict, by_levels, level_text

SEARCHING = 0.75
"""Share of the time for the search where something is found; the rest is for smaller counterexamples."""

LEAST_CASES, LEAST_PAIRS = 8, 0.9
"""A clause holds if every planned case of its domain was run to its end, and if it was judged in so many of them and in
so large a share of the pairs of levels: in the others it had nothing to judge, such as a resize to as many workers."""

SAMPLE = 12
"""In so many of the cases in which a clause fails, and of those in which it holds, it must hold with a declaration for
that to be named."""

WAITING = 0.5
"""Seconds between two looks at the time while other processes have cases left."""

TOLD_AFTER, TOLD_ABOVE = 0.05, 3
"""After this share of its time a search says how long a whole one takes, if that is so many times its limit."""


OUTSIDE = "a correct class that takes the same does not pass it either, for numbers overflow there"
"""Why a case is not judged in which something was found."""


@dataclass(frozen=True)
class Examined:
    """What came of one case.

    Attributes:
        judged: names of the clauses that were.
        found: clause -> its findings.
        refused: why the class refused the case; empty: it did not.
        size: how much there is to read in it.
        seconds: that it took.
        took: seconds of each call of the class.
    """

    judged: frozenset[str]
    found: dict[str, list[Finding]]
    refused: str
    size: float
    seconds: float
    took: tuple[float, ...]


class Sharers(Protocol):
    """Other processes that examine cases of the same search; see ``verification/partners.py``."""

    count: int

    @property
    def cpu_seconds(self) -> float:
        """Their processor time so far."""
        ...

    def numbers(self, total: int) -> Iterator[int]:
        """The cases, by number, that this process is to examine: those that no other one has taken."""
        ...

    def arrived(self, patience: float) -> list[tuple[int, Examined]]:
        """What others have examined since the last call; waits so many seconds for the first."""
        ...

    @property
    def busy(self) -> bool:
        """Whether more will arrive."""
        ...


class Nobody:
    """This process examines all."""

    count = 0
    cpu_seconds = 0.0
    busy = False

    def numbers(self, total: int) -> Iterator[int]:
        """All of them."""
        return iter(range(total))

    def arrived(self, patience: float) -> list[tuple[int, Examined]]:
        """Nothing."""
        return []


@dataclass
class _Tally:
    """What is known of one clause so far: where it was judged and failed, and the smallest failing case.

    ``again`` makes cases in which it failed anew, ``held`` those in which it held.
    """

    clause: Clause
    rows: list[Row] = field(default_factory=list)
    cases: int = 0
    failed: set[int] = field(default_factory=set)
    failing: tuple[float, Case, list[Finding]] | None = None
    again: list[Callable[[], Case]] = field(default_factory=list)
    held: list[Callable[[], Case]] = field(default_factory=list)


class _Search:
    """One search; :func:`search` has the words."""

    def __init__(
        self,
        driver: Driver,
        profile: Profile,
        seed: int,
        only: Sequence[str],
        found: Callable[[Verdict], None],
        name: str,
    ) -> None:
        self.found, self.name = found, name
        self.driver, self.profile, self.begin = driver, profile, time.monotonic()
        levels = {name.split(".")[0] for name in only} or set(driver.levels)
        chosen, self.left_out = clauses_of(driver)
        self.clauses = [clause for clause in chosen if clause.level in levels and (not only or clause.id in only)]
        self.plans = [Plan.of(driver, level, profile, seed) for level in driver.levels if level in levels]
        self.tallies = {clause.id: _Tally(clause) for clause in self.clauses}
        self.done: dict[str, list[Row]] = {plan.level: [] for plan in self.plans}
        self.refused: list[tuple[str, str, Row | None]] = []
        self.left = {plan.level: len(plan) for plan in self.plans}
        self.cases, self.limit = 0, math.inf
        self.pace = Pace([costs_of_row(row) for plan in self.plans for row, _ in plan.rows])

    @cached_property
    def listed(self) -> list[tuple[Plan, Callable[[], Case], Row | None]]:
        """Every case of the plans, each with its row if it has one; their places are their numbers."""
        listed: list[tuple[Plan, Callable[[], Case], Row | None]] = []
        for plan in self.plans:
            listed += [(plan, partial(plan.case, row, seed), row) for row, seed in plan.rows]
            listed += [(plan, make, None) for make in plan.specials]
        return listed

    def run(
        self, limit: float, progress: Callable[[int, int], None], tell: Callable[[str], None], others: Sharers
    ) -> None:
        """Check every case of the plans, until ``limit`` seconds are over; where something is found, a part of them.

        They are noted in the order of their numbers, whoever examines them, so that the same comes out.
        """
        self.limit, self.pace.shared_by = limit, 1 + others.count
        self.driver.deadline = self.begin + limit
        early, told = dict[int, Examined](), False

        def note_in_order() -> None:
            nonlocal told
            while self.cases in early:
                self.note(self.cases, early.pop(self.cases))
                progress(self.cases, len(self.listed))
            late = not told and time.monotonic() - self.begin > TOLD_AFTER * limit
            if late and (needed := self.pace.seconds()) is not None:
                told = True
                if needed > TOLD_ABOVE * limit:
                    tell(self.pace.told(self.driver.name, self.name))

        with suppress(OutOfTime):
            for number in others.numbers(len(self.listed)):
                early[number] = self.examine(number)
                early.update(others.arrived(0.0))
                note_in_order()
            while others.busy and self.cases < len(self.listed):
                if self.driver.left < 0:
                    raise OutOfTime
                early.update(others.arrived(WAITING))
                note_in_order()
        for number in sorted(early):  # where the time was over
            self.note(number, early[number])

    @property
    def cut(self) -> bool:
        """Whether the time was over before the last case."""
        return any(self.left.values())

    def examine(self, number: int) -> Examined:
        """Check the case of that number.

        Raises:
            OutOfTime: the time is over.
        """
        plan, make, _ = self.listed[number]
        judged, found, refused = set[str](), dict[str, list[Finding]](), ""
        start, calls = time.monotonic(), len(self.driver.took)
        case = make()
        size = plan.size(case)
        try:
            with np.errstate(all="ignore"):  # a wrong state may hold anything
                for finding in check(self.driver, case, judged):
                    found.setdefault(finding.clause, []).append(finding)
            if found and self.is_outside(plan.level, case):
                judged, found, refused = set[str](), {}, OUTSIDE
        except Unsupported as reason:
            refused = str(reason) or "it is not supported"
        seconds, took = time.monotonic() - start, tuple(self.driver.took[calls:])
        return Examined(frozenset(judged), found, refused, size, seconds, took)

    def is_outside(self, level: str, case: Case) -> bool:
        """Whether a correct class that takes the same does not pass the case either: it shows nothing then."""
        correct = correct_class(level, self.driver.traits)
        if correct is None:
            return False
        oracle = Driver(correct)
        oracle.deadline = self.driver.deadline
        return next((one for one in check(oracle, case, set())), None) is not None

    def note(self, number: int, examined: Examined) -> None:
        """Note what was judged and found in the case of that number."""
        plan, make, row = self.listed[number]
        found, size = examined.found, examined.size
        self.cases += 1
        self.left[plan.level] -= 1
        self.pace.note(None if row is None else costs_of_row(row), examined.seconds, examined.took)
        if examined.refused:
            self.refused.append((plan.level, examined.refused, row))
        elif row is not None:
            self.done[plan.level].append(row)
        for name in examined.judged | set(found):
            tally = self.tallies.get(f"{plan.level}.{name}")
            if tally is None:
                continue
            tally.cases += 1
            if row is not None:
                tally.rows.append(row)
            if row is not None:
                (tally.again if name in found else tally.held).append(make)
            if name in found:
                tally.failed.add(self.cases)
            if name in found and (tally.failing is None or size < tally.failing[0]):
                case = make()
                tally.failing = size, case, found[name]
                self.found(Verdict(tally.clause, "fails", tuple(found[name]), case, tally.cases))
                self.driver.deadline = self.begin + SEARCHING * self.limit

    def verdict(self, clause: Clause) -> Verdict:
        """The verdict on one clause, with the smallest counterexample that was tried."""
        tally = self.tallies[clause.id]
        plan = next(plan for plan in self.plans if plan.level == clause.level)
        domain = plan.space.pair_count([row for row, _ in plan.rows if clause.domain(row)])
        pairs = plan.space.pair_count([row for row in tally.rows if clause.domain(row)]), domain
        verdict = Verdict(clause, cases=tally.cases, pairs=pairs)
        if tally.failing is not None:
            _, case, findings = tally.failing
            verdict.outcome, verdict.case, verdict.findings = "fails", case, tuple(findings)
        elif refused := self.refused_in(clause):
            verdict.note = f"{counted(len(refused), 'case')} of its domain {_were(refused)} refused: {refused[0][0]}"
        elif self.left[clause.level]:
            verdict.note = f"the time was over, after {counted(tally.cases, 'case')}"
        elif tally.cases >= LEAST_CASES and pairs[0] >= LEAST_PAIRS * pairs[1]:
            verdict.outcome = "holds"
        else:
            verdict.note = (
                f"judged in {counted(tally.cases, 'case')} and {pairs[0]} of {pairs[1]} pairs of levels; {self.why()}"
            )
        return verdict

    def explained(self, verdicts: Sequence[Verdict]) -> list[Cause]:
        """The causes of what fails; the verdicts get their cases, and programs."""
        causes = Causes(self.driver, self.profile.simplifying)
        failing = [
            Failing(
                one.clause,
                one.case,
                one.findings,
                frozenset(tally.failed),
                one.cases,
                (*_spread(tally.again, SAMPLE), *_spread(tally.held, SAMPLE)),
            )
            for one in verdicts
            if one.case is not None and (tally := self.tallies[one.clause.id])
        ]
        explained = causes.explain(failing)
        causes.found.sort(key=lambda cause: len(cause.program))
        for verdict in verdicts:
            if (one := explained.get(verdict.clause.id)) is not None:
                verdict.case, verdict.findings = one.case, one.findings
                number, cause = next(
                    item for item in enumerate(causes.found, start=1) if verdict.clause.id in item[1].clauses
                )
                verdict.cause, shown = number, cause.case is one.case
                own = replace(cause, case=one.case, findings=one.findings)
                verdict.program = cause.program if shown else causes.program(own)
        return causes.found

    def refused_in(self, clause: Clause) -> list[tuple[str, Row | None]]:
        """The reasons and rows of the cases of its domain that the class refused, though it declares nothing.

        Those in which a correct class overflows are no fault of this one: they are missing in what was covered.
        """
        return [
            (reason, row)
            for level, reason, row in self.refused
            if level == clause.level and reason != OUTSIDE and (row is None or clause.domain(row))
        ]

    def why(self) -> str:
        """The likeliest reason for which a clause was judged too rarely in a whole search."""
        if any(tally.failing is not None for tally in self.tallies.values()):
            return "what it starts from fails"
        return "a larger profile has more cases"

    def coverage(self, plan: Plan) -> Coverage:
        """What was covered of one level."""
        rows, done = [row for row, _ in plan.rows], self.done[plan.level]
        excluded = excluded_pairs(plan.space)
        pairs = plan.space.pair_count(done), plan.space.pair_count(rows)
        declared = self.driver.traits.extensions
        known = self.driver.traits.checked_as.extensions
        undeclared = tuple(name for name in known if name not in declared and plan.level == "optimizer")
        return Coverage(
            plan.level,
            (len(done), len(rows)),
            pairs,
            excluded,
            plan.triples,
            undeclared,
            dict(plan.space.features),
            self.driver.traits.checked_as.title if plan.level == "optimizer" else "",
            plan.untied(),
        )

    def notes(self) -> list[str]:
        """What kept the search from being whole."""
        notes = [f"the time was over: {self.pace.told(self.driver.name, self.name)}"] if self.cut else []
        for reason, count in Counter(reason for _, reason, _ in self.refused).most_common(3):
            rows = [row for _, why, row in self.refused if why == reason and row is not None]
            others = [row for done in self.done.values() for row in done]
            levels = by_levels(rows, others) or "those without rounding, or very large"
            what, advice = (
                "refused",
                (
                    "; declare what the class takes (takes, workers, sizes, layouts, extensions, compresses, "
                    "flushes_subnormals): it is checked fully within that"
                ),
            )
            if reason == OUTSIDE:
                what, advice = "left out", ""
            some = f"{count} of {counted(self.cases, 'case')} {_were(range(count))}"
            notes.append(f"{some} {what} ({reason}): {levels}{advice}")
        return notes


def excluded_pairs(space: Space) -> dict[str, tuple[str, ...]]:
    """Reason -> the pairs of levels that are left out for it."""
    named = [f"{name} {level_text(space.features[name][i])}" for name, i in space.levels]
    found: dict[str, tuple[str, ...]] = {}
    for (a, b), reason in space.excluded().items():
        found[reason] = (*found.get(reason, ()), f"{named[a]} with {named[b]}")
    return found


def _were(some: Sequence[Any]) -> str:
    return "was" if len(some) == 1 else "were"


def _spread(some: Sequence[Any], count: int) -> tuple[Any, ...]:
    """At most so many of them, evenly spread."""
    return tuple(some[at] for at in sorted({*np.linspace(0, len(some) - 1, count).astype(int)})) if some else ()


def search(
    driver: Driver,
    *,
    profile: str | Profile = "quick",
    seed: int = 0,
    only: Sequence[str] = (),
    minutes: float | None = None,
    name: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
    begin: Callable[[list[Verdict]], None] = lambda verdicts: None,
    found: Callable[[Verdict], None] = lambda verdict: None,
    tell: Callable[[str], None] = lambda sentence: None,
    searched: Callable[[Result], None] = lambda result: None,
    others: Sharers | None = None,
) -> Result:
    """Search the whole case space of a class; ``only`` these clauses get a verdict (none: all do).

    Args:
        driver: of the class.
        profile: "quick", "ci" or "deep".
        seed: another one makes other cases.
        only: ids of clauses.
        minutes: when the search is cut off; None is the profile's.
        name: of the profile, for what is printed.
        progress: called after each case with how many are done, of how many.
        begin: called before the first case with the verdicts that there will be.
        found: called with each failure that is smaller than those before it of its clause.
        tell: called once, early, where the time will hardly do.
        searched: called with the result before its counterexamples are made smaller.
        others: processes that examine a part of the cases; None: there are none.

    Raises:
        AdapterError: the class can't be driven at all; one sentence says why.
    """
    settings, began = PROFILES[profile] if isinstance(profile, str) else profile, time.process_time()
    run = prepared(driver, settings, seed, only, found, name or (profile if isinstance(profile, str) else "such a"))
    driver = run.driver
    begin([Verdict(clause) for clause in run.clauses])
    limit = 60 * (settings.minutes if minutes is None else minutes)
    others = others or Nobody()
    with collecting_seldom():
        run.run(limit, progress, tell, others)
    seconds, cpu_seconds = time.monotonic() - run.begin, time.process_time() - began + others.cpu_seconds
    verdicts, coverage = [run.verdict(clause) for clause in run.clauses], [run.coverage(plan) for plan in run.plans]
    result = Result(verdicts, coverage, run.left_out, run.notes(), run.cases, seconds, cpu_seconds)
    searched(result)
    driver.deadline = run.begin + limit
    causes = run.explained(verdicts)
    seconds, cpu_seconds = time.monotonic() - run.begin, time.process_time() - began + others.cpu_seconds
    return replace(result, causes=causes, seconds=seconds, cpu_seconds=cpu_seconds)


def prepared(
    driver: Driver,
    profile: Profile,
    seed: int,
    only: Sequence[str] = (),
    found: Callable[[Verdict], None] = lambda verdict: None,
    name: str = "",
) -> _Search:
    """A search before its first case; the same cases for the same seed, in whichever process.

    Raises:
        AdapterError: the class can't be driven at all.
    """
    driver = driver.advising(False)  # until the counterexamples are small
    probe(driver)
    return _Search(driver, profile, seed, only, found, name)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for circles of objects after 100,000 new ones, not 700: a search makes many and keeps most (quick: -9 %)."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def probe(driver: Driver) -> None:
    """Drive the class once with a plain input.

    Raises:
        AdapterError: it can't even do that; one sentence says why.
    """
    for level in driver.levels:
        case = plain_case(level, driver)
        try:
            finding = next((one for one in check(driver, case, set()) if one.clause == "raises"), None)
        except Unsupported:
            continue  # it may support other runs; a clause that it never lets judge is reported as not checked
        if finding is not None:
            raise AdapterError(f"{finding.message} (on a plain input: {case!r})")
