"""Local SGD: every worker steps on its own, and all return to their average every H steps.

    worker i   delta_i <- delta_i + gamma (g_i(x - delta_i) + lambda (x - delta_i))
    every H    x <- x - mean_i delta_i      delta_i <- 0

x is where the workers last met, and delta_i is how far worker i has walked since: what it has not said yet, so it
stands where the other optimizers keep the same thing, in ``worker_errors``. Between two meetings x - Delta, the mean of
the workers, obeys the step of SGD on the mean gradient. Stich 2019 (arXiv 1805.09767).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from reference import arguments
from reference.arithmetic import Array, zeros
from reference.optimizers.base import Optimizer, dense_round
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class LocalSGD(Optimizer):
    """Distributed SGD that averages the parameters every ``sync_every`` steps.

    ``params`` is the last average: between two averages it stands still, and so does whatever is measured there.

    Attributes:
        sync_every: H >= 1, steps from one average to the next; 1 is SGD.
    """

    errors_are: ClassVar[str] = "steps since the last meeting"

    sync_every: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.integer("sync_every", self.sync_every)

    def local_params(self, state: State) -> Array:
        return state.params - state.worker_errors

    def update(self, state: State, grads_ND: Array) -> State:
        t = state.step + 1
        gamma = self.learning_rate(t, state.params.dtype)
        moved_ND = state.worker_errors + gamma * (grads_ND + self.weight_decay * self.local_params(state))
        state = replace(state, worker_errors=moved_ND)
        if t % self.sync_every:
            return state
        met_D = state.params - state.total_error
        return dense_round(replace(state, params=met_D, worker_errors=zeros(moved_ND.shape, moved_ND.dtype)))
