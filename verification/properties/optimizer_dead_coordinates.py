"""A coordinate whose variance is 0 at the freeze is left out: no momentum, no errors, no update, not in a scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.property import Property, step_clauses
from verification.protocol import Traits
from verification.strategies import FEW_SIZES, FEW_WORKERS, gaussian, integers, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """Some columns of the warm-up gradients are 0, or so small that their squares are; later ones need not be."""
    case = draw(optimizer_cases(traits, (gaussian, integers), compressed=(2, 4), workers=FEW_WORKERS, sizes=FEW_SIZES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dead_D = rng.random(case.dim) < draw(st.sampled_from((0.3, 1.0, 0.05)))
    dead_D[rng.integers(case.dim)] = True
    grads_TND = case.grads_TND.copy()
    grads_TND[: case.hyper.freeze_step, :, dead_D] = draw(st.sampled_from((0.0, 1e-25)))
    grads_TND[case.hyper.freeze_step :, :, dead_D] *= rng.random(int(dead_D.sum())) < draw(st.sampled_from((0.0, 0.5)))
    return replace(case, grads_TND=grads_TND)


PROPERTY = Property(
    id="optimizer.dead_coordinates",
    law="C6",
    title="A coordinate whose variance is 0 at the freeze is left out: no momentum, errors or update, not in a scale.",
    catches="a coordinate without gradient that jumps by lr scale/eps, or decays, or counts in a scale",
    cases=cases,
    check=step_clauses(
        "adam_momentum", "dead", "dead_params", "worker_scale", "server_scale", "conservation", "one_bit", "apply"
    ),
)
