"""Which cases a profile tries: one or more for every row of the covering arrays, then the special ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from verification.relation.finding import AdapterError
from verification.search import collective_space, large_cases, optimizer_cases, optimizer_space
from verification.search.cases import Case, CollectiveCase, Maker, OptimizerCase, always
from verification.search.covering import Row, Space, Triples, covering_rows, missing_rows
from verification.search.driver import Driver
from verification.search.verdicts import level_text


@dataclass(frozen=True)
class Profile:
    """How much is tried.

    Attributes:
        arrays: covering arrays, each with its own seed.
        cheap: so many more of them for each level of ``CHEAP``: every triple with that level in it.
        draws: cases drawn for every row.
        exact: seeds of runs and rounds without rounding.
        triples: whether every triple of the features in ``TRIPLES`` is covered in each array.
        minutes: of time by the clock when the search is cut off, unless told otherwise: some twenty times what a quiet
            machine needs, so that a busy one does not decide.
        simplifying: smaller cases that are tried for each clause that fails.
        largest: the largest D of the rows; the few large cases come with it where it is 2^20.
        longest: the most compressed steps of the rows.
    """

    arrays: int
    draws: int
    exact: int
    triples: bool
    minutes: float
    simplifying: int
    largest: int = 2**20
    longest: int = 300
    cheap: int = 0


PROFILES = {
    "quick": Profile(1, 1, 120, triples=False, minutes=20, simplifying=400, cheap=1),
    "ci": Profile(6, 2, 240, triples=True, minutes=120, simplifying=1000, cheap=3),
    "deep": Profile(100, 5, 1000, triples=True, minutes=24 * 60, simplifying=5000, cheap=40),
}


@dataclass(frozen=True)
class Plan:
    """The rows of one level, and how to make their cases."""

    driver: Driver
    level: str
    profile: Profile
    seed: int
    space: Space
    rows: tuple[tuple[Row, int], ...]
    triples: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, driver: Driver, level: str, profile: Profile, seed: int) -> Plan:
        """The plan of a profile; the same for the same seed. The rows with little work come first."""
        traits = driver.traits
        if level == "optimizer":
            space = optimizer_space.optimizer_space(traits, can_save=driver.can_save, thorough=profile.triples)
        else:
            space = collective_space.collective_space(traits)
        alone = {name: levels[0] for name, levels in space.features.items() if len(levels) == 1}
        if reason := space.exclusion(alone):
            raise AdapterError(f"of what {driver.name} takes there is no case: {reason}")
        limits = {"size": profile.largest, "compressed": profile.longest}
        space = _only(space, {name: partial(_begins_below, most) for name, most in limits.items()})
        every = optimizer_space.TRIPLES if level == "optimizer" else tuple(space.features)
        triples = every if profile.triples else ()
        late = optimizer_space.LATE if level == "optimizer" and profile.cheap else ()
        beside = Triples(space) if profile.cheap else None
        arrays = [covering_rows(space, seed + number, triples, beside) for number in range(profile.arrays)]
        for feature, wanted in CHEAP * profile.cheap:
            part = _only(space, wanted)
            for chosen in part.features.get(feature, ()):
                one = replace(part, features={**part.features, feature: (chosen,)})
                arrays.append(covering_rows(one, seed + len(arrays), beside=beside))
        if arrays:
            few = replace(space, features={**space.features, "size": space.features["size"][:FEW]})
            wanted_triples = [(few, late)]
            if level == "optimizer":
                plain = replace(few, features={**few.features, "scale_block": (None,)})
                wanted_triples += [(plain, optimizer_space.UNBLOCKED)]
                wanted_triples += [(space, names) for names in optimizer_space.EVENTFUL]
            for part, names in wanted_triples:
                arrays[0] += missing_rows(part, seed, names, [row for rows in arrays for row in rows], beside)
        tried = [row for array in arrays for row in array for _ in range(profile.draws)]
        rows = [(row, 10**6 * seed + number) for number, row in enumerate(tried)]
        rows.sort(key=lambda item: _weight(item[0]))
        return cls(driver, level, profile, seed, space, tuple(rows), tuple(names for names in (triples, late) if names))

    def __len__(self) -> int:
        return len(self.rows) + len(self.specials)

    @cached_property
    def specials(self) -> Sequence[Maker]:
        """Cases that no row holds: those without rounding, and the large ones, which are made when they are called."""
        return [*(partial(always, case) for case in self.exact), *self.large_cases()]

    @cached_property
    def exact(self) -> Sequence[Case]:
        """Those without rounding."""
        many = self.level == "collective" and self.profile.largest >= 2**20
        large = collective_space.large_exact_cases(self.driver.traits) if many else ()
        return [*self.exact_cases(self.profile.exact), *large]

    def large_cases(self) -> Sequence[Maker]:
        """Those with what is too long for a row; none where the profile stops at a smaller D."""
        if self.profile.largest < 2**20:
            return ()
        traits, can_save = self.driver.traits, self.driver.can_save
        if self.level != "optimizer":
            return collective_space.large_cases(traits, self.seed)
        each = large_cases.each_level(traits, can_save=can_save, seed=self.seed)
        each += large_cases.corners(traits, can_save=can_save, seed=self.seed)
        lone = (*large_cases.lone_ratios(traits), *large_cases.lone_norms(traits))
        return [*(partial(always, case) for case in (*large_cases.long_sums(traits), *lone)), *each]

    def exact_cases(self, count: int) -> list[Case]:
        """Cases without rounding, of ``count`` seeds from the plan's on; fewer where the class takes none."""
        make = collective_space.exact_case
        if self.level == "optimizer":
            make = partial(optimizer_cases.exact_case, can_save=self.driver.can_save)
        seeds = range(1000 * self.seed, 1000 * self.seed + count)
        return [case for seed in seeds if (case := make(self.driver.traits, seed)) is not None]

    def untied(self) -> tuple[str, ...]:
        """Levels of what a round depends on with which no case is without rounding, and so has no exact tie; or all."""
        if self.level == "optimizer" and not self.driver.traits.compresses:
            return ()
        if not self.exact:
            return ("any level",)
        hypers = [case.hyper for case in self.exact if isinstance(case, OptimizerCase)]
        found = []
        for name in TYING:
            tied = {getattr(hyper, name, None) for hyper in hypers}
            levels = self.space.features.get(name, ())  # a collective has no such feature
            found += [f"{name} {level_text(level)}" for level in levels if level not in tied]
        return tuple(found)

    def size(self, case: Case) -> float:
        """How much there is to read in a case; one without rounding can hardly be made smaller."""
        if isinstance(case, CollectiveCase):
            return sum(inputs[0].size for inputs in case.calls) + 10**6 * case.exact
        numbers = sum(run.grads_TND.size for run in (case, case.other, case.target) if run is not None)
        return numbers + 10 * len(case.program) + 10**6 * case.exact

    def case(self, row: Row, seed: int) -> Case:
        """A case of a row: what its levels leave open is drawn."""
        make: Any = optimizer_cases.optimizer_case if self.level == "optimizer" else collective_space.collective_case
        return make(row, self.driver.traits, np.random.default_rng(seed))


TYING = ("scale", "bias_correction", "compress", "frozen_dtype")
"""The hyper-parameters with few values on which the numbers of a round depend."""


FEW = 4
"""So many sizes, the smallest, are enough for what has to occur at some size."""

CHEAP: tuple[tuple[str, Mapping[str, Callable[[Any], bool]]], ...] = (
    ("size", {"size": lambda size: size[1] <= 256, "compressed": lambda steps: steps[1] <= 12}),
    ("size", {"size": lambda size: 256 < size[1] <= 16384, "compressed": lambda steps: steps[1] <= 4}),
    ("compressed", {"size": lambda size: size[1] <= 40, "compressed": lambda steps: steps[1] > 12}),
)
"""Parts of the space with little work, each with a feature; every level of it there has a covering array of its own.

So every triple with such a level is covered: short runs on few elements, the shortest on many, and long ones on few.
"""


def _begins_below(most: int, level: optimizer_space.Range) -> bool:
    return level[0] <= most


def _only(space: Space, wanted: Mapping[str, Callable[[Any], bool]]) -> Space:
    """A space with these levels alone; where a feature has none of them, with its first."""
    features = dict(space.features)
    for name, takes in wanted.items():
        if name in features:
            features[name] = tuple(level for level in features[name] if takes(level)) or features[name][:1]
    return replace(space, features=features)


def _weight(row: Row) -> float:
    """A rough measure of the work in a row."""
    steps = row["freeze"][1] + row["compressed"][1] if "freeze" in row else row["calls"][1]
    return steps * (500 + row["workers"][1] * row["size"][1])


def costs_of_row(row: Row) -> tuple[int, int]:
    """About how many calls of the class the case of a row makes, and on how many elements all together."""
    steps = 0 if "calls" in row else sum(row["freeze"]) + sum(row["compressed"])
    calls = 6 + 3 * steps // 2 if steps else sum(row["calls"]) // 2 + 2
    return calls, calls * sum(row["workers"]) * sum(row["size"]) // 4


def plain_case(level: str, driver: Driver) -> Case:
    """The plainest input of a level: does the class run at all?"""
    rng, traits = np.random.default_rng(0), driver.traits
    dtype, workers = traits.numpy_dtype, optimizer_space.allowed_workers(traits)
    n = 2 if 2 in workers else workers[0]
    low, _ = next((size for size in optimizer_space.allowed_sizes(traits) if size[0] >= 8), (16, 16))
    dim = (
        16 if traits.sizes is None else next(size for size in traits.sizes if size >= low or size == max(traits.sizes))
    )
    if level == "collective":
        inputs = tuple(rng.standard_normal(shape).astype(dtype) for shape in ((n, dim), (n, dim), (dim,)))
        return CollectiveCase((inputs,))  # pyright: ignore[reportArgumentType]
    taken = {name: values[0] for name, values in traits.takes}
    hyper = traits.hyper(**{"freeze_step": 1, "scale": traits.scale or "l2", **taken})
    steps = hyper.freeze_step + traits.compresses
    grads_TND = rng.standard_normal((steps, n, dim)).astype(dtype)
    return OptimizerCase(np.ones(dim, dtype), grads_TND, n, hyper, ("step",) * steps)
