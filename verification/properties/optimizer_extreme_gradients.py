"""Compressed steps are right for huge and tiny gradients, subnormal ones included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.property import Property, step_clauses
from verification.protocol import Traits
from verification.step_relation import CLAUSES
from verification.strategies import FEW_SIZES, FEW_WORKERS, gaussian, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """An ordinary warm-up, then gradients of another magnitude, with beta1 = 0 so that small ones are not drowned."""
    beta1 = draw(st.sampled_from((0.0, 0.9)))
    case = draw(
        optimizer_cases(
            traits, (gaussian,), compressed=(2, 3), beta1=beta1, warm_up=(1, 2), workers=FEW_WORKERS, sizes=FEW_SIZES
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    factor = np.float64(draw(st.sampled_from((1e30, 1e-30, 1e-40))))
    share = draw(st.sampled_from((1.0, 0.5)))
    grads_TND = case.grads_TND.astype(np.float64)
    late = grads_TND[case.hyper.freeze_step :]
    late *= np.where(rng.random(late.shape) < share, factor, 1.0)
    return replace(case, grads_TND=grads_TND.astype(traits.numpy_dtype))


PROPERTY = Property(
    id="optimizer.extreme_gradients",
    law="C1, C2, L1",
    title="Compressed steps are right for huge and tiny gradients, subnormal ones included.",
    catches="squares that overflow, subnormal numbers taken for zero, guards such as max(scale, 1e-12)",
    cases=cases,
    check=step_clauses(*CLAUSES),
)
