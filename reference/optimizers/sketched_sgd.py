"""Sketched-SGD: large coordinates are found in a sum of count sketches (Ivkin et al. 2019, arXiv 1903.04488).

    worker i     m_i <- beta1 m_i + (1 - beta1) g_i      u_i = delta_i + m_i
    round one    all-reduce of the sketches of u_i; everyone reads the same P k candidates, the largest estimates
    round two    all-reduce of the exact u_i there; the k largest of the means are the step d
    everyone     x <- x - gamma (d + lambda x)           delta_i <- u_i, and 0 where d is;   m_i <- 0 where d is

Only the choice of coordinates is approximate; what is applied is exact. So the law of error feedback holds whatever the
sketch says, with Delta = mean_i delta_i:

    d + Delta_t = mean_i m_i + Delta_{t-1}

With k = D it is momentum SGD, but for the masked momentum; with beta1 = 0 it is SGD.

Where this departs from the paper: the momentum is an exponential mean, as everywhere here; the paper's has gamma in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from reference import arguments
from reference.allreduce import dense_allreduce_bytes
from reference.arithmetic import Array, zeros
from reference.compressors.count_sketch import CountSketch
from reference.compressors.sparse import count_kept, largest
from reference.optimizers.base import Optimizer, mean_over_workers, sent
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class SketchedSGD(Optimizer):
    """SGD along the heavy hitters of the workers' accumulated gradients.

    ``State.momentum`` is the mean of the m_i before the mask, the slot ``momentum_ND`` holds the m_i after it. The same
    hashes serve all steps.

    Attributes:
        beta1: decay of the momenta, in [0, 1).
        density: k = ceil(density D) coordinates are applied in a step.
        candidates: P >= 1; P k coordinates are sent exactly.
        rows, columns: of the sketch; rows is odd.
    """

    errors_are: ClassVar[str] = "errors of momenta"

    beta1: float = 0.0
    density: float = 0.05
    candidates: int = 2
    rows: int = 5
    columns: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if arguments.number("density", self.density, strict=True) > 1:
            raise ValueError(f"density must lie in (0, 1], got {self.density!r}")
        arguments.integer("candidates", self.candidates)
        CountSketch(self.rows, self.columns, self.seed)

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        return state.with_slots(momentum_ND=state.worker_errors)

    def update(self, state: State, grads_ND: Array) -> State:
        momentum_ND = self.beta1 * state.slots["momentum_ND"] + (1 - self.beta1) * grads_ND
        u_ND = state.worker_errors + momentum_ND
        (n, dim), kept = u_ND.shape, count_kept(float(self.density), u_ND.shape[1])

        sketch = CountSketch(self.rows, self.columns, self.seed)
        table_RC = sum((sketch.sketch(u_D) for u_D in u_ND), start=zeros((self.rows, self.columns), u_ND.dtype))
        candidate_K = largest(sketch.estimate(table_RC, dim), min(dim, self.candidates * kept))
        exact_K = mean_over_workers(u_ND[:, candidate_K])
        chosen_K = largest(exact_K, kept)
        step_D = zeros(dim, u_ND.dtype)
        step_D[candidate_K[chosen_K]] = exact_K[chosen_K]

        left_D = np.ones(dim, np.bool_)
        left_D[candidate_K[chosen_K]] = False
        nbytes = dense_allreduce_bytes(table_RC.size, n) + dense_allreduce_bytes(candidate_K.size, n)
        state = replace(
            state,
            params=self.apply(state, step_D),
            momentum=mean_over_workers(momentum_ND),
            worker_errors=u_ND * left_D,
        )
        return sent(state.with_slots(momentum_ND=momentum_ND * left_D), nbytes, rounds=2)
