"""After the freeze x moves by lr (m / (sqrt(v) + eps) + weight_decay x), with the momentum that was received."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.apply",
    law="L2",
    title="After the freeze x moves by lr (m / (sqrt(v) + eps) + weight_decay x), with the momentum received.",
    catches="the momentum of a step ago, uncompressed momentum, epsilon inside the root, decay forgotten",
    cases=partial(optimizer_cases, compressed=(3, 6)),
    check=step_clauses("count", "apply"),
)
