"""The quantity that the convergence theorem T6 bounds, and the numbers that its bound is made of."""

from __future__ import annotations

import numpy as np

from reference.arithmetic import Array, norm
from reference.experiments.probes.base import Probe
from reference.optimizers import Optimizer
from reference.optimizers.adam import preconditioner
from reference.optimizers.one_bit_adam import OneBitAdam
from reference.problems import Problem
from reference.state import State


class Stationarity(Probe):
    """Steps are counted from the freeze; NaN before it. One full gradient a step: for cheap problems.

    Columns:
        mean_grad_norm_sq_p: (1/T) sum over steps of ||grad f(x_t)||_P^2, P = 1 / (sqrt(v) + eps) as frozen.
        total_error_max: the largest ||Delta||.
        p_max: largest entry of P.
        start_gap: f(y_1) - f* at the virtual iterate y_1 = x - gamma beta1/(1-beta1) P m-bar of the freeze.
        start_momentum: ||m-bar|| at the freeze.
    """

    def __init__(self, problem: Problem, optimizer: Optimizer) -> None:
        super().__init__(problem, optimizer)
        if not isinstance(optimizer, OneBitAdam) or problem.optimal_loss is None:
            raise ValueError("the probe 'stationarity' needs 1-bit Adam and a problem whose f* is known")
        self.beta1, self.eps, self.optimal_loss = optimizer.beta1, optimizer.eps, problem.optimal_loss
        self.steps, self.total, self.error = 0, 0.0, 0.0
        self.p_max = self.start_gap = self.start_momentum = float("nan")

    def observe(self, before: State, grads_ND: Array, after: State) -> None:
        if before.frozen_at is None:
            return
        p_D = preconditioner(before.variance, self.eps)
        if self.steps == 0:
            gamma = self.optimizer.learning_rate(before.step + 1, before.params.dtype)
            virtual_D = before.params - gamma * self.beta1 / (1 - self.beta1) * p_D * before.momentum
            self.p_max, self.start_momentum = float(p_D.max()), norm(before.momentum)
            self.start_gap = self.problem.loss(virtual_D) - self.optimal_loss
        self.steps += 1
        self.total += float(p_D @ np.square(self.problem.gradient(before.params), dtype=np.float64))
        self.error = max(self.error, norm(after.total_error))

    def row(self, state: State) -> dict[str, float]:
        return {
            "mean_grad_norm_sq_p": self.total / self.steps if self.steps else float("nan"),
            "total_error_max": self.error,
            "p_max": self.p_max,
            "start_gap": self.start_gap,
            "start_momentum": self.start_momentum,
        }
