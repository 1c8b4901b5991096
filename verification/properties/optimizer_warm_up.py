"""Until the freeze every step is one of Adam on the mean gradient, and nothing is compressed."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import optimizer_cases

PROPERTY = Property(
    id="optimizer.warm_up",
    law="L3",
    title="Until the freeze every step is one of Adam on the mean gradient, and nothing is compressed.",
    catches="first step dropped, local for mean gradient, epsilon inside the root, coupled weight decay, freezing too early",
    cases=partial(optimizer_cases, compressed=(0,)),
    check=step_clauses("count", "adam_momentum", "adam_variance", "adam_params", "no_errors_yet"),
)
