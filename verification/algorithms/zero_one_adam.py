"""0/1 Adam: hyper-parameters with its two policies, state, levels. Its step relation: ``relation/zero_one_adam.py``."""

from __future__ import annotations

from dataclasses import dataclass

import reference
from verification.algorithms.base import Algorithm, Array, CommonHyper


@dataclass(frozen=True)
class PublishedZeroOneHyper(CommonHyper):
    """Hyper-parameters of 0/1 Adam (docs/family.md); ``freeze_step`` is T_w, where the last refresh of v lies.

    Attributes:
        variance_doubling: kappa, refreshes of v after which their interval doubles; None: every step up to T_w.
        local_doubling: steps after T_w in which the interval between two meetings doubles.
        local_limit: the longest interval; 1: the workers meet in every step.
    """

    variance_doubling: int | None = 16
    local_doubling: int = 32678
    local_limit: int = 16

    @property
    def sent_unit(self) -> float:
        """gamma, in a step in which the workers meet as in the one before."""
        return self.lr

    def refreshes(self, t: int) -> bool:
        """Whether step t is in T_v: v is refreshed."""
        if t > self.freeze_step or self.variance_doubling is None:
            return t <= self.freeze_step
        due, interval, left = 1, 1, self.variance_doubling
        while due < t:
            due, left = due + interval, left - 1
            if left == 0:
                interval, left = 2 * interval, self.variance_doubling
        return due == t

    def meets(self, t: int) -> bool:
        """Whether step t is in T_u: the workers meet."""
        local = t - self.freeze_step
        if local <= 0:
            return True
        interval = 1
        for _ in range(local // self.local_doubling):
            interval = min(2 * interval, self.local_limit)
        return local % interval == 0


@dataclass(frozen=True)
class ZeroOneHyper(PublishedZeroOneHyper):
    """The same with block scales [C13]."""

    scale_block: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]


@dataclass(frozen=True)
class ZeroOneSnapshot:
    """State after ``step`` applied steps, as copies that later steps don't change.

    Attributes:
        params_ND: x_i (N, D), where each worker stands; all rows are equal when they have met.
        shared_D: x (D,) of the last meeting.
        momentum_ND: m_i (N, D); u-bar / Gamma on every worker when they have met.
        accumulated_ND: u_i (N, D), gamma m_i added up since the last meeting; 0 when they have met.
        variance_D: v (D,) of the last refresh; the floor C7 is in P, not here.
        worker_errors_ND: delta_i (N, D), in units of u.
        server_error_D: delta-bar (D,), chunk j from worker j [C3].
        step: applied steps; a skipped one does not count [C8].
    """

    params_ND: Array
    shared_D: Array
    momentum_ND: Array
    accumulated_ND: Array
    variance_D: Array
    worker_errors_ND: Array
    server_error_D: Array
    step: int


def as_reference(hyper: PublishedZeroOneHyper) -> reference.ZeroOneAdam:
    """The reference's optimizer."""
    return reference.ZeroOneAdam(**vars(hyper))


ZERO_ONE_ADAM = Algorithm(
    name="zero_one_adam",
    title="0/1 Adam",
    published=PublishedZeroOneHyper,
    hyper=ZeroOneHyper,
    snapshot=ZeroOneSnapshot,
    reference=as_reference,
    own_levels={
        "variance_doubling": (16, None, 1, 2),
        "local_doubling": (1, 3),
        "local_limit": (1, 2, 5, 16),  # with 1 the workers meet in every step
    },
    exact=(
        {"beta1": 0.5, "lr": 0.5, "local_limit": 1},
        {"beta1": 0.5, "lr": 0.5, "local_limit": 2, "local_doubling": 1},  # a meeting closes two steps
    ),
    compresses_at_once=True,
)
