"""Search all clauses at once: every case of the plan, then a smaller counterexample of each clause that fails."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.relation.finding import AdapterError, Finding, OutOfTime, Unsupported
from verification.search.cases import Case
from verification.search.causes import Cause, Causes, Failing
from verification.search.clauses import Clause, clauses_of
from verification.search.covering import Row
from verification.search.driver import Driver
from verification.search.plan import PROFILES, Plan, Profile, costs_of_row, plain_case
from verification.search.runs import check

ENOUGH_CALLS = 100
"""So many calls say how long a full check takes."""

SEARCHING = 0.75
"""Share of the time for the search where something is found; the rest is for smaller counterexamples."""

LEAST_CASES, LEAST_PAIRS = 8, 0.9
"""A clause holds if it was judged in so many cases, and in so large a share of the pairs of levels of its domain."""


@dataclass
class Verdict:
    """What came of one clause.

    Attributes:
        outcome: "holds", "fails" or "not checked".
        findings: of this clause, in the case.
        case: a small failing case; that of the cause where it breaks this clause too.
        cases: in how many it was judged.
        pairs: how many pairs of feature levels these hold, and how many its domain has.
        note: why it was not checked.
        program: shows the case, and asserts what does not hold there.
        cause: number of the cause, from 1, in the order of the result's; 0: it has none.
    """

    clause: Clause
    outcome: str = "not checked"
    findings: tuple[Finding, ...] = ()
    case: Case | None = None
    cases: int = 0
    pairs: tuple[int, int] = (0, 0)
    note: str = ""
    program: str = ""
    cause: int = 0


@dataclass(frozen=True)
class Coverage:
    """What the search of one level has covered.

    Attributes:
        rows: rows of the covering array that were checked, and all of them.
        pairs: pairs of feature levels in them, and all that are allowed.
        excluded: reason -> how many pairs are left out for it.
        triples: groups of features of which the rows hold every triple too.
        undeclared: extensions that the class does not declare, and is not asked for.
        levels: feature -> the levels that the pairs are of.
        title: the algorithm that an optimizer was checked as.
    """

    level: str
    rows: tuple[int, int]
    pairs: tuple[int, int]
    excluded: dict[str, int]
    triples: tuple[tuple[str, ...], ...] = ()
    undeclared: tuple[str, ...] = ()
    levels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True)
class Result:
    """Verdicts in the order of the table, and what they rest on.

    Attributes:
        left_out: reason -> clauses that do not concern this class.
        notes: what kept the search from being whole, each with what to do.
        cases: how many were tried.
        seconds: until they were, by the clock.
        cpu_seconds: the processor time of that in this process, which others on the machine hardly change.
        causes: why clauses fail, each with the clauses that do for it.
    """

    verdicts: list[Verdict]
    coverage: list[Coverage]
    left_out: dict[str, list[str]]
    notes: list[str]
    cases: int
    seconds: float
    cpu_seconds: float = 0.0
    causes: list[Cause] = field(default_factory=list)

    def of(self, outcome: str) -> list[Verdict]:
        """The verdicts with this outcome."""
        return [verdict for verdict in self.verdicts if verdict.outcome == outcome]


@dataclass
class _Tally:
    """What is known of one clause so far: where it was judged and failed, and the smallest failing case."""

    clause: Clause
    rows: list[Row] = field(default_factory=list)
    cases: int = 0
    failed: set[int] = field(default_factory=set)
    failing: tuple[float, Case, list[Finding]] | None = None


class _Search:
    """One search; :func:`search` has the words."""

    def __init__(
        self, driver: Driver, profile: Profile, seed: int, only: Sequence[str], found: Callable[[Verdict], None]
    ) -> None:
        self.found = found
        self.driver, self.profile, self.begin = driver, profile, time.monotonic()
        levels = {name.split(".")[0] for name in only} or set(driver.levels)
        chosen, self.left_out = clauses_of(driver)
        self.clauses = [clause for clause in chosen if clause.level in levels and (not only or clause.id in only)]
        self.plans = [Plan.of(driver, level, profile, seed) for level in driver.levels if level in levels]
        self.tallies = {clause.id: _Tally(clause) for clause in self.clauses}
        self.done: dict[str, list[Row]] = {plan.level: [] for plan in self.plans}
        self.refused: Counter[str] = Counter()
        self.refused_rows: dict[str, list[Row]] = {plan.level: [] for plan in self.plans}
        self.cases, self.cut, self.limit = 0, False, math.inf
        self.costs: list[tuple[float, float, float]] = []

    def run(self, limit: float, progress: Callable[[int, int], None]) -> None:
        """Check every case of the plans, until ``limit`` seconds are over; where something is found, a part of them."""
        self.limit = limit
        self.driver.deadline = self.begin + limit
        total = sum(len(plan) for plan in self.plans)
        try:
            for plan in self.plans:
                for row, seed in plan.rows:
                    start = time.monotonic()
                    self.one(plan, plan.case(row, seed), row)
                    self.costs.append((*costs_of_row(row), time.monotonic() - start))
                    progress(self.cases, total)
                for case in plan.specials:
                    self.one(plan, case, None)
                    progress(self.cases, total)
        except OutOfTime:
            self.cut = True

    def one(self, plan: Plan, case: Case, row: Row | None) -> None:
        """Check one case, and note what was judged and found."""
        judged: set[str] = set()
        found: dict[str, list[Finding]] = {}
        self.cases += 1
        try:
            with np.errstate(all="ignore"):  # a wrong state may hold anything
                for finding in check(self.driver, case, judged):
                    found.setdefault(finding.clause, []).append(finding)
        except Unsupported as reason:
            self.refused[str(reason)] += 1
            if row is not None:
                self.refused_rows[plan.level].append(row)
        else:
            if row is not None:
                self.done[plan.level].append(row)
        for name in judged | set(found):
            tally = self.tallies.get(f"{plan.level}.{name}")
            if tally is None:
                continue
            tally.cases += 1
            if row is not None:
                tally.rows.append(row)
            size = plan.size(case)
            if name in found:
                tally.failed.add(self.cases)
            if name in found and (tally.failing is None or size < tally.failing[0]):
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
        elif missing := self.never(tally):
            verdict.note = f"judged in {tally.cases} cases, never with {missing}; {self.why()}"
        elif tally.cases >= LEAST_CASES and pairs[0] >= LEAST_PAIRS * pairs[1]:
            verdict.outcome = "holds"
        else:
            verdict.note = f"judged in {tally.cases} cases and {pairs[0]} of {pairs[1]} pairs of levels; {self.why()}"
        return verdict

    def explained(self, verdicts: Sequence[Verdict]) -> list[Cause]:
        """The causes of what fails; the verdicts get their cases, and programs."""
        causes = Causes(self.driver, self.profile.simplifying)
        failing = [
            Failing(one.clause, one.case, one.findings, frozenset(self.tallies[one.clause.id].failed), one.cases)
            for one in verdicts
            if one.case is not None
        ]
        explained = causes.explain(failing)
        for verdict in verdicts:
            if (one := explained.get(verdict.clause.id)) is not None:
                verdict.case, verdict.findings = one.case, one.findings
                number, cause = next(
                    item for item in enumerate(causes.found, start=1) if verdict.clause.id in item[1].clauses
                )
                verdict.cause, shown = number, cause.case is one.case
                verdict.program = cause.program if shown else causes.program(one.case, one.findings)
        return causes.found

    def never(self, tally: _Tally) -> str:
        """The levels with which the class refused every case of a clause's domain, in words."""
        refused, judged = (
            {item for row in rows if tally.clause.domain(row) for item in row.items()}
            for rows in (self.refused_rows[tally.clause.level], tally.rows)
        )
        return ", ".join(sorted(f"{name} {value}" for name, value in refused - judged))

    def why(self) -> str:
        """The likeliest reason for which a clause was judged too rarely."""
        if self.cut:
            return "the time was over"
        if self.refused:
            return f"NotImplementedError: {self.refused.most_common(1)[0][0]}"
        if any(tally.failing is not None for tally in self.tallies.values()):
            return "what it starts from fails"
        return "a larger profile has more cases"

    def coverage(self, plan: Plan) -> Coverage:
        """What was covered of one level."""
        rows, done = [row for row, _ in plan.rows], self.done[plan.level]
        excluded = Counter(plan.space.excluded().values())
        pairs = plan.space.pair_count(done), plan.space.pair_count(rows)
        declared = self.driver.traits.extensions
        known = self.driver.traits.checked_as.extensions
        undeclared = tuple(name for name in known if name not in declared and plan.level == "optimizer")
        return Coverage(
            plan.level,
            (len(done), len(rows)),
            pairs,
            dict(excluded),
            plan.triples,
            undeclared,
            dict(plan.space.features),
            self.driver.traits.checked_as.title if plan.level == "optimizer" else "",
        )

    def time_needed(self, name: str) -> str:
        """How long a full check takes: the calls at the mean of those so far, and what is done beside them."""
        took_C = np.array(self.driver.took)
        if len(took_C) < ENOUGH_CALLS or not self.costs:
            return f"the time was over after {len(took_C)} calls, too few to say how long a full check takes"
        each = float(np.minimum(took_C, np.quantile(took_C, 0.95)).mean())  # the first call of a thing may be slow
        costs_RK = np.array([costs_of_row(row) for plan in self.plans for row, _ in plan.rows], np.float64)
        minutes = math.ceil(whole_time(np.array(self.costs), costs_RK) / 60)
        whole = f"{minutes} minute{'s' * (minutes > 1)}" if minutes < 120 else f"{minutes / 60:.1f} hours"
        return (
            f"the time was over, at {each:.2g} s a call of {self.driver.name} on this machine as busy as it is: a full "
            f"{name} check takes about {whole}; say --minutes {math.ceil(1.5 * minutes)}"
        )

    def notes(self, name: str) -> list[str]:
        """What kept the search from being whole."""
        notes = []
        if self.cut:
            notes.append(self.time_needed(name))
        for reason, count in self.refused.most_common(3):
            notes.append(
                f"{count} of {self.cases} cases were refused ({reason}): declare what the class takes "
                "(takes, workers, sizes, compresses), and it is checked fully within that"
            )
        return notes


def whole_time(done_RK: NDArray[np.float64], all_RK: NDArray[np.float64]) -> float:
    """Seconds for all rows: so much a call and so much an element, by least squares on those that were done.

    Args:
        done_RK: calls, elements and seconds of each row that was done.
        all_RK: calls and elements of every row.
    """
    costs_RK, seconds_R = done_RK[:, :2], done_RK[:, 2]
    weights_R = 1 / np.maximum(costs_RK[:, 0], 1)  # a long row tells no more than a short one
    found_K = np.linalg.lstsq(costs_RK * weights_R[:, None], seconds_R * weights_R, rcond=None)[0]
    if len(seconds_R) < LEAST_CASES or (found_K < 0).any():  # so much a call
        found_K = np.array([seconds_R.sum() / costs_RK[:, 0].sum(), 0.0])
    return float((all_RK @ found_K).sum())


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

    Raises:
        AdapterError: the class can't be driven at all; one sentence says why.
    """
    settings, began = PROFILES[profile] if isinstance(profile, str) else profile, time.process_time()
    probe(driver)
    run = _Search(driver, settings, seed, only, found)
    begin([Verdict(clause) for clause in run.clauses])
    limit = 60 * (settings.minutes if minutes is None else minutes)
    run.run(limit, progress)
    seconds, cpu_seconds = time.monotonic() - run.begin, time.process_time() - began
    notes = run.notes(name or (profile if isinstance(profile, str) else "such a"))
    driver.deadline = run.begin + limit
    verdicts = [run.verdict(clause) for clause in run.clauses]
    causes, coverage = run.explained(verdicts), [run.coverage(plan) for plan in run.plans]
    return Result(verdicts, coverage, run.left_out, notes, run.cases, seconds, cpu_seconds, causes)


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
