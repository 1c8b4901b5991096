"""A run that is loaded on another number of workers keeps its total error, and goes on correctly."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.programs import check_program
from verification.property import Property
from verification.protocol import Traits
from verification.strategies import allowed_workers, gaussian, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """One resize in the compression stage, and steps before and after it."""
    case = draw(
        optimizer_cases(traits, (gaussian,), compressed=(4,), warm_up=(1, 2), workers=(3, 2, 1), sizes=(9, 17, 33, 1))
    )
    to = draw(st.sampled_from(allowed_workers(traits, (2, 3, 1, 4))))
    at = case.hyper.freeze_step + draw(st.integers(0, 3))
    steps = len(case.grads_TND)
    return replace(case, program=("step",) * at + (f"resize {to}",) + ("step",) * (steps - at))


PROPERTY = Property(
    id="optimizer.resize",
    law="L9, C11",
    title="A run that is loaded on another number of workers keeps its total error, and goes on correctly.",
    catches="errors zeroed, summed or cut off at a resize, chunks of the old size, 1/N of the old N",
    cases=cases,
    check=check_program,
    needs=("save", "load"),
    cost=1,
)
