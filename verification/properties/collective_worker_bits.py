"""A worker sends the bit u >= 0, so both zeros are +1."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.worker_bits",
    law="C2, C4",
    title="A worker sends the bit u >= 0, so both zeros are +1.",
    catches="negative zero, three-valued sign, bits packed in another order, inverted bits, lost tail",
    cases=collective_cases,
    check=collective_clauses("worker_bits"),
)
