"""Correct classes under the whole search, over many seeds: every finding is a false alarm, and there must be none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from joblib import delayed

from reference.experiments.sweep import unordered
from verification.relation.finding import Unsupported
from verification.search.cases import Case
from verification.search.driver import Driver
from verification.search.plan import Plan, Profile
from verification.search.runs import check

CASES = 3
"""Random rows that a seed tries, beside one case without rounding."""

LARGE = 4
"""For so many seeds one large case is tried as well, drawn from those of the first seed: making them takes seconds."""

PART = 20
"""Seeds that one process does at a time."""


@dataclass(frozen=True)
class Alarm:
    """A finding in a correct implementation."""

    under_test: str
    seed: int
    clause: str
    message: str


def correct_classes() -> tuple[type, ...]:
    """The independent implementations and ours; those in torch only where torch is installed."""
    from verification.adapters.lamb import ReferenceOneBitLamb  # noqa: PLC0415 - heavy
    from verification.adapters.reference import (  # noqa: PLC0415
        ReferenceCollective,
        ReferenceCollectiveL1,
        ReferenceOptimizer,
    )
    from verification.adapters.zero_one import ReferenceZeroOneAdam  # noqa: PLC0415
    from verification.independent.collectives import COLLECTIVES  # noqa: PLC0415
    from verification.independent.declared import DECLARED  # noqa: PLC0415
    from verification.independent.lamb import LAMBS  # noqa: PLC0415
    from verification.independent.lazy import LAZY  # noqa: PLC0415
    from verification.independent.optimizers import OPTIMIZERS  # noqa: PLC0415
    from verification.independent.zero_one import ZERO_ONES  # noqa: PLC0415
    from verification.mutants.base_collective import BaseCollective  # noqa: PLC0415
    from verification.mutants.base_lamb import BaseLamb  # noqa: PLC0415
    from verification.mutants.base_optimizer import BaseOptimizer  # noqa: PLC0415
    from verification.mutants.base_zero_one import BaseZeroOne  # noqa: PLC0415

    ours = (ReferenceCollective, ReferenceCollectiveL1, ReferenceOptimizer, ReferenceZeroOneAdam, ReferenceOneBitLamb)
    bases = (BaseCollective, BaseOptimizer, BaseZeroOne, BaseLamb)
    found = (*ours, *bases, *COLLECTIVES, *OPTIMIZERS, *LAZY, *DECLARED, *ZERO_ONES, *LAMBS)
    try:
        from verification.independent.with_torch import TORCH  # noqa: PLC0415
    except ImportError:
        return found
    return (*found, *TORCH)


def qualified(under_test: type) -> str:
    """``collectives.Float64``: module and class."""
    return f"{under_test.__module__.rsplit('.', 1)[-1]}.{under_test.__name__}"


def alarms_of(name: str, start: int, seeds: int) -> tuple[list[Alarm], int]:
    """Alarms of one correct class on cases of the seeds from ``start`` on, and how many cases there were."""
    driver = Driver(next(one for one in correct_classes() if qualified(one) == name))
    alarms, cases = [], 0
    for level in driver.levels:
        for seed, case in _drawn(driver, level, start, seeds):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    findings = list(check(driver, case, set()))
            except Unsupported as reason:
                alarms.append(Alarm(name, seed, "raises", f"refused: {reason}"))
                continue
            cases += 1
            alarms += [Alarm(name, seed, f"{level}.{one.clause}", f"{one.message} ({case!r})") for one in findings[:1]]
    return alarms, cases


def _drawn(driver: Driver, level: str, start: int, seeds: int) -> Iterator[tuple[int, Case]]:
    """The cases, each with its seed."""
    for seed in range(start, start + seeds):
        plan = Plan.of(driver, level, Profile(0, 1, 0, triples=True, minutes=1, simplifying=0), seed)
        rng = np.random.default_rng(seed)
        for number in range(CASES):
            yield seed, plan.case(plan.space.random_row(rng), seed + 10**6 * number)
        for case in plan.exact_cases(1):
            yield seed, case
        if seed == start and seeds >= LARGE:
            large = plan.large_cases()
            for number in rng.permutation(len(large))[: seeds // LARGE]:
                yield seed, large[number]()


def campaign(seeds: int, *, jobs: int = -1, start: int = 0) -> Iterator[tuple[list[Alarm], int]]:
    """Results as they come, one for each class and part of the seeds; ``start`` picks other seeds."""
    tasks = [
        (qualified(one), start + first, min(PART, seeds - first))
        for first in range(0, seeds, PART)
        for one in correct_classes()
    ]
    if jobs == 1:
        yield from (alarms_of(*task) for task in tasks)
        return
    yield from unordered((delayed(alarms_of)(*task) for task in tasks), jobs)


def number_of_parts(seeds: int) -> int:
    """How many results :func:`campaign` yields."""
    return -(-seeds // PART) * len(correct_classes())
