"""Until the freeze every step is one of Adam on the mean gradient, and nothing is compressed."""

from __future__ import annotations

from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.property import Property, step_clauses
from verification.protocol import Traits
from verification.strategies import optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """Warm-up steps alone, with and without bias correction."""
    return draw(optimizer_cases(traits, compressed=(0,), bias_correction=draw(st.booleans())))


PROPERTY = Property(
    id="optimizer.warm_up",
    law="L3",
    title="Until the freeze every step is one of Adam on the mean gradient, and nothing is compressed.",
    catches="first step dropped, one worker's gradient, epsilon inside the root, coupled decay, freezing too early",
    cases=cases,
    check=step_clauses("count", "adam_momentum", "adam_variance", "adam_params", "no_errors_yet"),
)
