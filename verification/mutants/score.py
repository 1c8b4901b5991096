"""The kill score of conditional mutants: a sample of (bug) x (trigger), each shown to differ, then searched."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from joblib import delayed

from onebit_files import counted
from reference.experiments.sweep import unordered
from verification.mutants.conditional import conditional
from verification.mutants.families import Bug, all_bugs, named
from verification.mutants.triggers import ALWAYS, SPLITS, Trigger, both
from verification.relation.checkpoint import same_state
from verification.relation.finding import Misbehaved, Unsupported
from verification.search.cases import Case, CollectiveCase
from verification.search.covering import Row as Levels
from verification.search.driver import Driver
from verification.search.layouts import placed
from verification.search.plan import PROFILES, Plan
from verification.search.runs import DISTURBANCES, check, follow

WITNESSES = 24
"""Random cases made for its trigger on which a mutant may show that it differs from the correct class."""

DRAWS = 2000
"""Rows drawn for each witness: some are not allowed, and where all of them are not, no case has such levels."""


@dataclass(frozen=True)
class Mutant:
    """One bug under one trigger, at one level of the protocol."""

    bug: Bug
    trigger: Trigger
    level: str

    @property
    def id(self) -> str:
        return f"{self.level}: {self.bug.id}, {self.trigger.name}"

    @property
    def base(self) -> type:
        """The correct class that it changes."""
        return self.bug.base(self.level)

    def under_test(self) -> type:
        """The class."""
        return conditional(self.bug.under_test, self.trigger, self.level)


@dataclass(frozen=True)
class Row:
    """What came of one mutant.

    Attributes:
        differs: whether it ever differed from the correct class; if not, it is none.
        killed_by: the clause that found it first -> what it found.
        cases: how many were tried, those in which its trigger can bite first.
    """

    mutant: str
    family: str
    level: str
    bug: str
    differs: bool
    killed_by: dict[str, str]
    cases: int = 0

    @property
    def lives(self) -> bool:
        """Whether it is a fault that was not found."""
        return self.differs and not self.killed_by


@cache
def triggers(split: str) -> tuple[Trigger, ...]:
    """The triggers of a split, alone and in pairs."""
    alone = SPLITS[split]
    pairs = (both(one, other) for one, other in combinations(alone, 2) if "always" not in (one.name, other.name))
    return (*alone, *(trigger for trigger in pairs if trigger is not None and trigger.levels))


@cache
def population(split: str) -> tuple[Mutant, ...]:
    """All mutants of a split. Bugs that only show where nothing is rounded are left to the trigger "always"."""
    return tuple(
        Mutant(bug, trigger, level)
        for bug in all_bugs()
        for trigger in triggers(split)
        for level in trigger.levels
        if bug.suits(level) and bug.knows(trigger) and (not bug.only_always or trigger.name == "always")
    )


def sample(split: str, count: int, seed: int, only: Collection[str] = (), algorithm: str | None = None) -> list[Mutant]:
    """``count`` mutants at random, half of them with one trigger and half with a pair, and as many of every bug.

    With ``only`` those of these bugs (``families.named``), and first each of them without a condition; with
    ``algorithm`` those of implementations of this one.
    """
    rng = np.random.default_rng(seed)
    everything = [one for one in population(split) if algorithm in (None, one.bug.algorithm)]
    chosen: list[Mutant] = []
    if only:
        bugs = [bug for bug in named(only) if algorithm in (None, bug.algorithm)]
        chosen = [Mutant(bug, ALWAYS, level) for bug in bugs for level in ALWAYS.levels if bug.suits(level)]
        everything = [mutant for mutant in everything if mutant.bug in bugs and mutant.trigger is not ALWAYS]
    count = min(count, len(chosen) + len(everything))
    groups: dict[tuple[str, bool], list[Mutant]] = {}
    for mutant in everything:
        groups.setdefault((mutant.bug.id, ", and " in mutant.trigger.name), []).append(mutant)
    keys = sorted(groups)
    while len(chosen) < count:
        chosen += [groups[keys[at]][rng.integers(len(groups[keys[at]]))] for at in rng.permutation(len(keys))]
    return chosen[:count]


def sample_size(split: str, count: int | None, seed: int, only: Collection[str], algorithm: str | None) -> int:
    """How many mutants a sample has; by default 200, with ``only`` five of every bug.

    Raises:
        ValueError: there are none; one sentence.
    """
    wanted = count or (5 * len(named(only)) if only else 200)
    found = len(sample(split, wanted, seed, only, algorithm))
    if not found:
        raise ValueError(f"{algorithm} has none of the faults {', '.join(only)}")
    return found


def share_interval(hits: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share (Biometrika 26, 1934), as the claims have it."""
    from scipy.stats import binomtest  # noqa: PLC0415 - slow to import, and nothing else here needs it

    if trials == 0:
        return 0.0, 1.0
    low, high = binomtest(hits, trials).proportion_ci(0.95, method="exact")
    return float(low), float(high)


def _different(one: Driver, other: Driver, case: Case) -> bool:
    """Whether two classes differ in a bit of what they show on a case, or in what they do to their arguments."""
    try:
        if isinstance(case, CollectiveCase):
            return _trace(one, case) != _trace(other, case)
        for disturbances in (DISTURBANCES, ()):
            for a, b in zip(follow(one, case, disturbances), follow(other, case, disturbances), strict=True):
                if b.findings or (a.after and b.after and next(same_state(a.after, b.after, "", ""), None)):
                    return True
    except (Misbehaved, Unsupported):
        return True
    return False


def _trace(driver: Driver, case: CollectiveCase) -> list[bytes]:
    """All that the calls of a case show: outputs, arguments afterwards, shared memory, bytes, outputs at the end."""
    instance, trace, kept = driver.new(), [], []
    for number, inputs in enumerate(case.calls):
        buffers_ND, errors_ND, error_D = (placed(case.layout, one, 3 * number + j) for j, one in enumerate(inputs))
        given = buffers_ND, errors_ND, error_D
        outputs = driver.allreduce_in_place(instance, given)
        shared = [np.shares_memory(a, b) for a, b in combinations((*given, *outputs), 2)]
        trace += [array.tobytes() for array in (*given, *outputs, np.array(shared))]
        trace.append(str(driver.bytes_per_worker(instance)).encode())
        kept += outputs
    return trace + [array.tobytes() for array in kept]


@cache
def _plan(base: type, level: str, profile: str) -> Plan:
    return Plan.of(Driver(base), level, PROFILES[profile], seed=0)


@cache
def _case(base: type, level: str, profile: str, index: int) -> Case:
    """The cases of a plan, made once in each process."""
    plan = _plan(base, level, profile)
    return plan.case(*plan.rows[index]) if index < len(plan.rows) else plan.specials[index - len(plan.rows)]()


def witnessed(mutant: Mutant) -> bool:
    """Whether the mutant differs from the correct class somewhere: on random cases in which its trigger can bite."""
    plan = _plan(mutant.base, mutant.level, "quick")
    one, other = Driver(mutant.base), Driver(mutant.under_test())
    salt = int.from_bytes(hashlib.sha256(mutant.trigger.name.encode()).digest()[:4], "big")
    for k in range(WITNESSES):
        rng = np.random.default_rng([salt, k])
        for _ in range(DRAWS):
            row = {name: levels[rng.integers(len(levels))] for name, levels in plan.space.features.items()}
            row |= {"size": ((8, 40), (2, 7), (41, 256), (257, 1024))[rng.integers(4)]}
            row |= {name: some[rng.integers(len(some))] for name, some in mutant.trigger.recipe.items() if name in row}
            if plan.space.allows(row):
                break
        else:
            return False  # its triggers ask for levels that are not combined
        if _different(one, other, plan.case(row, 10**8 + salt + k)):
            return True
    return False


def row_of(mutant: Mutant, profile: str = "quick") -> Row:
    """Search for a mutant, up to the first finding."""
    about: dict[str, Any] = {"mutant": mutant.id, "family": mutant.bug.family, "level": mutant.level}
    about["bug"] = mutant.bug.text
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # mutants divide by zero
        if mutant.trigger.name != "always" and not witnessed(mutant):  # a bug without a condition is one by itself
            return Row(**about, differs=False, killed_by={})
        driver = Driver(mutant.under_test()).advising(False)  # it is enough that something is found
        plan, tried = _plan(mutant.base, mutant.level, profile), 0
        for index in _order(plan, mutant.trigger):
            tried += 1
            finding = next(check(driver, _case(mutant.base, mutant.level, profile, index), set()), None)
            if finding is not None:
                return Row(
                    **about,
                    differs=True,
                    killed_by={f"{mutant.level}.{finding.clause}": finding.message},
                    cases=tried,
                )
    return Row(**about, differs=True, killed_by={}, cases=tried)


def _order(plan: Plan, trigger: Trigger) -> list[int]:
    """All cases of a plan, those first in which the trigger can bite: what is found is the same, and found sooner."""

    def can_bite(row: Levels) -> bool:
        wanted = {name: levels for name, levels in trigger.recipe.items() if name in row}
        return all(any(_meets(row[name], level) for level in levels) for name, levels in wanted.items())

    likely = [index for index, (row, _) in enumerate(plan.rows) if can_bite(row)]
    return [*likely, *sorted(set(range(len(plan))) - set(likely))]


def _meets(level: Any, wanted: Any) -> bool:
    """Whether two levels are the same, or two ranges overlap."""
    if isinstance(level, tuple) and isinstance(wanted, tuple):
        return level[0] <= wanted[1] and wanted[0] <= level[1]
    return level == wanted


def _rows(chosen: tuple[Any, ...], profile: str, part: slice) -> list[Row]:
    return [row_of(mutant, profile) for mutant in sample(*chosen)[part]]


def campaign(
    split: str,
    count: int,
    seed: int,
    only: Collection[str] = (),
    algorithm: str | None = None,
    *,
    profile: str = "quick",
    jobs: int = -1,
) -> Iterator[Row]:
    """Rows of a sample as they are finished."""
    chosen = (split, count, seed, only, algorithm)
    if jobs == 1:
        yield from (row_of(mutant, profile) for mutant in sample(*chosen))
        return
    parts = [slice(first, first + 4) for first in range(0, count, 4)]
    for rows in unordered((delayed(_rows)(chosen, profile, part) for part in parts), jobs):
        yield from rows


@dataclass(frozen=True)
class Score:
    """Mutants killed among those that differ from the correct class."""

    rows: tuple[Row, ...]

    @property
    def counted(self) -> list[Row]:
        """Those that differ."""
        return [row for row in self.rows if row.differs]

    @property
    def alive(self) -> list[Row]:
        """Those that differ and that nothing finds."""
        return [row for row in self.counted if not row.killed_by]

    @property
    def killed(self) -> int:
        """How many were found."""
        return len(self.counted) - len(self.alive)

    def text(self) -> str:
        """``490 of 500 killed, 98.0 %, 95 % interval 96.4 % to 98.9 %``."""
        low, high = share_interval(self.killed, len(self.counted))
        share = 100 * self.killed / max(1, len(self.counted))
        same, mutants = len(self.rows) - len(self.counted), counted(len(self.counted), "mutant")
        return (
            f"{self.killed} of {mutants} killed, {share:.1f} %, 95 % interval {100 * low:.1f} % to "
            f"{100 * high:.1f} %; {same} more never differed from the correct class on {WITNESSES} cases made for each"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data: the score with its interval, and a row for each mutant."""
        low, high = share_interval(self.killed, len(self.counted))
        about = {"killed": self.killed, "counted": len(self.counted), "interval": [low, high]}
        return {**about, "mutants": [asdict(row) for row in self.rows]}
