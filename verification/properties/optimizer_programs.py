"""Any sequence of steps, skipped steps, checkpoints and resizes: each operation obeys its relation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.programs import check_program
from verification.property import Property
from verification.protocol import Traits
from verification.strategies import allowed_workers, gaussian, integers, optimizer_cases


@st.composite
def cases(draw: st.DrawFn, traits: Traits) -> OptimizerCase:
    """Programs of up to a dozen operations; the freeze happens somewhere inside."""
    case = draw(
        optimizer_cases(
            traits, (gaussian, integers), compressed=(6,), warm_up=(2, 1, 3), workers=(1, 2, 3), sizes=(1, 2, 3, 9)
        )
    )
    others = ["reload", *(f"resize {n}" for n in allowed_workers(traits, (1, 2, 3)))]
    operations = draw(st.lists(st.sampled_from(("step", "step", "skip", *others)), min_size=3, max_size=12))
    grads_TND = np.concatenate([case.grads_TND, case.grads_TND])[: sum(op in ("step", "skip") for op in operations)]
    taken = 0
    for operation in operations:
        if operation == "skip":
            grads_TND[taken, 0, 0] = np.nan
        taken += operation in ("step", "skip")
    if not taken:
        operations, grads_TND = ["step"], case.grads_TND[:1]
    return replace(case, grads_TND=grads_TND, program=tuple("step" if op == "skip" else op for op in operations))


PROPERTY = Property(
    id="optimizer.programs",
    law="L1, L4, L6, L9, C8",
    title="Any sequence of steps, skipped steps, checkpoints and resizes: each operation obeys its relation.",
    catches="bugs that need two rare events: a skip before a checkpoint, a checkpoint at the freeze, two resizes",
    cases=cases,
    check=check_program,
    needs=("save", "load"),
    cost=1,
)
