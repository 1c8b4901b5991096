"""Covering arrays: few rows in which every allowed pair of feature levels occurs, and every triple where that is asked.

A row picks one level of each feature. Rows are built greedily: start from a combination that is not covered yet, then
give each feature, in random order, the level that covers most (Bryce, Colbourn and Cohen's framework, ICSE 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]
"""Feature -> level."""

Exclusion = Callable[[Row], str]
"""Why two levels, given as a row of two features, are not combined; empty if they are."""

CANDIDATES = 8
"""Rows that are tried for each row that is kept."""


@dataclass(frozen=True)
class Space:
    """Features with their levels, the simplest first, and the pairs that are left out."""

    features: Mapping[str, tuple[Any, ...]]
    exclusion: Exclusion

    @property
    def levels(self) -> list[tuple[str, int]]:
        """All levels of all features: (feature, index)."""
        return [(name, i) for name, values in self.features.items() for i in range(len(values))]

    def excluded(self) -> dict[tuple[int, int], str]:
        """Pairs of levels, by their numbers in :attr:`levels`, that are left out, and why."""
        found = {}
        for (a, (name, i)), (b, (other, k)) in combinations(enumerate(self.levels), 2):
            if name != other:
                reason = self.exclusion({name: self.features[name][i], other: self.features[other][k]})
                if reason:
                    found[a, b] = reason
        return found

    def allows(self, row: Row) -> bool:
        """Whether no pair of the row is left out."""
        return not any(self.exclusion({a: row[a], b: row[b]}) for a, b in combinations(self.features, 2))

    def random_row(self, rng: np.random.Generator) -> Row:
        """Any allowed row."""
        while True:
            row = {name: levels[rng.integers(len(levels))] for name, levels in self.features.items()}
            if self.allows(row):
                return row

    def pair_count(self, rows: Sequence[Row]) -> int:
        """How many different pairs of levels the rows hold."""
        number = {(name, value): n for n, (name, value) in enumerate(self._values())}
        seen = np.zeros((len(number), len(number)), np.bool_)
        for row in rows:
            seen[_block([number[name, row[name]] for name, some in self.features.items() if len(some) > 1], 2)] = True
        return int((seen.sum() - np.trace(seen)) // 2)

    def _values(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, values in self.features.items() for value in values]


def covering_rows(space: Space, seed: int, triples: Sequence[str] = ()) -> list[Row]:
    """Rows that cover every allowed pair of levels, and every allowed triple among the features ``triples``."""
    builder = _Builder(space, np.random.default_rng(seed))
    rows = builder.named(builder.rows(builder.uncovered(tuple(space.features), 2)))
    return [*rows, *missing_rows(space, seed, triples, rows)]


def rows_of_each_level(space: Space, seed: int) -> list[Row]:
    """Few rows that hold every level that some row can hold."""
    builder = _Builder(space, np.random.default_rng(seed))
    return builder.named(builder.rows(builder.uncovered(tuple(space.features), 1)))


def missing_rows(space: Space, seed: int, triples: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """What ``rows`` lack of every allowed triple among the features ``triples``."""
    if not triples:
        return []
    builder = _Builder(space, np.random.default_rng(seed))
    rest = builder.uncovered(tuple(name for name in triples if name in space.features), 3)
    for row in rows:
        builder.cover(rest, builder.numbered(row))
    return builder.named(builder.rows(rest))


class _Builder:
    """The greedy construction, on numbers of levels."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space, self.rng, self.levels = space, rng, space.levels
        self.number = {(name, space.features[name][i]): n for n, (name, i) in enumerate(self.levels)}
        self.of = {name: np.array([n for n, (f, _) in enumerate(self.levels) if f == name]) for name in space.features}
        self.forbidden = np.zeros((len(self.levels), len(self.levels)), np.bool_)
        for a, b in space.excluded():
            self.forbidden[a, b] = self.forbidden[b, a] = True

    def numbered(self, row: Row) -> list[int]:
        """A row as numbers of levels."""
        return [self.number[item] for item in row.items()]

    def named(self, rows: Sequence[Sequence[int]]) -> list[Row]:
        """Rows of numbers as rows of levels."""
        return [{name: self.space.features[name][i] for name, i in (self.levels[n] for n in row)} for row in rows]

    def uncovered(self, names: tuple[str, ...], strength: int) -> NDArray[np.bool_]:
        """The allowed combinations of levels of so many of these features, as a symmetric tensor."""
        rest = np.zeros((len(self.levels),) * strength, np.bool_)
        for chosen in combinations(names, strength):
            rest[np.ix_(*(self.of[name] for name in chosen))] = True
        forbidden = self.forbidden
        if strength == 1:
            return rest
        if strength == 2:
            rest &= ~forbidden
            return rest | rest.T
        rest &= ~(forbidden[:, :, None] | forbidden[:, None, :] | forbidden[None, :, :])
        return np.logical_or.reduce([rest.transpose(order) for order in permutations(range(3))])

    def cover(self, rest: NDArray[np.bool_], row: Sequence[int]) -> None:
        """Take what a row covers out of ``rest``."""
        rest[_block(row, rest.ndim)] = False

    def gain(self, rest: NDArray[np.bool_], levels: NDArray[np.intp], chosen: list[int]) -> NDArray[np.intp]:
        """How many combinations each of ``levels`` would cover beside the chosen ones."""
        others = (np.asarray(chosen, np.intp),) * (rest.ndim - 1)
        return rest[np.ix_(levels, *others)].reshape(len(levels), -1).sum(axis=1)

    def rows(self, rest: NDArray[np.bool_]) -> list[list[int]]:
        """Rows until nothing that can be covered is left."""
        found: list[list[int]] = []
        while rest.any():
            starts = np.argwhere(rest)
            candidates = [self.row(rest, starts[self.rng.integers(len(starts))]) for _ in range(CANDIDATES)]
            complete = [row for row in candidates if row]
            if not complete:
                start = starts[0]
                row = next((row for _ in range(50) if (row := self.row(rest, start))), None)
                if row is None:  # no row holds it: it is excluded by what surrounds it
                    for order in permutations(start):
                        rest[order] = False
                    continue
                complete = [row]
            best = max(complete, key=lambda row: int(rest[_block(row, rest.ndim)].sum()))
            self.cover(rest, best)
            found.append(best)
        return found

    def row(self, rest: NDArray[np.bool_], start: NDArray[np.intp]) -> list[int] | None:
        """One row that holds the combination ``start``; None if the exclusions leave no level somewhere."""
        chosen = [int(n) for n in start]
        names = [name for name in self.of if name not in {self.levels[n][0] for n in chosen}]
        for at in self.rng.permutation(len(names)):
            levels = self.of[names[at]]
            levels = levels[~self.forbidden[levels][:, chosen].any(axis=1)]
            if not levels.size:
                return None
            gain = self.gain(rest, levels, chosen)
            chosen.append(int(self.rng.choice(levels[gain == gain.max()])))
        return sorted(chosen)


def _block(row: Sequence[int], strength: int) -> tuple[NDArray[np.intp], ...]:
    """The index of all combinations of the levels of a row."""
    at = np.asarray(row, np.intp)
    return np.ix_(*(at,) * strength)
