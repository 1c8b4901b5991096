"""A worker sends one bit an element and one scale a message: 2 (N-1)/N D/8 bytes and O(N) scales."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from verification.cases import CollectiveCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.strategies import collective_cases

SCALE_BYTES = 8
"""The most that a message may spend on its scale: one float64."""


def check(driver: Driver, case: CollectiveCase) -> Iterable[Finding]:
    """No fewer bits than elements, and no more than padded chunks with one scale each."""
    inputs, n, dim = case.rounds[0], case.n_workers, case.dim
    instance = driver.new()
    driver.allreduce(instance, inputs)
    sent_N = np.asarray(instance.bytes_per_worker())
    if sent_N.shape != (n,):
        yield Finding(
            "wire", "wire_bytes", f"bytes_per_worker() must have one number a worker ({n}), got shape {sent_N.shape}"
        )
        return
    chunks = driver.traits.chunks(dim, n)
    bits_K = np.array([chunk.stop - chunk.start for chunk in chunks])
    message = -(-int(bits_K.max()) // 8) + SCALE_BYTES
    for i in range(n):
        served = int(bits_K[i]) if i < len(chunks) else 0
        least = (dim - served + (n - 1) * served) / 8
        most = (len(chunks) - (i < len(chunks)) + (n - 1) * (i < len(chunks))) * message
        if not least <= sent_N[i] <= most:
            yield Finding(
                "wire",
                "wire_bytes",
                f"worker {i} says it sent {sent_N[i]} bytes; one bit an element and a scale a "
                f"message are between {least:.0f} and {most}",
            )
            return


PROPERTY = Property(
    id="collective.wire_bytes",
    law="wire",
    title="A worker sends one bit an element and one scale a message: 2 (N-1)/N D/8 bytes and O(N) scales.",
    catches="a byte a sign, chunks sent to oneself, every chunk sent to everybody",
    cases=collective_cases,
    check=check,
    needs=("bytes_per_worker",),
)
