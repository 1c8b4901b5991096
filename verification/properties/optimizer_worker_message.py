"""A worker sends the signs and the scale of beta1 m + (1 - beta1) g_i + delta_i, and keeps the rest."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.worker_message",
    law="C1, C2",
    title="A worker sends signs and scale of beta1 m + (1 - beta1) g_i + delta_i, and keeps the rest.",
    catches="own instead of shared momentum, reset at the freeze, wrong beta1; worker errors lost; wrong scale",
    cases=partial(optimizer_cases, compressed=(3, 6)),
    check=step_clauses("worker_one_bit", "worker_bits", "worker_scale"),
)
