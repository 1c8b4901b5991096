"""A run that is saved and loaded goes on bitwise as if it had not been."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.protocol import Traits
from verification.resume_relation import same_state
from verification.step_relation import same_bits
from verification.strategies import gaussian, integers, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """A checkpoint before, at or after the freeze."""
    case = draw(optimizer_cases(traits, (gaussian, integers), compressed=(3,), warm_up=(2, 1)))
    at = draw(st.integers(1, len(case.grads_TND) - 1))
    steps = len(case.grads_TND)
    return replace(case, program=("step",) * at + ("reload",) + ("step",) * (steps - at))


def check(driver: Driver, case: OptimizerCase) -> Iterable[Finding]:
    """Compare every state after a step with that of the uninterrupted run."""
    through = replace(case, program=tuple(op for op in case.operations if op == "step"))
    interrupted = [move.after for move in driver.transitions(case) if move.operation == "step"]
    for move, after in zip(driver.transitions(through), interrupted, strict=True):
        rows_ND = after.params_ND
        if same_bits(move.after.params_ND[0], move.after.params_ND[-1]) and not same_bits(rows_ND[0], rows_ND[-1]):
            return [Finding("L6", "replicas", f"after step {move.after.step} of a resumed run the replicas differ")]
        found = list(same_state(move.after, after, f"after step {move.after.step} of a resumed run"))
        if found:
            return found
    return []


PROPERTY = Property(
    id="optimizer.resume",
    law="L9, C11",
    title="A run that is saved and loaded goes on bitwise as if it had not been.",
    catches="errors, momentum, step or freeze left out of a checkpoint, float16 checkpoints, a step on local gradients",
    cases=cases,
    check=check,
    needs=("save", "load"),
    cost=2,
)
