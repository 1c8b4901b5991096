"""The elementary bugs, collected from the family modules: a new bug is one new class, listed nowhere."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

from onebit_files import alike
from onebit_modules import Broken, each_module
from verification import mutants
from verification.algorithms import ALGORITHMS
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_lamb import BaseLamb
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.base_zero_one import BaseZeroOne
from verification.mutants.triggers import Trigger
from verification.protocol import Traits

NOT_FAMILIES = {
    *("base_collective", "base_lamb", "base_optimizer", "base_zero_one"),
    *("conditional", "families", "score", "triggers"),
}

ONLY_ALWAYS = {
    "signs.ServerZeroIsMinus": "an exact tie at the server needs a run without rounding",
    "signs.ThreeValuedServer": "the same",
    "signs.TiesAtRandom": "the same",
    "signs.AlternatingOrder": "each order alone is right",
    "scale.ThroughLogarithms": "a few ulp, which are right by themselves; only other magnitudes show it",
    "precision.FixedPointSum": "the same",
    "update.ReplicasRound": "each replica alone is right",
    "scale.LongFloat32Sum": "right by the requirement up to 2^15 terms (verification/relation/tolerances.py)",
    "scale.LongFloat32SumL1": "the same",
    "events.SequentialSums": "the same",
}
"""Bugs that are only wrong beside something that a trigger may take away."""


@dataclass(frozen=True)
class Bug:
    """An injected fault; ``text`` is the class's docstring."""

    id: str
    family: str
    text: str
    under_test: type

    @property
    def only_always(self) -> bool:
        """Whether it is tried without a trigger alone."""
        return self.id in ONLY_ALWAYS

    @cached_property
    def algorithm(self) -> str:
        """Of the implementation that it is injected into."""
        return Traits.of(self.base("optimizer")).algorithm

    def knows(self, trigger: Trigger) -> bool:
        """Whether its algorithm has the hyper-parameters that a trigger asks for."""
        own = ALGORITHMS[self.algorithm].levels
        return all(name in own for name in trigger.recipe if name in levels_of_any())

    def suits(self, level: str) -> bool:
        """Whether it can be injected at this level; a fault of the collective can be injected into an optimizer."""
        if issubclass(self.under_test, BaseOptimizer):
            return level == "optimizer"
        overrides_call = "allreduce" in vars(self.under_test) or "count_bytes" in vars(self.under_test)
        return level == "collective" or not (overrides_call or self.under_test.scale == "l1" or self.only_always)

    def base(self, level: str) -> type:
        """The correct class that it changes at this level."""
        if level == "optimizer":
            return next((one for one in (BaseZeroOne, BaseLamb) if issubclass(self.under_test, one)), BaseOptimizer)
        if self.under_test.scale_block is not None:
            return BaseCollectiveBlocks
        return BaseCollectiveL1 if self.under_test.scale == "l1" else BaseCollective


@cache
def levels_of_any() -> frozenset[str]:
    """The hyper-parameters of all algorithms."""
    return frozenset(name for one in ALGORITHMS.values() for name in one.levels)


class BaseCollectiveL1(BaseCollective):
    """The correct collective with the l1 scale."""

    scale = "l1"


class BaseCollectiveBlocks(BaseCollective):
    """The correct collective with block scales."""

    scale_block = 40


def all_bugs() -> tuple[Bug, ...]:
    """Every public subclass of the two base implementations that a family module defines."""
    return collected()[0]


def named(names: Collection[str]) -> tuple[Bug, ...]:
    """The bugs of these names: a class, a family (the name of its file), or family.Class.

    Raises:
        ValueError: a name means none; one sentence, with the names that are like it.
    """
    wanted: dict[str, Bug] = {}
    for name in names:
        found = {bug.id: bug for bug in all_bugs() if name in (bug.id, bug.family, bug.id.partition(".")[2])}
        if not found:
            known = dict.fromkeys(part for bug in all_bugs() for part in (bug.family, bug.id.partition(".")[2]))
            families = ", ".join(sorted({bug.family for bug in all_bugs()}))
            there = alike(name, known) or f"the families are {families}"
            sentences = (f"there is no fault or family {name!r}; {there}", *map(str, collected()[1]))
            raise ValueError(". ".join(sentences))
        wanted |= found
    return tuple(wanted.values())


@cache
def collected() -> tuple[tuple[Bug, ...], tuple[Broken, ...]]:
    """The bugs, and the files that can't be used."""
    found, broken = each_module(mutants, _bugs_of, NOT_FAMILIES)
    return tuple(bug for family in found for bug in family), broken


def _bugs_of(module: ModuleType) -> list[Bug]:
    """Those of one family.

    Raises:
        ValueError: a bug has no docstring.
    """
    found: list[Bug] = []
    family = module.__name__.rpartition(".")[2]
    for name, item in vars(module).items():
        public = inspect.isclass(item) and item.__module__ == module.__name__ and not name.startswith("_")
        if not public or not issubclass(item, BaseCollective | BaseOptimizer):
            continue
        if "__doc__" not in vars(item) or not item.__doc__:
            raise ValueError(f"the bug {name} needs a docstring that says what is wrong with it")
        found.append(Bug(f"{family}.{name}", family, " ".join(item.__doc__.split()), item))
    return found
