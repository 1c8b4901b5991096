"""Momentum and new errors together are beta1 m + (1 - beta1) mean g and the old errors, at every element."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.conservation",
    law="L1",
    title="Momentum and new errors together are beta1 m + (1 - beta1) mean g and the old errors, at every element.",
    catches="server errors lost, doubled, or kept from another step",
    cases=partial(optimizer_cases, compressed=(3, 6)),
    check=step_clauses("conservation"),
)
