"""0/1 Adam: Algorithm 1 of Lu et al. 2022 (ICLR 2023, arXiv 2202.06009).

The variance is refreshed only in the steps of T_v, the workers meet only in the steps of T_u, and they meet with one
bit a number, from the first step on. x is where they last met, x_i where worker i stands, u_i its steps without P:

    t in T_v    v <- beta2 v + (1 - beta2) g-bar^2                       g-bar in full precision
    worker i    m_i <- beta1 m_i + (1 - beta1) g_i     u_i <- u_i + gamma m_i     x_i <- x_i - gamma (P m_i + lambda x)
    t in T_u    u-bar, errors <- compressed all-reduce of u_i
                m_i <- u-bar / Gamma      x_i, x <- x - P u-bar - Gamma lambda x      u_i <- 0
                Gamma: the sum of gamma over the steps since the last meeting      P = 1 / (sqrt(v) + eps)

T_v: the interval between two refreshes is 1 for kappa refreshes, then 2 for kappa, then 4, ..., and none lies after
T_w. T_u: every step up to T_w; then each t for which t - T_w is a multiple of min(limit, 2^floor((t - T_w)/doubling)).

The errors are in units of u, of a step without P. At every meeting x - P Delta moves by exactly P mean_i u_i [theorem
T3d], and there is a virtual iterate for every interval [T3h].

Where this departs from the paper:
- A step of T_v refreshes v before it is used. Algorithm 1 prints the v of the step before, which is 0 in step 1.
- Coordinates whose v is 0 are left out until a refresh brings them to life [C6]; small v are raised to a floor inside
  P, never in the state [C7]; ``variance_floor=0`` is the published algorithm.
- Weight decay, which the paper leaves open, takes x of the last meeting, so that it is the same on all workers.
- Where Gamma is 0, as in the first step of a schedule that begins at 0, u-bar / Gamma says nothing of the momenta: each
  worker keeps its own. Algorithm 1 divides 0 by 0 there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from reference import arguments
from reference.arithmetic import Array, sum_of_magnitudes, zeros
from reference.optimizers.adam import preconditioner
from reference.optimizers.base import dense_round, mean_over_workers
from reference.optimizers.compressed import CompressedOptimizer
from reference.optimizers.one_bit_adam import DEFAULT_VARIANCE_FLOOR
from reference.state import State, live_in


@dataclass(frozen=True, kw_only=True)
class ZeroOneAdam(CompressedOptimizer):
    """Adam that skips rounds and sends one bit a number in those that it takes.

    ``State.params`` is x of the last meeting, ``State.momentum`` is u-bar / Gamma of it, and ``State.frozen_at`` is the
    step of the last refresh of v. A round is one all-reduce: a step in both T_v and T_u takes two.

    Attributes:
        beta1, beta2, eps: as in Adam; there is no bias correction, as published.
        freeze_step: T_w >= 1; no refresh of v and no interval above 1 before it, no refresh after it.
        variance_doubling: kappa, refreshes after which their interval doubles; None: v is refreshed in every step.
        local_doubling: steps after T_w in which the interval between meetings doubles. The published number is for
            pre-training of BERT; in runs of a few thousand steps nothing happens with it.
        local_limit: the longest interval between meetings; 1: the workers meet in every step.
        variance_floor: kappa of C7, relative to the mean of live v.
    """

    errors_are: ClassVar[str] = "errors of accumulated steps"
    freezes: ClassVar[bool] = True

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    freeze_step: int
    variance_doubling: int | None = 16
    local_doubling: int = 32678
    local_limit: int = 16
    variance_floor: float = DEFAULT_VARIANCE_FLOOR

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("freeze_step", "local_doubling", "local_limit"):
            arguments.integer(name, getattr(self, name))
        if self.variance_doubling is not None:
            arguments.integer("variance_doubling", self.variance_doubling)

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        nothing_ND = state.worker_errors
        return state.with_slots(momentum_ND=nothing_ND, accumulated_ND=nothing_ND, walked_ND=nothing_ND)

    def form(self, state: State) -> dict[str, Any]:
        """``accumulated_ND`` was made with Gamma, which the next meeting computes anew."""
        t = state.step
        rate = self.rate_since_meeting(t, state.params.dtype) if t and not self.meets(t) else 0
        return {"rate": float(rate), **super().form(state)}

    def local_params(self, state: State) -> Array:
        return state.params - state.slots["walked_ND"]

    def refreshes(self, t: int) -> bool:
        """Whether t is in T_v."""
        if t > self.freeze_step:
            return False
        if self.variance_doubling is None:
            return True
        kappa = self.variance_doubling
        doublings = int((t - 1) // kappa + 1).bit_length() - 1  # kappa (2^b - 1) steps pass before the b-th doubling
        return (t - 1 - kappa * (2**doublings - 1)) % 2**doublings == 0

    def meets(self, t: int) -> bool:
        """Whether t is in T_u."""
        local_steps = t - self.freeze_step
        if local_steps <= 0:
            return True
        return local_steps % min(self.local_limit, 2 ** (local_steps // self.local_doubling)) == 0

    def update(self, state: State, grads_ND: Array) -> State:
        t, dtype = state.step + 1, state.params.dtype
        if self.refreshes(t):
            grad_D = mean_over_workers(grads_ND)
            variance_D = self.beta2 * state.variance + (1 - self.beta2) * (grad_D * grad_D)
            state = dense_round(replace(state, variance=variance_D, frozen_at=t))
        gamma, P_D = self.learning_rate(t, dtype), self.preconditioner_of(state)
        momentum_ND = self.beta1 * state.slots["momentum_ND"] + (1 - self.beta1) * grads_ND
        accumulated_ND = state.slots["accumulated_ND"] + gamma * momentum_ND
        walked_ND = state.slots["walked_ND"] + gamma * (P_D * momentum_ND + self.weight_decay * state.params)
        if state.live is not None:
            ignored = int(np.count_nonzero((grads_ND[:, ~state.live] != 0).any(axis=0)))
            walked_ND[:, ~state.live] = 0
            state = replace(state, ignored_gradients=state.ignored_gradients + ignored)
        if self.meets(t):
            return self.meet(state, momentum_ND, accumulated_ND, P_D)
        return state.with_slots(momentum_ND=momentum_ND, accumulated_ND=accumulated_ND, walked_ND=walked_ND)

    def meet(self, state: State, momentum_ND: Array, accumulated_ND: Array, P_D: Array) -> State:
        """Average what the workers accumulated, which is given away; parameters and momenta follow from it."""
        t, dtype = state.step + 1, state.params.dtype
        total = self.rate_since_meeting(t, dtype)
        reduced = self.exchange(state, accumulated_ND)
        params_D = state.params - (P_D * reduced.output_D + total * (self.weight_decay * state.params))
        if state.live is not None:
            params_D[~state.live] = state.params[~state.live]
        if total > 0:
            momentum_D = reduced.output_D / total
            momentum_ND = np.tile(momentum_D, (state.n_workers, 1))
        else:
            momentum_D = zeros(state.params.shape, dtype)
        nothing_ND = zeros(accumulated_ND.shape, dtype)
        met = self.remember(state, reduced, params=params_D, momentum=momentum_D)
        return met.with_slots(momentum_ND=momentum_ND, accumulated_ND=nothing_ND, walked_ND=nothing_ND)

    def rate_since_meeting(self, t: int, dtype: np.dtype[Any]) -> Any:
        """Gamma, the sum of gamma up to step t since the last meeting before it."""
        last = next(s for s in range(t - 1, -1, -1) if s == 0 or self.meets(s))
        return sum(self.learning_rate(s, dtype) for s in range(last + 1, t + 1))

    def preconditioner_of(self, state: State) -> Array:
        """P (D,) with the floor [C7]; 0 where nothing moves [C6]."""
        live_D = live_in(state.variance)
        mean_live = sum_of_magnitudes(np.where(live_D, state.variance, 0)) / max(1, int(live_D.sum()))
        return live_D * preconditioner(np.maximum(state.variance, self.variance_floor * mean_live), self.eps)
