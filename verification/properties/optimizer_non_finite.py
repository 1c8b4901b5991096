"""A gradient that is NaN or infinite on any worker skips the step: no bit of the state changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.property import Property, step_clauses
from verification.protocol import Hyper, Traits
from verification.step_relation import CLAUSES
from verification.strategies import FEW_SIZES, FEW_WORKERS, gaussian, integers, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """One or two bad elements, in one or two steps, in either stage."""
    case = draw(
        optimizer_cases(
            traits, (gaussian, integers), compressed=(3,), warm_up=(2, 1), workers=FEW_WORKERS, sizes=FEW_SIZES
        )
    )
    grads_TND = case.grads_TND.copy()
    for _ in range(draw(st.integers(1, 2))):
        t = draw(st.integers(0, len(grads_TND) - 1))
        i, k = draw(st.integers(0, case.n_workers - 1)), draw(st.integers(0, case.dim - 1))
        grads_TND[t, i, k] = draw(st.sampled_from((np.nan, np.inf, -np.inf)))
    return replace(case, grads_TND=grads_TND)


def opposite_infinities(traits: Traits) -> list[OptimizerCase]:
    """Worker 0 has +Inf and worker 1 has -Inf, in the first compressed step."""
    grads_TND = np.ones((2, 2, 8), traits.numpy_dtype)
    grads_TND[1, :, 3] = np.inf, -np.inf
    case = OptimizerCase(np.zeros(8, traits.numpy_dtype), grads_TND, Hyper(freeze_step=1, scale=traits.scale or "l2"))
    return [case] if traits.workers is None or 2 in traits.workers else []


PROPERTY = Property(
    id="optimizer.non_finite",
    law="C8",
    title="A gradient that is NaN or infinite on any worker skips the step: no bit of the state changes.",
    catches="NaN passed on, only NaN or only Inf looked for, only one worker looked at, a skipped step counted",
    cases=cases,
    check=step_clauses(*CLAUSES),
    examples=opposite_infinities,
)
