"""A run that is saved and loaded goes on bitwise as if it had not been."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.protocol import Hyper, Snapshot, Traits
from verification.resume_relation import same_state
from verification.step_relation import same_bits
from verification.strategies import allowed_workers, gaussian, integers, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """A checkpoint before, at or after the freeze."""
    case = draw(optimizer_cases(traits, (gaussian, integers), compressed=(3,), warm_up=(2, 1)))
    at = draw(st.integers(1, len(case.grads_TND) - 1))
    steps = len(case.grads_TND)
    return replace(case, program=("step",) * at + ("reload",) + ("step",) * (steps - at))


def three_steps_after(traits: Traits) -> list[OptimizerCase]:
    """A checkpoint in the compression stage, and long enough after it for replicas to drift apart."""
    n, dim = allowed_workers(traits, (2,))[0], 16
    grads_TND = np.random.default_rng(0).standard_normal((5, n, dim)).astype(traits.numpy_dtype)
    hyper = Hyper(freeze_step=1, scale=traits.scale or "l2")
    program = ("step", "step", "reload", "step", "step", "step")
    return [OptimizerCase(np.zeros(dim, traits.numpy_dtype), grads_TND, hyper, program)]


def check(driver: Driver, case: OptimizerCase) -> Iterable[Finding]:
    """Compare every state after a step with that of the uninterrupted run; diverging replicas are told first."""
    through = replace(case, program=tuple(op for op in case.operations if op == "step"))
    interrupted = [move.after for move in driver.transitions(case) if move.operation == "step"]
    pairs = list(zip([move.after for move in driver.transitions(through)], interrupted, strict=True))
    for expected, got in pairs:
        if _replicas_agree(expected) and not _replicas_agree(got):
            return [Finding("L6", "replicas", f"after step {expected.step} of a resumed run the replicas differ")]
    for expected, got in pairs:
        found = list(same_state(expected, got, f"after step {expected.step} of a resumed run"))
        if found:
            return found
    return []


def _replicas_agree(state: Snapshot) -> bool:
    return all(same_bits(row_D, state.params_ND[0]) for row_D in state.params_ND)


PROPERTY = Property(
    id="optimizer.resume",
    law="L9, C11",
    title="A run that is saved and loaded goes on bitwise as if it had not been.",
    catches="errors, momentum, step or freeze left out of a checkpoint, float16 checkpoints, a step on local gradients",
    cases=cases,
    check=check,
    examples=three_steps_after,
    needs=("save", "load"),
    cost=2,
)
