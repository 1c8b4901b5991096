"""The parameters are bitwise equal on all workers after every step."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.replicas",
    law="L6",
    title="The parameters are bitwise equal on all workers after every step.",
    catches="local updates, workers that miss a message, errors applied to the own copy only",
    cases=partial(optimizer_cases, compressed=(3, 6)),
    check=step_clauses("replicas"),
)
