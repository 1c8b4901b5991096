"""All properties on all correct strangers, over many seeds: every finding is a false alarm, and there must be none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def alarms_of(name: str, seed: int, examples: int) -> tuple[list[Alarm], int]:
    """Alarms of one stranger with one seed, and how many cases were checked."""
    stranger = next(one for one in all_strangers() if qualified(one) == name)
    driver, alarms, tried = Driver(stranger), [], 0
    for prop in all_properties():
        if prop.level in driver.levels:
            verdict = run_property(prop, driver, max_examples=examples, seed=seed, shrink=False)
            tried += verdict.tried
            if verdict.outcome == "fails":
                alarms.append(Alarm(name, prop.id, seed, verdict.findings[0].message))
    return alarms, tried


def search(seeds: int, *, examples: int = 3, jobs: int = -1, names: Sequence[str] = ()) -> Iterator[tuple[list[Alarm], int]]:
    """Results as they come, one for each stranger and block of seeds; ``examples`` cases a property and seed."""
    names = names or [qualified(stranger) for stranger in all_strangers()]
    tasks = [(name, seed) for name in names for seed in range(1, seeds + 1)]
    if jobs == 1:
        yield from (alarms_of(name, seed, examples) for name, seed in tasks)
        return
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=4)(
        delayed(alarms_of)(name, seed, examples) for name, seed in tasks
    )
