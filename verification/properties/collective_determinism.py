"""The same inputs give the same bits, on the same instance and on another one."""

from __future__ import annotations

from collections.abc import Iterable

from verification.cases import CollectiveCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.step_relation import same_bits
from verification.strategies import collective_cases


def check(driver: Driver, case: CollectiveCase) -> Iterable[Finding]:
    """Call three times, on two instances."""
    inputs = case.rounds[0]
    first, second = driver.new(), driver.new()
    expected = [array.copy() for array in driver.allreduce(first, inputs)]
    for which, instance in (("another instance", second), ("the same instance", first)):
        for name, array, before in zip(
            ("output", "worker errors", "server error"), driver.allreduce(instance, inputs), expected, strict=True
        ):
            if not same_bits(array, before):
                yield Finding("L9", "determinism", f"the same inputs gave another {name} on {which}")
                return


PROPERTY = Property(
    id="collective.determinism",
    law="L9",
    title="The same inputs give the same bits, on the same instance and on another one.",
    catches="ties broken at random, generators shared by instances, sums in the order of arrival",
    cases=collective_cases,
    check=check,
    cost=2,
)
