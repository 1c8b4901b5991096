"""Local Adam: every worker takes steps of AdamW on its own, and all return to their average every H steps.

    worker i   m_i, v_i, P_i as in Adam, on g_i alone      x_i <- x_i - gamma (P_i m_i + lambda x_i)
    every H    x, x_i <- mean_i x_i      and, if moments are averaged, m_i <- mean_i m_i, v_i <- mean_i v_i

A meeting changes no mean over the workers: that is the law. There is no virtual iterate, as each worker has a P of its
own. With H = 1 this is not Adam on g-bar: v_i averages squares of gradients, Adam squares their average. Where all
gradients agree, or there is one worker, it is Adam for every H.

Source: Local SGD of Stich 2019 (arXiv 1805.09767) with Adam inside, as in Reddi et al. 2021 (FedOpt, arXiv 2003.00295)
and Cheng and Glasgow 2024 (local Adam, arXiv 2409.13155). Papers differ in whether moments are averaged; here they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from reference import arguments
from reference.allreduce import dense_allreduce_bytes
from reference.arithmetic import Array, zeros
from reference.optimizers.adam import Adam
from reference.optimizers.base import dense_round, mean_over_workers, sent
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class LocalAdam(Adam):
    """AdamW on every worker, averaged every ``sync_every`` steps.

    ``params`` is the last average. Slots: ``momentum_ND``, ``variance_ND`` are the workers' own, ``walked_ND`` is how
    far each has gone since the last meeting, x - x_i.

    Attributes:
        sync_every: H >= 1, steps from one meeting to the next.
        average_moments: average m_i and v_i too, which triples what is sent.
    """

    sync_every: int = 4
    average_moments: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.integer("sync_every", self.sync_every)

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        nothing_ND = state.worker_errors
        return state.with_slots(momentum_ND=nothing_ND, variance_ND=nothing_ND, walked_ND=nothing_ND)

    def local_params(self, state: State) -> Array:
        return state.params - state.slots["walked_ND"]

    def update(self, state: State, grads_ND: Array) -> State:
        t = state.step + 1
        state = self.local_step(state, grads_ND, t)
        if t % self.sync_every:
            return state
        walked_ND = state.slots["walked_ND"]
        state = self.outer_step(state).with_slots(walked_ND=zeros(walked_ND.shape, walked_ND.dtype))
        return self.with_mean_moments(state) if self.average_moments else state

    def local_step(self, state: State, grads_ND: Array, t: int) -> State:
        """One step of AdamW on every worker."""
        gamma, slots = self.learning_rate(t, state.params.dtype), state.slots
        momentum_ND, variance_ND, direction_ND = self.moments(slots["momentum_ND"], slots["variance_ND"], grads_ND, t)
        walked_ND = slots["walked_ND"] + gamma * (direction_ND + self.weight_decay * self.local_params(state))
        return state.with_slots(momentum_ND=momentum_ND, variance_ND=variance_ND, walked_ND=walked_ND)

    def outer_step(self, state: State) -> State:
        """What a meeting makes of x, given how far the workers have walked: their average."""
        return dense_round(replace(state, params=state.params - mean_over_workers(state.slots["walked_ND"])))

    def with_mean_moments(self, state: State) -> State:
        """The moments averaged in the same round, in the state and on every worker."""
        momentum_D, variance_D = (mean_over_workers(state.slots[name]) for name in ("momentum_ND", "variance_ND"))
        state = replace(state, momentum=momentum_D, variance=variance_D).with_slots(
            momentum_ND=np.tile(momentum_D, (state.n_workers, 1)), variance_ND=np.tile(variance_D, (state.n_workers, 1))
        )
        return sent(state, dense_allreduce_bytes(2 * state.params.size, state.n_workers), rounds=0)
