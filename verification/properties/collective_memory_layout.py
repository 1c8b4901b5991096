"""Strides, offsets and the memory order of the inputs do not change the result."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from verification.cases import CollectiveCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.protocol import Array
from verification.step_relation import same_bits
from verification.strategies import collective_cases


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
    """Call with three other layouts of the same numbers; the bits must be those of contiguous inputs."""
    expected = [array.copy() for array in driver.allreduce(driver.new(), case.rounds[0])]
    for layout in (np.asfortranarray, padded, interleaved):
        outputs = driver.allreduce_in_place(driver.new(), tuple(layout(array) for array in case.rounds[0]))  # pyright: ignore[reportArgumentType]
        if not all(same_bits(np.ascontiguousarray(a), b) for a, b in zip(outputs, expected, strict=True)):
            yield Finding("L8", "memory_layout", f"the result is another one when the inputs are {layout.__name__} in memory")
            return


PROPERTY = Property(
    id="collective.memory_layout",
    law="L8",
    title="Strides, offsets and the memory order of the inputs do not change the result.",
    catches="raw pointers into strided arrays, wide loads that assume alignment",
    cases=collective_cases,
    check=check,
    cost=3,
)
