"""A collective keeps nothing from one call to the next: each call is right, with other numbers and other sizes."""

from __future__ import annotations

from functools import partial

from verification.compression_relation import CLAUSES
from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.repeated_calls",
    law="L1, L8",
    title="A collective keeps nothing from one call to the next: each call is right, with other numbers and other sizes.",
    catches="buffers kept at the first size, stale scales, errors kept inside as well as returned",
    cases=partial(collective_cases, rounds=3),
    check=collective_clauses(*CLAUSES),
    cost=2,
)
