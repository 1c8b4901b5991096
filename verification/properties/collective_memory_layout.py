"""The round is right whatever the strides, offsets and memory order of the inputs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from verification.cases import CollectiveCase
from verification.compression_relation import collective_round
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.protocol import Array
from verification.strategies import FEW_SIZES, FEW_WORKERS, collective_cases


def transposed(array: Array) -> Array:
    """The same numbers, column by column."""
    return np.asfortranarray(array)


def padded(array: Array) -> Array:
    """The same numbers inside a larger array of NaN, one element off its start."""
    outer = np.full((*array.shape[:-1], array.shape[-1] + 3), np.nan, array.dtype)
    outer[..., 1:-2] = array
    return outer[..., 1:-2]


def interleaved(array: Array) -> Array:
    """The same numbers, every second element of an array of NaN."""
    outer = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
    outer[..., ::2] = array
    return outer[..., ::2]


def check(driver: Driver, case: CollectiveCase) -> Iterable[Finding]:
    """Call with three other layouts of the same numbers; sums may change their order, so the relation decides."""
    for layout in (transposed, padded, interleaved):
        outputs = driver.allreduce_in_place(driver.new(), tuple(layout(array) for array in case.rounds[0]))  # pyright: ignore[reportArgumentType]
        for finding in collective_round(driver.traits, case.rounds[0], outputs).findings():
            yield Finding("L8", "memory_layout", f"with inputs that are {layout.__name__} in memory: {finding.message}")
            return


PROPERTY = Property(
    id="collective.memory_layout",
    law="L8",
    title="The round is right whatever the strides, offsets and memory order of the inputs.",
    catches="raw pointers into strided arrays, wide loads that assume alignment",
    cases=partial(collective_cases, workers=FEW_WORKERS, sizes=FEW_SIZES),
    check=check,
    cost=3,
)
