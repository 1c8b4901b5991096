"""Correct classes that need a declaration: fixed hyper-parameters, sizes, workers, no server error; and a slow one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from verification.independent.collectives import Vectorised
from verification.independent.optimizers import Eager
from verification.protocol import Array, Hyper


class AlwaysCorrected(Eager):
    """Corrects its bias always, and has one epsilon."""

    takes: ClassVar[dict[str, Any]] = {"bias_correction": True, "eps": 1e-6}

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        if not hyper.bias_correction or hyper.eps != 1e-6:
            raise NotImplementedError("the bias is always corrected, and eps is 1e-6")
        super().start(params_D, n_workers, hyper)


class PowersOfTwo(Eager):
    """Takes two and four workers, and sizes of whole bytes."""

    workers = (2, 4)
    sizes = range(64, 2049, 64)

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        if n_workers not in self.workers or params_D.size not in self.sizes:
            raise NotImplementedError("2 or 4 workers, multiples of 64")
        super().start(params_D, n_workers, hyper)


class WarmUpAlone(Eager):
    """Adam: v is never frozen, and no step after T_w may be asked for."""

    compresses = False

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        self.last = hyper.freeze_step
        super().start(params_D, n_workers, replace(hyper, freeze_step=2**62))

    def adam(self, grads_ND: Array) -> None:
        if self.t > self.last:
            raise RuntimeError(f"step {self.t} of {self.last}")
        super().adam(grads_ND)

    def compress(self, grads_ND: Array) -> None:
        raise NotImplementedError("the warm-up alone")


class SubtractedComplement(Eager):
    """1 - beta is formed from the float32 beta."""

    complement = "subtracted"

    def blend(self, m: Array, g: Array) -> Array:
        beta = np.float32(self.h.beta1)
        return beta * m + (np.float32(1) - beta) * g

    def square(self, g: Array) -> Array:
        beta = np.float32(self.h.beta2)
        return beta * self.v + (np.float32(1) - beta) * g * g


class Float32Corrections(Eager):
    """The bias corrections are formed in float32, by a loop of products."""

    correction = "float32"

    def corrections(self, second: int) -> tuple[Any, Any]:
        found = []
        for beta, steps in ((self.h.beta1, self.t), (self.h.beta2, second)):
            power = np.float32(1)
            for _ in range(steps):
                power = power * np.float32(beta)
            found.append(np.float32(1) - power)
        return found[0], found[1]


class Slow(Eager):
    """Takes a millisecond a step more than it needs."""

    def step(self, grads_ND: Array) -> None:
        time.sleep(1e-3)
        super().step(grads_ND)


class WorkersAlone(Vectorised):
    """The server sends its average as it is, and keeps no error."""

    has_server_error = False

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array
    ) -> tuple[Array, Array, Array]:
        u_ND = buffers_ND + worker_errors_ND
        s_N = np.array([self.scale_of(u_D) for u_D in u_ND], dtype=self.dtype)
        message_ND = s_N[:, None] * self.sign(u_ND)
        return self.average(message_ND, server_error_D), u_ND - message_ND, np.zeros_like(server_error_D)


DECLARED: tuple[type, ...] = (
    AlwaysCorrected,
    PowersOfTwo,
    WarmUpAlone,
    SubtractedComplement,
    Float32Corrections,
    Slow,
    WorkersAlone,
)
