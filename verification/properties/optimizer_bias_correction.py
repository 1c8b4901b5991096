"""With bias correction the warm-up is exactly Adam, and the frozen denominator keeps the correction of step T_w."""

from __future__ import annotations

from functools import partial

from verification.property import Property, step_clauses
from verification.strategies import FEW_SIZES, FEW_WORKERS, optimizer_cases

PROPERTY = Property(
    id="optimizer.bias_correction",
    law="C5",
    title="With bias correction the warm-up is Adam, and the frozen denominator keeps the correction of step T_w.",
    catches="bias correction accepted and ignored; its step frozen, off by one, or applied to the state",
    cases=partial(optimizer_cases, compressed=(3, 6), bias_correction=True, workers=FEW_WORKERS, sizes=FEW_SIZES),
    check=step_clauses("adam_momentum", "adam_variance", "adam_params", "apply", "frozen"),
)
