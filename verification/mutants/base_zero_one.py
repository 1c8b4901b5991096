"""A correct 0/1 Adam in float32 that walks from where each worker stands; every decision is a method."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import Array, ZeroOneSnapshot


class BaseZeroOne(BaseOptimizer):
    """State in plain attributes: ``met`` is the step of the last meeting, ``m_D`` what was received at it."""

    algorithm: ClassVar[str] = "zero_one_adam"
    extensions: ClassVar[tuple[str, ...]] = ("scale_block",)
    hyper: Any

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        super().start(params_D, n_workers, hyper)
        self.shared_D, self.met = params_D.copy(), 0
        self.m_ND, self.u_ND = np.zeros_like(self.x_ND), np.zeros_like(self.x_ND)

    def in_warm_up(self) -> bool:
        """No step is one of Adam."""
        return False

    def refreshes(self, t: int) -> bool:
        """Step t is in T_v."""
        return self.hyper.refreshes(t)

    def meets(self, t: int) -> bool:
        """Step t is in T_u."""
        return self.hyper.meets(t)

    def compressed_step(self, grads_ND: Array) -> None:
        """Refresh, walk, meet."""
        if self.refreshes(self.t):
            self.v_D = self.next_variance(self.v_D, self.mean_gradient(grads_ND), grads_ND)
            self.frozen = True
        self.m_ND = np.stack([self.next_momentum(self.m_ND[i], self.own_gradient(i, grads_ND)) for i in range(self.n)])
        self.u_ND = self.summed(self.u_ND, self.m_ND)
        if self.meets(self.t):
            self.meet(self.live())
        else:
            self.x_ND = np.where(self.live(), self.walked(self.x_ND, self.m_ND), self.x_ND)

    def own_gradient(self, i: int, grads_ND: Array) -> Array:
        """g_i."""
        return grads_ND[i]

    def summed(self, u_ND: Array, m_ND: Array) -> Array:
        """u_i + gamma m_i."""
        return u_ND + np.float32(self.hyper.lr) * m_ND

    def walked(self, x_ND: Array, m_ND: Array) -> Array:
        """x_i - gamma (P m_i + lambda x), with x of the last meeting."""
        return x_ND - np.float32(self.hyper.lr) * (self.preconditioned(m_ND) + self.decay(self.shared_D))

    def preconditioned(self, values: Array) -> Array:
        """P times ``values`` (..., D), P from v and its floor [C7]."""
        live_D = self.live()
        floored_D = np.maximum(self.v_D, np.float32(self.variance_floor(live_D)))
        return values / self.denominator(np.where(live_D, floored_D, np.float32(1)), 1.0)

    def steps(self) -> int:
        """Steps since the last meeting."""
        return self.t - self.met

    def meet(self, live_D: Array) -> None:
        """Average what was accumulated; x, momenta and sums follow from it."""
        total = np.float32(self.hyper.lr * self.steps())
        self.exchange(self.u_ND, live_D)
        x_D = self.led_to(self.start_of_round(), self.m_D, total)
        self.shared_D = np.where(live_D, x_D, self.shared_D)
        self.x_ND = np.tile(self.shared_D, (self.n, 1))
        self.m_ND = self.momenta_after(total)
        self.u_ND = self.left_over()
        self.met = self.t

    def start_of_round(self) -> Array:
        """x of the last meeting."""
        return self.shared_D

    def led_to(self, x_D: Array, received_D: Array, total: Any) -> Array:
        """x - P u-bar - Gamma lambda x."""
        return x_D - (self.preconditioned(received_D) + total * self.decay(x_D))

    def momenta_after(self, total: Any) -> Array:
        """u-bar / Gamma on every worker."""
        return np.tile(self.m_D / total, (self.n, 1))

    def left_over(self) -> Array:
        """Nothing."""
        return np.zeros_like(self.u_ND)

    def snapshot(self) -> Any:
        """Copies."""
        arrays = (self.x_ND, self.shared_D, self.m_ND, self.u_ND, self.v_D, self.e_ND, self.E_D)
        return ZeroOneSnapshot(*(array.copy() for array in arrays), step=self.t)

    SAVED: ClassVar[tuple[str, ...]] = (*BaseOptimizer.SAVED, "shared_D", "m_ND", "u_ND", "met")

    def resize(self, n_workers: int) -> None:
        """Whatever every worker has is the mean of the old ones."""
        mean_D = self.x_ND.mean(axis=0) if self.steps() else self.shared_D
        super().resize(n_workers)
        self.x_ND = np.tile(mean_D, (n_workers, 1))
        self.m_ND, self.u_ND = (np.tile(rows_ND.mean(axis=0), (n_workers, 1)) for rows_ND in (self.m_ND, self.u_ND))
