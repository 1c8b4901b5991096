"""Covering arrays: few rows in which every allowed pair of feature levels occurs, and every triple where that is asked.

A row picks one level of each feature. Rows are built greedily: start from a combination that is not covered yet, then
give each feature, in random order, the level that covers most (Bryce, Colbourn and Cohen's framework, ICSE 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]
"""Feature -> level."""

Rule = tuple[str, Callable[[Any], bool], str, Callable[[Any], bool], str]
"""A feature, which of its levels, another one, which of that's, and why these are not combined."""

CANDIDATES = 8
"""Rows that are tried for each row that is kept."""


@dataclass(frozen=True)
class Space:
    """Features with their levels, the simplest first, and the rules by which pairs of them are left out."""

    features: Mapping[str, tuple[Any, ...]]
    rules: Sequence[Rule]

    @property
    def levels(self) -> list[tuple[str, int]]:
        """All levels of all features: (feature, index)."""
        return [(name, i) for name, values in self.features.items() for i in range(len(values))]

    def excluded(self) -> dict[tuple[int, int], str]:
        """Pairs of levels, by their numbers in :attr:`levels`, that are left out, and why."""
        levels, found = self.levels, dict[tuple[int, int], str]()

        def those(feature: str, takes: Callable[[Any], bool]) -> list[int]:
            return [n for n, (name, i) in enumerate(levels) if name == feature and takes(self.features[name][i])]

        for a, of_a, b, of_b, reason in self.rules:
            for one, other in product(those(a, of_a), those(b, of_b)):
                found.setdefault((min(one, other), max(one, other)), reason)
        return dict(sorted(found.items()))

    def broken(self, row: Row) -> Iterator[tuple[str, str, str]]:
        """The pairs of a row, or of a part of it, that are left out: two features, and why."""
        for a, of_a, b, of_b, reason in self.rules:
            if a in row and b in row and of_a(row[a]) and of_b(row[b]):
                yield a, b, reason

    def exclusion(self, row: Row) -> str:
        """Why some two levels of a row, or of a part of it, are not combined; empty if they are."""
        return next((reason for _, _, reason in self.broken(row)), "")

    def allows(self, row: Row, given: Row | None = None) -> bool:
        """Whether no pair of the row is left out, apart from pairs within what is ``given`` of it."""
        return all(given is not None and a in given and b in given for a, b, _ in self.broken(row))

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


class Triples:
    """The allowed triples of levels of all features that no row has held yet; several arrays may share them."""

    def __init__(self, space: Space) -> None:
        self.builder = _Builder(space, np.random.default_rng(0))
        self.rest = self.builder.uncovered(tuple(space.features), 3)

    def gain(self, row: Row) -> int:
        """How many of them a row holds."""
        return int(self.rest[_block(self.builder.numbered(row), 3)].sum())

    def cover(self, row: Row) -> None:
        """A row holds them now."""
        self.builder.cover(self.rest, self.builder.numbered(row))


def covering_rows(space: Space, seed: int, triples: Sequence[str] = (), beside: Triples | None = None) -> list[Row]:
    """Rows that cover every allowed pair of levels, and every allowed triple among the features ``triples``.

    Of rows with as many new pairs the one is taken that holds most of the triples ``beside``; those are crossed out.
    """
    builder = _Builder(space, np.random.default_rng(seed), beside)
    rows = builder.named(builder.rows(builder.uncovered(tuple(space.features), 2)))
    return [*rows, *missing_rows(space, seed, triples, rows, beside)]


def rows_of_each_level(space: Space, seed: int) -> list[Row]:
    """Few rows that hold every level that some row can hold."""
    builder = _Builder(space, np.random.default_rng(seed))
    return builder.named(builder.rows(builder.uncovered(tuple(space.features), 1)))


def missing_rows(
    space: Space, seed: int, triples: Sequence[str], rows: Sequence[Row], beside: Triples | None = None
) -> list[Row]:
    """What ``rows`` lack of every allowed triple among the features ``triples``."""
    if not triples:
        return []
    builder = _Builder(space, np.random.default_rng(seed), beside)
    names = tuple(name for name in triples if name in space.features)
    rest = builder.uncovered(names, 3)
    for row in rows:
        builder.cover(rest, builder.numbered({name: row[name] for name in names}))
    return builder.named(builder.rows(rest))


class _Builder:
    """The greedy construction, on numbers of levels."""

    def __init__(self, space: Space, rng: np.random.Generator, beside: Triples | None = None) -> None:
        self.space, self.rng, self.levels, self.beside = space, rng, space.levels, beside
        self.number = {(name, space.features[name][i]): n for n, (name, i) in enumerate(self.levels)}
        self.of = {name: np.array([n for n, (f, _) in enumerate(self.levels) if f == name]) for name in space.features}
        self.allowed = np.ones((len(self.levels), len(self.levels)), np.bool_)
        for a, b in space.excluded():
            self.allowed[a, b] = self.allowed[b, a] = False

    def numbered(self, row: Row) -> list[int]:
        """A row as numbers of levels; without those that the space does not have."""
        return [self.number[item] for item in row.items() if item in self.number]

    def named(self, rows: Sequence[Sequence[int]]) -> list[Row]:
        """Rows of numbers as rows of levels."""
        return [{name: self.space.features[name][i] for name, i in (self.levels[n] for n in row)} for row in rows]

    def uncovered(self, names: tuple[str, ...], strength: int) -> NDArray[np.bool_]:
        """The allowed combinations of levels of so many of these features, as a symmetric tensor."""
        rest = np.zeros((len(self.levels),) * strength, np.bool_)
        for chosen in combinations(names, strength):
            rest[np.ix_(*(self.of[name] for name in chosen))] = True
        allowed = self.allowed
        if strength == 1:
            return rest
        if strength == 2:
            rest &= allowed
            for levels in self.of.values():  # beside which some level of every feature is left
                beside = allowed[:, levels].astype(np.intp)
                rest &= beside @ beside.T > 0
            return rest | rest.T
        rest &= allowed[:, :, None] & allowed[:, None, :] & allowed[None, :, :]
        return np.logical_or.reduce([rest.transpose(order) for order in permutations(range(3))])

    def cover(self, rest: NDArray[np.bool_], row: Sequence[int]) -> None:
        """Take what a row covers out of ``rest``."""
        rest[_block(row, rest.ndim)] = False

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
            best = self.best(rest, complete)
            self.cover(rest, best)
            if self.beside is not None:
                self.beside.cover(self.named([best])[0])
            found.append(best)
        return found

    def best(self, rest: NDArray[np.bool_], rows: Sequence[list[int]]) -> list[int]:
        """The row that covers most of ``rest``; of several the one that holds most of the triples beside."""
        new = [int(rest[_block(row, rest.ndim)].sum()) for row in rows]
        tied = [row for row, count in zip(rows, new, strict=True) if count == max(new)]
        if self.beside is None or len(tied) == 1:
            return tied[0]
        beside = self.beside
        return max(tied, key=lambda row: beside.gain(self.named([row])[0]))

    def row(self, rest: NDArray[np.bool_], start: NDArray[np.intp]) -> list[int] | None:
        """One row that holds the combination ``start``; None if the exclusions leave no level somewhere."""
        chosen = list[int]()
        allowed, gain = np.ones(len(self.levels), np.bool_), np.zeros(len(self.levels), np.intp)

        def choose(level: int) -> None:
            """Each level would cover this much more beside it and those chosen before."""
            nonlocal gain
            if rest.ndim == 2:
                gain += rest[level]
            elif rest.ndim == 3:
                gain += rest[:, level, chosen].sum(axis=1)
            np.logical_and(allowed, self.allowed[level], out=allowed)
            chosen.append(level)

        for level in start:
            choose(int(level))
        held = {self.levels[n][0] for n in chosen}
        names = [name for name in self.of if name not in held]
        for at in self.rng.permutation(len(names)):
            levels = self.of[names[at]]
            levels = levels[allowed[levels]]
            if not levels.size:
                return None
            some = (gain if rest.ndim > 1 else rest)[levels].tolist()
            most = max(some)
            best = [level for level, count in zip(levels.tolist(), some, strict=True) if count == most]
            choose(best[self.rng.integers(len(best))] if len(best) > 1 else best[0])
        return sorted(chosen)


def _block(row: Sequence[int], strength: int) -> tuple[NDArray[np.intp], ...]:
    """The index of all combinations of the levels of a row."""
    at = np.asarray(row, np.intp)
    return np.ix_(*(at,) * strength)
