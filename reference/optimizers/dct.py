"""DCT, data-parallel part: SGD with a hard threshold that is refreshed rarely (Gupta et al. 2020, arXiv 2010.08899).

    worker i   u_i = g_i + delta_i      rarely: tau_i <- the k-th largest magnitude of u_i
               sends the coordinates with |u_i| >= tau_i      delta_i <- u_i - what was sent
    everyone   x <- x - gamma (mean of what was sent + lambda x)

Top-k sorts in every step; here k is reached in the steps that refresh the threshold, and about k in those between. The
law is that of error feedback, with Delta = mean_i delta_i:

    mean of what was sent + Delta_t = g-bar_t + Delta_{t-1}

so with a constant gamma and no weight decay x - gamma Delta takes the steps of SGD on g-bar.

Where this departs from the paper:
- It refreshes the threshold every L steps. The errors grow during the first 1/density steps, and with them what exceeds
  a threshold that was found without errors; so here it is refreshed in the steps 1, 2, 4, 8, ... below L, too.
- It finds a threshold for each layer; here the whole gradient is one. The part for activations is not here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from reference import arguments
from reference.arithmetic import Array
from reference.compressors.hard_threshold import HardThreshold
from reference.compressors.sparse import count_kept
from reference.optimizers.gathering import GatheringOptimizer
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class DCT(GatheringOptimizer):
    """SGD whose workers send what exceeds a threshold of their own, with error feedback.

    The slot ``threshold_N`` holds the tau_i.

    Attributes:
        density: k = ceil(density D) coordinates are at or above the threshold when it is refreshed.
        refresh_every: L >= 1, steps from one refresh to the next, once L steps have passed; published: 1,000.
    """

    errors_are: ClassVar[str] = "errors of gradients"

    refresh_every: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.integer("refresh_every", self.refresh_every)
        if self.compressor is not None:
            raise ValueError(f"compressor must be None, for DCT has its threshold, got {self.compressor!r}")

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        return state.with_slots(threshold_N=state.worker_errors[:, 0])

    def update(self, state: State, grads_ND: Array) -> State:
        u_ND = grads_ND + state.worker_errors
        if self.refreshes(state.step + 1):
            kept = count_kept(float(self.density), u_ND.shape[1])
            state = state.with_slots(threshold_N=np.sort(np.abs(u_ND), axis=1)[:, -kept])
        state, gathered = self.gather(state, u_ND, [HardThreshold(tau) for tau in state.slots["threshold_N"]])
        params_D = self.apply(state, gathered.mean_D)
        return replace(state, params=params_D, worker_errors=u_ND - gathered.decoded_ND)

    def refreshes(self, t: int) -> bool:
        """Whether the thresholds are refreshed in step t: 1, 2, 4, 8, ... below L, then 1 + L, 1 + 2 L, ..."""
        return (t - 1) % self.refresh_every == 0 or (t < self.refresh_every and t.bit_count() == 1)
