"""At the freeze the variance is raised to kappa times the mean of live variances, and used so from then on."""

from __future__ import annotations

from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.property import Property, step_clauses
from verification.protocol import Traits
from verification.strategies import FEW_SIZES, FEW_WORKERS, gaussian, optimizer_cases, sparse, spread


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """Variances over many decades, some of them zero."""
    kappa = draw(st.sampled_from((1e-3, 0.5, 1.0, 1e-6)))
    palettes, live = draw(st.sampled_from((((spread, gaussian), True), ((sparse,), False))))
    return draw(
        optimizer_cases(
            traits, palettes, compressed=(1, 2), live=live, variance_floor=kappa, workers=FEW_WORKERS, sizes=FEW_SIZES
        )
    )


PROPERTY = Property(
    id="optimizer.variance_floor",
    law="C7",
    title="At the freeze the variance is raised to kappa times the mean of live variances, and used so from then on.",
    catches="no floor, dead coordinates counted in the mean or raised, floor used in the step of the freeze",
    cases=cases,
    check=step_clauses("floor", "adam_params", "frozen", "apply", "dead_params"),
)
