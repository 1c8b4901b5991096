"""Why clauses fail: a small case for each cause, the clauses that it breaks, and a program that shows them.

Clauses whose cases pass when they are run again have one cause: the class is random, or keeps something that instances
share. Nothing else about these cases is to blame, so they are not made smaller. Other clauses fail for one cause

- if one operation of one small case breaks them;
- if the small case needs an event whose own clause fails: what is wrong after a load alone is a fault of loading;
- if a plainer event shows the cause: what a load loses is lost by a load into a used instance too;
- if what a clause starts from is broken by the cause, so that it could not be judged there;
- if one never failed without the other, in more cases than chance would bring together;
- if they are the same clause at both levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from verification.independent.correct import correct_class
from verification.relation.advice import Hint
from verification.relation.finding import Finding, OutOfTime, Unsupported
from verification.search.cases import Case, OptimizerCase, elements, kind
from verification.search.clauses import CLAUSES, Clause
from verification.search.driver import Driver
from verification.search.fresh import PROCESSES, alone, honest, now_and_then
from verification.search.program import Program, programs
from verification.search.runs import DISTURBANCES, WATCHING, check
from verification.search.simplify import simplest

PLAINER = {
    **dict.fromkeys(("reload used", "roll back", "resize"), ("reload", "save")),
    "reload": ("save",),
    "resize used": ("resize", "reload", "save"),
}
"""Events -> those that show the same faults, and fewer of their own."""

EVENTS = {**{name: clause for name, clause in DISTURBANCES.items() if name not in WATCHING}, "resize": "resize"}
"""What a case may hold beside steps -> the clause that says what must not come of it."""

LARGE = 2**16
"""A smaller case that is tried counts once for so many of its elements: of large ones, which take long, few are."""

REPEATS = 8
"""So often is a failing case run again; a large one twice."""

TRIALS = 200
"""So often is a case tried that fails at random, to see whether it fails with plain inputs too."""

BY_CHANCE = 0.01
"""Clauses that fail together by a smaller chance than this do not do so by chance."""


@dataclass
class Cause:
    """One cause.

    Attributes:
        clauses: ids of those that fail for it, first the ones that its case breaks.
        case: a small case that shows it.
        findings: of the operation that shows it, each of another clause.
        program: asserts what does not hold there.
        judged: names of the clauses that were judged on the case.
        at_random: its case passes too, when it is run again.
    """

    clauses: list[str]
    case: Case
    findings: tuple[Finding, ...]
    program: str = ""
    judged: set[str] = field(default_factory=set)
    at_random: bool = False

    @property
    def level(self) -> str:
        """Of its case."""
        return self.clauses[0].partition(".")[0]

    @property
    def names(self) -> set[str]:
        """Of its clauses, without their levels."""
        return {clause.partition(".")[2] for clause in self.clauses}


@dataclass
class Failing:
    """A clause that fails: a case, what was found in it of this clause, and the numbers of all cases that it fails in.

    Attributes:
        judged: in how many cases it was judged.
        again: make some of the cases in which it fails, and some in which it holds.
    """

    clause: Clause
    case: Case
    findings: tuple[Finding, ...]
    failed: frozenset[int] = frozenset()
    judged: int = 0
    again: tuple[Callable[[], Case], ...] = ()


class Causes:
    """Sorts failing clauses by cause; ``tries`` smaller cases are tried for each."""

    def __init__(self, driver: Driver, tries: int) -> None:
        self.driver, self.tries, self.found = driver, tries, list[Cause]()
        self.failing: dict[str, Failing] = {}

    def explain(self, failing: Sequence[Failing]) -> dict[str, Failing]:
        """The clauses by their ids, each with the case of its cause where that breaks it, else with one of its own."""
        self.failing = {one.clause.id: one for one in failing}
        explained = self.at_random([one for one in sorted(failing, key=_rank) if not self.repeats(one)])
        for one in sorted(failing, key=_rank):
            if one.clause.id in explained:
                continue
            case, findings, judged = self.smaller(one)
            names = list(dict.fromkeys(finding.clause for finding in findings))
            findings = self.hinted(findings, case, one.clause.level)
            explained[one.clause.id] = Failing(one.clause, case, _of(findings, one.clause.name))
            if (known := self.cause_of(one, case, names)) is not None:
                known.clauses.append(one.clause.id)
                continue
            cause = Cause([one.clause.id], case, (), judged=judged)
            for other in failing:
                here = other.clause.level == one.clause.level and other.clause.name in names
                if here and other.clause.id not in explained:
                    cause.clauses.append(other.clause.id)
                    explained[other.clause.id] = Failing(other.clause, case, _of(findings, other.clause.name))
            cause.findings = tuple(finding for finding in findings if finding.clause in cause.names)
            cause.program = self.program(cause)
            self.found.append(cause)
        return explained

    def repeats(self, failing: Failing) -> bool:
        """Whether a clause fails in its case each time that this is run again."""
        for _ in range(REPEATS if elements(failing.case) < LARGE else 2):
            if not self.fails_in(failing.case, failing.clause.name):
                return self.driver.left < 0
        return True

    def fails_in(self, case: Case, name: str) -> bool:
        """Whether something is found of a clause."""
        return any(one.clause == name for one in self.check(case, set()))

    def at_random(self, failing: Sequence[Failing]) -> dict[str, Failing]:
        """The clauses that don't fail each time, each with its case; those of a level have one cause."""
        why = f"; run again, this case passes: {self.driver.name} is random, or keeps something that instances share"
        explained: dict[str, Failing] = {}
        for level in dict.fromkeys(one.clause.level for one in failing):
            here = [self.plain(one) for one in failing if one.clause.level == level]
            for one in here:
                findings = tuple(replace(finding, message=finding.message + why) for finding in one.findings)
                explained[one.clause.id] = replace(one, findings=findings)
            first = min((explained[one.clause.id] for one in here), key=lambda one: elements(one.case))
            cause = Cause([one.clause.id for one in here], first.case, first.findings, at_random=True)
            cause.program = self.program(cause)
            self.found.append(cause)
        return explained

    def plain(self, failing: Failing) -> Failing:
        """The clause with a case of inputs that lie in memory in order, if that fails too, sooner or later."""
        case, name = replace(failing.case, layout="contiguous"), failing.clause.name
        for _ in range(0 if failing.case.layout == case.layout else TRIALS):
            if self.driver.left < 0:
                break
            if found := _of(self.check(case, set()), name):
                return replace(failing, case=case, findings=found)
        return failing

    def cause_of(self, failing: Failing, case: Case, names: Sequence[str]) -> Cause | None:
        """The known cause for which a clause fails whose small case breaks ``names`` at once."""
        clause = failing.clause
        found = [cause for cause in self.found if cause.level != clause.level and clause.name in cause.names]
        known = [cause for cause in self.found if cause.level == clause.level]
        events = _events(case)
        found += [cause for cause in known if events & cause.names]
        found += [cause for cause in known if clause.name not in cause.judged and cause.names & set(names)]
        if not found:
            plainer = {one.clause for other in _plainer(case) for one in self.check(other, set())}
            found = [cause for cause in known if cause.names & plainer]
        if not found:
            found = [cause for cause in known if any(self.never_without(failing, name) for name in cause.clauses)]
        return found[0] if found else None

    def never_without(self, one: Failing, other: str) -> bool:
        """Whether a clause failed in no case in which the other did not, and that is hardly chance."""
        reason = self.failing[other]
        share = len(reason.failed) / max(1, reason.judged)
        return one.failed <= reason.failed and share ** len(one.failed) < BY_CHANCE

    def smaller(self, failing: Failing) -> tuple[Case, list[Finding], set[str]]:
        """A smaller case in which the clause fails and which a correct implementation passes; what is found at once."""
        correct, tries, case = correct_class(failing.clause.level, self.driver.traits), self.tries, failing.case
        oracle = None if correct is None else Driver(correct)

        def fails(candidate: Case) -> bool:
            nonlocal tries, case
            tries -= max(1, elements(candidate) // LARGE)
            if tries < 0 or self.driver.left < 0:
                raise OutOfTime
            found = self.fails_in(candidate, failing.clause.name)
            if found and oracle is not None:
                oracle.deadline = self.driver.deadline
                found = next(check(oracle, candidate, set()), None) is None
            case = candidate if found else case
            return found

        with suppress(OutOfTime):
            simplest(failing.case, fails, self.driver.traits)
        judged = set[str]()
        found = self.check(case, judged)
        first = next((one for one in found if one.clause == failing.clause.name), None)
        if first is None:  # a class that is not deterministic, or no time is left
            return failing.case, list(failing.findings), judged
        here = [one for one in found if (one.place, one.event) == (first.place, first.event)]
        return case, list({one.clause: one for one in reversed(here)}.values())[::-1], judged

    def check(self, case: Case, judged: set[str], driver: Driver | None = None) -> list[Finding]:
        """What is found in a case; nothing where it is refused, or the time is over."""
        try:
            with np.errstate(all="ignore"):
                return list(check(driver or self.driver, case, judged))
        except (Unsupported, OutOfTime):
            return []

    def hinted(self, findings: Sequence[Finding], case: Case, level: str) -> list[Finding]:
        """The findings, each with the declaration in its message that explains all that its clause found, if any."""
        told = {name: self.hint(f"{level}.{name}", case) for name in dict.fromkeys(one.clause for one in findings)}
        texts = {name: f"; {hint.text}" if hint else "" for name, hint in told.items()}
        return [replace(one, message=one.message + texts[one.clause], hints=()) for one in findings]

    def hint(self, clause: str, case: Case) -> Hint | None:
        """A declaration with which a clause fails neither in ``case``, nor in others that it failed or held in."""
        failing, tried, name = self.failing.get(clause), set[Hint](), clause.partition(".")[2]
        wanted = self.hints(case, name)
        cases = [case, *(make() for make in (failing.again if failing and wanted else ()))]
        while wanted and self.driver.left > 0:
            hint = wanted.pop(0)
            if hint in tried:
                continue
            tried.add(hint)
            wrong = next((one for one in cases if self.fails_declaring(hint, one, name)), None)
            if wrong is None:
                return hint
            wanted += self.hints(wrong, name)
        return None

    def hints(self, case: Case, name: str) -> list[Hint]:
        """The declarations with which nothing is found in some step of a case where this clause fails."""
        found = self.check(case, set(), self.driver.advising(True))
        return [hint for one in found if one.clause == name for hint in one.hints]

    def fails_declaring(self, hint: Hint, case: Case, name: str) -> bool:
        """Whether a clause fails in a case for the class with a declaration, or that can't be said."""
        declared = self.driver.declaring(hint.of(self.driver.traits))
        if isinstance(case, OptimizerCase) and declared.traits.scale is not None:
            case = replace(case, hyper=replace(case.hyper, scale=declared.traits.scale))
        try:
            with np.errstate(all="ignore"):
                return any(one.clause == name for one in check(declared, case, set()))
        except (Unsupported, OutOfTime):
            return True

    def program(self, cause: Cause) -> str:
        """The plainest program that shows the findings in this class, and that a correct class passes.

        Where the process is the class's own, it is run in a new one as well, and says so if it passes there.
        """
        case, findings = cause.case, cause.findings
        level = "optimizer" if isinstance(case, OptimizerCase) else "collective"
        correct = correct_class(level, self.driver.traits)
        raises = all(finding.clause == "raises" for finding in findings)
        tried = list(programs(case, findings, self.driver.name))
        if cause.at_random:
            processes = PROCESSES if self.driver.apart else 0
            return now_and_then(tried[-1], self.driver.source, processes, raises=raises, left=lambda: self.driver.left)
        shown = next((one for one in tried[:-1] if self.shows(one, correct, raises=raises)), tried[-1])
        source = self.driver.source
        if self.driver.apart:
            for one in dict.fromkeys((shown, tried[-1])):
                if alone(one, source, raises=raises, seconds=self.driver.left) != "passes":
                    return one.text(source)
            return honest(shown, source, raises=raises, left=lambda: self.driver.left)
        return shown.text(source)

    def shows(self, program: Program, correct: type | None, *, raises: bool) -> bool:
        """Whether a program fails by its assertion, and passes for a correct class."""
        if self.driver.left < 0:
            return False
        error = program.raises(self.driver.under_test)
        if not (isinstance(error, AssertionError) or (raises and error is not None)):
            return False
        return correct is None or program.raises(correct) is None


def _of(findings: Sequence[Finding], name: str) -> tuple[Finding, ...]:
    return tuple(one for one in findings if one.clause == name)


def _rank(failing: Failing) -> tuple[str, bool, bool, int]:
    """Events before what may come of them, and states that hold NaN after what may have made them."""
    clause, order = failing.clause, [clause.id for clause in CLAUSES]
    return clause.level, clause.name == "raises", clause.name not in EVENTS.values(), order.index(clause.id)


def _events(case: Case) -> set[str]:
    """The clauses of the events in a case, and of plainer ones."""
    if not isinstance(case, OptimizerCase):
        return set()
    events = {case.begin, *map(kind, case.program)} & set(EVENTS)
    return {EVENTS[name] for event in events for name in (event, *PLAINER.get(event, ()))}


def _plainer(case: Case) -> Iterator[Case]:
    """The case with plainer events, and looked at after every step."""
    if not isinstance(case, OptimizerCase):
        return
    for event in sorted({kind(operation) for operation in case.program} & set(PLAINER)):
        for other in PLAINER[event]:
            program = tuple(_instead(other, one) if kind(one) == event else one for one in case.program)
            yield replace(case, program=program)
    if case.unseen:
        yield replace(case, unseen=frozenset())


def _instead(event: str, operation: str) -> str:
    """The plainer event in place of an operation; on as many workers."""
    return operation.removesuffix(" used") if event == "resize" else event
