"""A collective keeps nothing from one call to the next: each call is right, with other numbers and other sizes."""

from __future__ import annotations

from functools import partial

import numpy as np

from verification.cases import CollectiveCase
from verification.compression_relation import CLAUSES
from verification.property import Property, collective_clauses
from verification.protocol import Traits
from verification.strategies import FEW_SIZES, FEW_WORKERS, allowed_workers, collective_cases, gaussian, round_from


def shrinking_and_growing(traits: Traits) -> list[CollectiveCase]:
    """As many workers on a smaller buffer, then on the first size again."""
    rng, n = np.random.default_rng(0), allowed_workers(traits, (2,))[0]
    return [
        CollectiveCase(tuple(round_from(rng, (n, dim), gaussian, traits, pending=True) for dim in (64, 24, 100, 64)))
    ]


PROPERTY = Property(
    id="collective.repeated_calls",
    law="L1, L8",
    title="A collective keeps nothing from one call to the next: each is right, with other numbers and sizes.",
    catches="buffers kept at the first size, stale scales, errors kept inside as well as returned",
    cases=partial(collective_cases, rounds=3, workers=FEW_WORKERS, sizes=FEW_SIZES),
    check=collective_clauses(*CLAUSES),
    examples=shrinking_and_growing,
    cost=2,
)
