"""All properties on all correct strangers, over many seeds: every finding is a false alarm, and there must be none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed

from verification.driver import Driver
from verification.registry import all_properties
from verification.runner import run_property


@dataclass(frozen=True)
class Alarm:
    """A property that found something in a correct implementation."""

    stranger: str
    prop: str
    seed: int
    message: str


def all_strangers() -> tuple[type, ...]:
    """The strangers, and our reference; those in torch only where torch is installed."""
    from verification.adapters.reference import (  # noqa: PLC0415 - heavy
        ReferenceCollective,
        ReferenceCollectiveL1,
        ReferenceOptimizer,
    )
    from verification.mutants.base_collective import BaseCollective  # noqa: PLC0415
    from verification.mutants.base_optimizer import BaseOptimizer  # noqa: PLC0415
    from verification.strangers.collectives import COLLECTIVES  # noqa: PLC0415
    from verification.strangers.lazy import LAZY  # noqa: PLC0415
    from verification.strangers.optimizers import OPTIMIZERS  # noqa: PLC0415

    ours = (ReferenceCollective, ReferenceCollectiveL1, ReferenceOptimizer, BaseCollective, BaseOptimizer)
    found = (*ours, *COLLECTIVES, *OPTIMIZERS, *LAZY)
    try:
        from verification.strangers.with_torch import TORCH  # noqa: PLC0415
    except ImportError:
        return found
    return (*found, *TORCH)


def qualified(stranger: type) -> str:
    """``collectives.Float64``: module and class."""
    return f"{stranger.__module__.rsplit('.', 1)[-1]}.{stranger.__name__}"


def alarms_of(name: str, property_id: str, seeds: int, start: int = 0) -> tuple[list[Alarm], int]:
    """Alarms of one property on ``seeds`` cases of one stranger, each with its own NumPy seed, and how many ran."""
    stranger = next(one for one in all_strangers() if qualified(one) == name)
    prop = next(one for one in all_properties() if one.id == property_id)
    driver = Driver(stranger)
    count = round(seeds * prop.cost)
    verdict = run_property(prop, driver, max_examples=count, seed=start, seconds=3600, shrink=False)
    alarms = [Alarm(name, prop.id, start, verdict.findings[0].message)] if verdict.outcome == "fails" else []
    return alarms, verdict.tried


def search(seeds: int, *, jobs: int = -1, start: int = 0) -> Iterator[tuple[list[Alarm], int]]:
    """Results as they come, one for each stranger and property; ``start`` picks other seeds."""
    tasks = [
        (qualified(stranger), prop.id)
        for stranger in all_strangers()
        for prop in all_properties()
        if prop.level in Driver(stranger).levels
    ]
    if jobs == 1:
        yield from (alarms_of(name, prop, seeds, start) for name, prop in tasks)
        return
    run: Any = Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from run(delayed(alarms_of)(name, prop, seeds, start) for name, prop in tasks)


def number_of_searches() -> int:
    """How many results :func:`search` yields."""
    per_level = {level: sum(prop.level == level for prop in all_properties()) for level in ("collective", "optimizer")}
    return sum(per_level[level] for stranger in all_strangers() for level in Driver(stranger).levels)
