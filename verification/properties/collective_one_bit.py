"""The output is one magnitude on each server chunk."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.one_bit",
    law="L5, C3",
    title="The output is one magnitude on each server chunk.",
    catches="no server compression, chunks cut elsewhere, zeros in the output",
    cases=collective_cases,
    check=collective_clauses("one_bit"),
)
