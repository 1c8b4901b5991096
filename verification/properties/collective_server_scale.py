"""Each server chunk has the scale of its own average."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.server_scale",
    law="C1, C3",
    title="Each server chunk has the scale of its own average.",
    catches="padding counted in the tail chunk, one scale for all chunks, scale of the wrong buffer",
    cases=collective_cases,
    check=collective_clauses("server_scale"),
)
