"""Inputs are not modified, and what is returned is the caller's: later calls do not change it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from verification.cases import CollectiveCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.protocol import Traits
from verification.step_relation import same_bits
from verification.strategies import collective_cases

INPUTS = ("buffers_ND", "worker_errors_ND", "server_error_D")
OUTPUTS = ("output_D", "worker_errors_ND", "server_error_D")


def check(driver: Driver, case: CollectiveCase) -> Iterable[Finding]:
    """Compare inputs before and after, look for shared memory, and call again with other numbers."""
    instance = driver.new()
    given = tuple(array.copy() for array in case.rounds[0])
    outputs = driver.allreduce_in_place(instance, given)  # pyright: ignore[reportArgumentType]
    for name, array, original in zip(INPUTS, given, case.rounds[0], strict=True):
        if not same_bits(array, original):
            yield Finding("purity", "purity", f"allreduce modified its argument {name}")
            return
    for name, output in zip(OUTPUTS, outputs, strict=True):
        others = [
            *zip(INPUTS, given, strict=True),
            *((f"returned {n}", o) for n, o in zip(OUTPUTS, outputs, strict=True) if n != name),
        ]
        for other, array in others:
            if np.may_share_memory(array, output) and np.shares_memory(array, output):
                yield Finding("purity", "purity", f"the returned {name} shares memory with {other}")
                return
    kept = [array.copy() for array in outputs]
    driver.allreduce(instance, case.rounds[-1])
    for name, array, before in zip(OUTPUTS, outputs, kept, strict=True):
        if not same_bits(array, before):
            yield Finding("purity", "purity", f"the next call changed the {name} that had been returned")
            return


def nothing_to_send(traits: Traits) -> list[CollectiveCase]:
    """All zero: what is returned equals what was given, but must be other memory."""
    inputs = tuple(np.zeros(shape, traits.numpy_dtype) for shape in ((1, 8), (1, 8), (8,)))
    return [CollectiveCase((inputs, inputs))]  # pyright: ignore[reportArgumentType]


PROPERTY = Property(
    id="collective.purity",
    law="purity",
    title="Inputs are not modified, and what is returned is the caller's: later calls do not change it.",
    catches="in-place sums, returned views of kept buffers",
    cases=partial(collective_cases, rounds=2),
    check=check,
    examples=nothing_to_send,
    cost=2,
)
