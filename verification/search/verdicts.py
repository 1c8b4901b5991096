"""What comes of a search: a verdict for each clause, and what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from onebit_files import counted
from verification.relation.finding import Finding
from verification.search.cases import Case
from verification.search.causes import Cause
from verification.search.clauses import Clause
from verification.search.covering import Row


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
        excluded: reason -> the pairs that are left out for it, "eps 0 with dead some" say.
        triples: groups of features of which the rows hold every triple too.
        undeclared: extensions that the class does not declare, and is not asked for.
        levels: feature -> the levels that the pairs are of.
        title: the algorithm that an optimizer was checked as.
        untied: levels that no case without rounding has, so that a fault which an exact tie alone shows is not seen.
    """

    level: str
    rows: tuple[int, int]
    pairs: tuple[int, int]
    excluded: dict[str, tuple[str, ...]]
    triples: tuple[tuple[str, ...], ...] = ()
    undeclared: tuple[str, ...] = ()
    levels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    title: str = ""
    untied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """Verdicts in the order of the table, and what they rest on.

    Attributes:
        left_out: reason -> clauses that do not concern this class.
        notes: what kept the search from being whole, each with what to do.
        cases: how many were tried.
        seconds: until they were, by the clock.
        cpu_seconds: the processor time of that in all its processes, which others on the machine hardly change.
        causes: why clauses fail, each with the clauses that do for it; the shortest program first.
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


def level_text(value: Any) -> str:
    """A level of a feature; a range from and to, or what a class declares: a tuple of sizes, say."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"{value[0]}" if value[0] == value[1] else f"{value[0]}-{value[1]}"
    return f"{value:g}" if isinstance(value, float) else str(value)


NAMED = 4
"""So many levels, or pairs of them, are named of what a class refused."""


def by_levels(refused: Sequence[Row], others: Sequence[Row]) -> str:
    """The levels, or pairs of levels, that say best which rows were refused, each with how many of its rows were.

    Levels all of whose rows were refused are named first, those of one feature together; what is left may be a tenth.
    """
    if refused and not others:
        return "all of them"
    held, kept = (Counter(sets for row in rows for sets in _sets(row)) for rows in (refused, others))
    left, told = list(refused), list[str]()
    while len(left) > len(refused) // 10 and len(told) < NAMED:
        covers = Counter(sets for row in left for sets in _sets(row))
        worth = {sets: covers[sets] * (held[sets] / (held[sets] + kept[sets])) ** 3 for sets in covers}
        best = max(worth, key=lambda sets: (len(sets) == 1 and not kept[sets], worth[sets], -len(sets)))
        if len(best) == 1 and not kept[best]:
            alike = [sets for sets in held if len(sets) == 1 and sets[0][0] == best[0][0] and not kept[sets]]
            levels = f"{best[0][0]} {', '.join(level_text(value) for ((_, value),) in alike)}"
        else:
            alike, levels = [best], " with ".join(f"{name} {level_text(value)}" for name, value in best)
        cases = sum(held[sets] + kept[sets] for sets in alike)
        told.append(f"{levels} ({sum(held[sets] for sets in alike)} of {counted(cases, 'case')})")
        left = [row for row in left if not any(all(row[name] == value for name, value in sets) for sets in alike)]
    return ", ".join(told) + (", and others" if left else "")


def _sets(row: Row) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Each level of a row, and each pair."""
    yield from ((item,) for item in row.items())
    yield from combinations(row.items(), 2)
