"""Output and new errors together are the mean input and the old errors, at every element."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.conservation",
    law="L1",
    title="Output and new errors together are the mean input and the old errors, at every element.",
    catches="lost, doubled, stale or rounded errors on the server; a mean over the wrong count",
    cases=collective_cases,
    check=collective_clauses("conservation"),
)
