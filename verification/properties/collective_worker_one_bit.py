"""What a worker keeps differs from what it had by one magnitude."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.worker_one_bit",
    law="L1",
    title="What a worker keeps differs from what it had by one magnitude.",
    catches="worker errors lost, doubled or rounded; three-valued signs; more than one scale in a message",
    cases=collective_cases,
    check=collective_clauses("worker_one_bit"),
)
