"""The round is right for buffers of 10^4 elements and more, whatever the order of their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from verification.cases import CollectiveCase
from verification.compression_relation import CLAUSES
from verification.property import Property, collective_clauses
from verification.protocol import Traits
from verification.strategies import collective_cases, gaussian, skewed


def absorbing(traits: Traits) -> Sequence[CollectiveCase]:
    """One large number, then 2^18 of which float32 can't add any single one to it: a long sum stands still."""
    small = 2.0**-25 if traits.scale == "l1" else 2.0**-12.5
    buffer_D = np.full(2**18, small, traits.numpy_dtype)
    buffer_D[0] = 1.0
    zeros_D = np.zeros_like(buffer_D)
    return [CollectiveCase(((buffer_D[None], zeros_D[None], zeros_D),))]


PROPERTY = Property(
    id="collective.large_buffers",
    law="C1, C2, L1",
    title="The round is right for buffers of 10^4 elements and more, whatever the order of their sizes.",
    catches="long float32 sums that stop growing; bugs in one element of 10^4, in the last block, past 16-bit indices",
    cases=partial(collective_cases, palettes=(gaussian, skewed), workers=(1, 2), sizes=(10_001, 16_385, 65_541)),
    check=collective_clauses(*CLAUSES),
    examples=absorbing,
    cost=10,
)
