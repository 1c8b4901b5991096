"""A worker's scale is the l2 or l1 scale of what it compresses."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.worker_scale",
    law="C1",
    title="A worker's scale is the l2 or l1 scale of what it compresses.",
    catches="padding counted, l1 for l2, maximum for mean, a low-precision accumulator, guards against zero",
    cases=collective_cases,
    check=collective_clauses("worker_scale"),
)
