"""The momentum after a step is one magnitude on each chunk: the scale and the signs of the server's average."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.server_message",
    law="L5, C1, C2, C3",
    title="The momentum after a step is one magnitude on each chunk: the scale and the signs of the server's average.",
    catches="no server compression, wrong chunks, padding counted, one scale for all chunks",
    cases=partial(optimizer_cases, compressed=(3, 6)),
    check=step_clauses("one_bit", "server_bits", "server_scale"),
)
