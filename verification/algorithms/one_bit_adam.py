"""1-bit Adam: hyper-parameters, state, and their levels. Its step relation is ``relation/step.py``."""

from __future__ import annotations

from dataclasses import dataclass

import reference
from verification.algorithms.base import Algorithm, Array, CommonHyper, Compress, FrozenDtype


@dataclass(frozen=True)
class PublishedHyper(CommonHyper):
    """Hyper-parameters of the published algorithm; its ``compress``, ``scale_block`` and ``frozen_dtype`` are fixed."""

    bias_correction: bool = False  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]


@dataclass(frozen=True)
class Hyper(PublishedHyper):
    """Hyper-parameters of a run (docs/algorithm.md). A ``start`` that can't honour one raises NotImplementedError."""

    compress: Compress = "momentum"  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]
    scale_block: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]
    frozen_dtype: FrozenDtype = "float32"  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]


@dataclass(frozen=True)
class Snapshot:
    """State after ``step`` applied steps, as copies that later steps don't change.

    Attributes:
        params_ND: x, one row a worker (N, D), so that replicas can be compared [L6].
        momentum_D: m-bar (D,); after the freeze the decoded server message [L5]. In the update form y-bar = P m-bar
            from the freeze on, with the errors in its units [C12].
        variance_D: v (D,); constant after the freeze [L4], whatever P is rounded to.
        worker_errors_ND: delta_i (N, D).
        server_error_D: delta-bar (D,), chunk j from worker j [C3].
        step: applied steps; a skipped one does not count [C8].
    """

    params_ND: Array
    momentum_D: Array
    variance_D: Array
    worker_errors_ND: Array
    server_error_D: Array
    step: int


def as_reference(hyper: PublishedHyper) -> reference.OneBitAdam:
    """The reference's optimizer."""
    return reference.OneBitAdam(**vars(hyper))


ONE_BIT_ADAM = Algorithm(
    name="one_bit_adam",
    title="1-bit Adam",
    published=PublishedHyper,
    hyper=Hyper,
    snapshot=Snapshot,
    reference=as_reference,
    own_levels={},
)
