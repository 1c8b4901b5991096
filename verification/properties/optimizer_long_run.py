"""Every clause of the step holds for sixty compressed steps on end."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.step_relation import CLAUSES
from verification.strategies import FEW_WORKERS, gaussian, optimizer_cases, skewed

PROPERTY = Property(
    id="optimizer.long_run",
    law="L1, L4, L5, L6",
    title="Every clause of the step holds for sixty compressed steps on end.",
    catches="counters that wrap, periodic resets, anything that starts after step 50",
    cases=partial(
        optimizer_cases, palettes=(gaussian, skewed), compressed=(60,), workers=FEW_WORKERS, sizes=(3, 8, 9, 17)
    ),
    check=step_clauses(*CLAUSES),
    cost=15,
)
