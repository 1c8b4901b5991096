"""After the freeze the variance is bitwise constant."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.frozen_variance",
    law="L4",
    title="After the freeze the variance is bitwise constant.",
    catches="freezing one step late, a variance that goes on moving",
    cases=partial(optimizer_cases, compressed=(3, 1)),
    check=step_clauses("frozen"),
)
