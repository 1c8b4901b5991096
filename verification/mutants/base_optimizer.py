"""A correct 1-bit Adam in float32 with one x a worker; every decision is a method that a mutant replaces."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np

from theory.rounding import round_to
from verification.mutants.base_collective import BaseCollective
from verification.protocol import EXTENSIONS, Array, Hyper, Snapshot


class BaseOptimizer:
    """State in plain attributes, names as in the specification."""

    extensions: ClassVar[tuple[str, ...]] = EXTENSIONS
    collective: ClassVar[type[BaseCollective]] = BaseCollective

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        self.hyper, self.n, self.t, self.frozen = hyper, n_workers, 0, False
        dim = params_D.size
        self.x_ND = np.tile(params_D, (n_workers, 1))
        self.m_D, self.v_D = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
        self.e_ND, self.E_D = np.zeros((n_workers, dim), np.float32), np.zeros(dim, np.float32)
        self.reducer = self.collective()
        self.reducer.kind, self.reducer.block = hyper.scale, hyper.scale_block

    def step(self, grads_ND: Array) -> None:
        if self.must_skip(grads_ND):
            self.on_skip()
            return
        self.t += 1
        if self.in_warm_up():
            self.warm_up_step(grads_ND)
            if self.freezes_now():
                self.freeze()
        else:
            self.compressed_step(grads_ND)

    def must_skip(self, grads_ND: Array) -> bool:
        """A gradient is not finite [C8]."""
        return not np.isfinite(grads_ND).all()

    def on_skip(self) -> None:
        """Nothing happens."""

    def in_warm_up(self) -> bool:
        """Step t is one of Adam."""
        return not self.frozen

    def freezes_now(self) -> bool:
        """Step t, just done, is T_w."""
        return self.t == self.hyper.freeze_step

    def mean_gradient(self, grads_ND: Array) -> Array:
        """g-bar."""
        return grads_ND.mean(axis=0)

    def warm_up_step(self, grads_ND: Array) -> None:
        """Adam on the mean gradient."""
        g_D = self.mean_gradient(grads_ND)
        self.m_D = self.next_momentum(self.m_D, g_D)
        self.v_D = self.next_variance(self.v_D, g_D, grads_ND)
        b1, b2 = self.corrections(self.t, self.t)
        self.move(self.m_D / np.float32(b1), self.denominator(self.v_D, b2), np.ones_like(self.v_D, np.bool_), g_D)

    def next_momentum(self, m_D: Array, g_D: Array) -> Array:
        """beta1 m + (1 - beta1) g; in the compression stage, for one worker."""
        return np.float32(self.hyper.beta1) * m_D + np.float32(1 - self.hyper.beta1) * g_D

    def next_variance(self, v_D: Array, g_D: Array, grads_ND: Array) -> Array:
        """beta2 v + (1 - beta2) g^2."""
        return np.float32(self.hyper.beta2) * v_D + np.float32(1 - self.hyper.beta2) * (g_D * g_D)

    def corrections(self, t_momentum: int, t_variance: int) -> tuple[float, float]:
        """Bias corrections, 1 if they are off [C5]."""
        h = self.hyper
        return (1 - h.beta1**t_momentum, 1 - h.beta2**t_variance) if h.bias_correction else (1.0, 1.0)

    def denominator(self, v_D: Array, correction: float) -> Array:
        """sqrt(v) + eps."""
        return np.sqrt(v_D / np.float32(correction)) + np.float32(self.hyper.eps)

    def move(self, m_D: Array, denominator_D: Array, live_D: Array, g_D: Array) -> None:
        """x <- x - lr (m / denominator + weight_decay x), on every worker, where live."""
        h = self.hyper
        update_ND = m_D / denominator_D + self.decay(self.x_ND)
        self.x_ND[...] = np.where(live_D, self.x_ND - np.float32(h.lr) * update_ND, self.x_ND)

    def decay(self, x_D: Array) -> Array:
        """Decoupled weight decay, of one worker's x or of all."""
        return np.float32(self.hyper.weight_decay) * x_D

    def live(self) -> Array:
        """Coordinates that take part in the compression stage [C6]."""
        return self.v_D > 0

    def freeze(self) -> None:
        """Raise v to its floor [C7], forget the momentum of zero-variance coordinates [C6]."""
        self.frozen = True
        live_D = self.live()
        floor = self.variance_floor(live_D)
        self.v_D = np.where(live_D, np.maximum(self.v_D, np.float32(floor)), self.v_D)
        self.m_D = np.where(live_D, self.at_the_freeze(self.m_D), np.float32(0))

    def at_the_freeze(self, m_D: Array) -> Array:
        """The momentum turns into the update P m [C12]."""
        return self.preconditioned(m_D) if self.hyper.compress == "update" else m_D

    def preconditioned(self, values: Array) -> Array:
        """P times ``values`` (..., D), with the frozen P."""
        return values * self.frozen_preconditioner()

    def frozen_preconditioner(self) -> Array:
        """P = 1/(sqrt(v/b2) + eps), rounded where that is asked [C14]; 1 at zero-variance coordinates."""
        h = self.hyper
        P_D = np.float32(1) / self.denominator(
            np.where(self.v_D > 0, self.v_D, np.float32(1)), self.corrections(1, h.freeze_step)[1]
        )
        return self.rounded(P_D) if h.frozen_dtype == "bfloat16" else P_D

    def rounded(self, P_D: Array) -> Array:
        """To the nearest bfloat16."""
        return round_to(P_D, "bfloat16").astype(np.float32)

    def variance_floor(self, live_D: Array) -> float:
        """kappa times the mean of live v."""
        return self.hyper.variance_floor * float(self.v_D[live_D].mean(dtype=np.float64)) if live_D.any() else 0.0

    def local_momentum(self, i: int, grads_ND: Array) -> Array:
        """What worker i puts into the all-reduce."""
        return self.next_momentum(self.m_D, self.sent_gradient(i, grads_ND[i]))

    def sent_gradient(self, i: int, grad_D: Array) -> Array:
        """g_i, or P g_i in the update form [C12]."""
        return self.preconditioned(grad_D) if self.hyper.compress == "update" else grad_D

    def compressed_step(self, grads_ND: Array) -> None:
        """Compress, exchange, apply."""
        live_D = self.live()
        local_ND = np.stack([self.local_momentum(i, grads_ND) for i in range(self.n)])
        previous_D = self.m_D
        self.exchange(local_ND, live_D)
        b1, b2 = self.corrections(self.t, self.hyper.freeze_step)
        self.move(self.applied(previous_D, local_ND) / np.float32(b1), self.divisor(b2), live_D, grads_ND.mean(axis=0))

    def divisor(self, correction: float) -> Array:
        """What divides the momentum that is applied: 1/P, and 1 in the update form."""
        if self.hyper.compress == "update":
            return np.ones_like(self.v_D)
        if self.hyper.frozen_dtype == "bfloat16":
            return np.float64(1) / self.frozen_preconditioner()
        return self.denominator(self.v_D, correction)

    def exchange(self, local_ND: Array, live_D: Array) -> None:
        """The compressed all-reduce."""
        self.m_D, self.e_ND, self.E_D = self.reducer.allreduce(local_ND, self.e_ND, self.E_D, live_D)

    def applied(self, previous_D: Array, local_ND: Array) -> Array:
        """The momentum that moves x: the one received."""
        return self.m_D

    def snapshot(self) -> Snapshot:
        """Copies."""
        arrays = (self.x_ND, self.m_D, self.v_D, self.e_ND, self.E_D)
        return Snapshot(*(array.copy() for array in arrays), step=self.t)

    SAVED: ClassVar[tuple[str, ...]] = ("x_ND", "m_D", "v_D", "e_ND", "E_D", "t", "frozen", "n")

    def save(self) -> bytes:
        """Everything in SAVED."""
        return pickle.dumps(self.checkpoint())

    def checkpoint(self) -> dict[str, Any]:
        """What is saved."""
        return {name: getattr(self, name) for name in self.SAVED}

    def load(self, data: bytes, n_workers: int) -> None:
        """Continue, on any number of workers [C11]."""
        for name, value in pickle.loads(data).items():
            setattr(self, name, value)
        if n_workers != self.n:
            self.resize(n_workers)

    def resize(self, n_workers: int) -> None:
        """Each new error is the mean of the old ones."""
        self.e_ND = np.tile(self.e_ND.mean(axis=0), (n_workers, 1))
        self.x_ND = np.tile(self.x_ND[0], (n_workers, 1))
        self.n = n_workers
