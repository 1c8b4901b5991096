"""CADA: a worker uploads its gradient only when it has changed enough (Chen et al. 2021, AISTATS, arXiv 2012.15469).

    worker i   uploads g_i, h_i <- g_i, if ||g_i - h_i||^2 > (c/d) sum of the last d ||x_t - x_{t-1}||^2,
               or if its h_i is D steps old; else h_i stays
    server     h-bar = mean_i h_i        m <- beta1 m + (1 - beta1) h-bar      v <- beta2 v^ + (1 - beta2) h-bar^2
               v^ <- max(v^, v)          x <- x - gamma (m / sqrt(eps + v^) + lambda x)     AMSGrad with v from v^

There is no conservation of errors: a gradient that is not uploaded is never used. The law is that h-bar is the mean of
the h_i, each of which is some gradient of worker i that is at most D steps old. With c = 0 every change is uploaded,
and it is that AMSGrad; torch's takes v on from v.

Where this departs from the paper: its rules CADA1 and CADA2 compare two gradients of the same samples, at x and at an
older point, so that noise cancels. An optimizer here is given one gradient a worker, so g_i is compared with what was
uploaded. Where gradients have no noise (whole shards) that is the rule CADA2; with noise it is the stochastic LAG rule,
which uploads more often than CADA does. The server is spread over the workers as everywhere here: worker i serves a
chunk [C3] and does not send that to itself, and every step ends with an all-gather of x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reference import arguments
from reference.allreduce import chunk_slices
from reference.arithmetic import Array, sqrt, sum_of_squares, zeros
from reference.compressors.base import SCALAR_BYTES
from reference.optimizers.base import Optimizer, mean_over_workers, sent
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class CADA(Optimizer):
    """AMSGrad on gradients that are uploaded when they have changed.

    ``State.momentum`` is m and ``State.variance`` v^. Slots: ``uploaded_ND`` the h_i, ``age_N`` the steps since each
    upload, ``moved_K`` the last d squared steps of x.

    Attributes:
        beta1, beta2: decays, in [0, 1).
        eps: under the root, as published.
        threshold: c >= 0.
        memory: d >= 1.
        max_age: D >= 1, steps after which a worker uploads in any case.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    threshold: float = 0.5
    memory: int = 10
    max_age: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold)
        arguments.integer("memory", self.memory)
        arguments.integer("max_age", self.max_age)

    def init(self, params_D: Array, n_workers: int) -> State:
        state, dtype = super().init(params_D, n_workers), params_D.dtype
        return state.with_slots(
            uploaded_ND=state.worker_errors, age_N=np.zeros(n_workers, np.int64), moved_K=zeros(self.memory, dtype)
        )

    def update(self, state: State, grads_ND: Array) -> State:
        uploads_N = self.uploads(state, grads_ND)
        uploaded_ND = np.where(uploads_N[:, None], grads_ND, state.slots["uploaded_ND"])
        mean_D = mean_over_workers(uploaded_ND)
        momentum_D = self.beta1 * state.momentum + (1 - self.beta1) * mean_D
        variance_D = np.maximum(state.variance, self.beta2 * state.variance + (1 - self.beta2) * (mean_D * mean_D))
        root_D = sqrt(self.eps + variance_D)
        params_D = self.apply(state, momentum_D / np.where(root_D > 0, root_D, root_D + 1))

        moved = sum_of_squares(params_D - state.params)
        moved_K = np.concatenate([state.slots["moved_K"][1:], np.array([moved], params_D.dtype)])
        age_N = np.where(uploads_N, 0, state.slots["age_N"]) + 1
        state = replace(state, params=params_D, momentum=momentum_D, variance=variance_D)
        state = state.with_slots(uploaded_ND=uploaded_ND, age_N=age_N, moved_K=moved_K)
        return sent(state, upload_bytes(uploads_N, params_D.size))

    def uploads(self, state: State, grads_ND: Array) -> NDArray[np.bool_]:
        """Which workers upload (N,): all of them in the first step."""
        changed_N = [sum_of_squares(row_D) for row_D in grads_ND - state.slots["uploaded_ND"]]
        bound = self.threshold / self.memory * state.slots["moved_K"].sum()
        due_N = (state.slots["age_N"] >= self.max_age) | (state.step == 0)
        return np.array([changed > bound for changed in changed_N], np.bool_) | due_N


def upload_bytes(uploads_N: NDArray[np.bool_], dim: int) -> int:
    """Uploads to the servers of the chunks [C3], less each worker's own chunk, and an all-gather of D numbers."""
    n = len(uploads_N)
    sizes_N = np.array([chunk.stop - chunk.start for chunk in chunk_slices(dim, n)])
    return SCALAR_BYTES * (int((uploads_N * (dim - sizes_N)).sum()) + (n - 1) * dim)
