"""Correct 0/1 Adams, each with another arithmetic."""

from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np

from verification.independent.collectives import Float64 as Float64Collective
from verification.independent.optimizers import Eager
from verification.protocol import Array, ZeroOneSnapshot


class ZeroOne(Eager):
    """Each worker keeps the way from the last meeting; Gamma is added up."""

    algorithm: ClassVar[str] = "zero_one_adam"
    h: Any
    extensions: ClassVar[tuple[str, ...]] = ("scale_block",)
    refresh_policy: ClassVar[Any] = None
    meeting_policy: ClassVar[Any] = None

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        super().start(params_D, n_workers, hyper)
        self.M, self.U, self.W, self.gamma = np.zeros_like(self.e), np.zeros_like(self.e), np.zeros_like(self.e), 0.0

    def due(self, policy: Any, method: Any) -> bool:
        """Whether a policy, or that of the hyper-parameters, has this step."""
        return method(self.t) if policy is None else policy(self.h, self.t)

    def step(self, grads_ND: Array) -> None:
        if not np.isfinite(grads_ND).all():
            return
        self.t += 1
        kind = type(self)
        if self.due(kind.refresh_policy, self.h.refreshes):
            self.v = self.square(self.mean(grads_ND))
        live, lr = self.v > 0, self.kind(self.h.lr)
        self.M = np.stack([self.blend(m, g) for m, g in zip(self.M, grads_ND, strict=True)])
        self.walk(lr, live)
        self.gamma += self.h.lr
        if self.due(kind.meeting_policy, self.h.meets):
            self.meet(live)

    def walk(self, lr: Any, live: Array) -> None:
        """A local step of every worker."""
        self.U = self.U + lr * self.M
        self.W = np.where(live, self.W + lr * (self.P() * self.M + self.kind(self.h.weight_decay) * self.x), 0)

    def P(self) -> Array:
        """1 / (sqrt(v) + eps), with the floor; anything where v is 0."""
        live = self.v > 0
        floor = self.h.variance_floor * (self.v[live].astype(np.float64).mean() if live.any() else 0.0)
        v = np.where(live, np.maximum(self.v, self.kind(floor)), self.kind(1))
        return self.kind(1) / (np.sqrt(v) + self.kind(self.h.eps))

    def meet(self, live: Array) -> None:
        """Everybody is led from the last x by what all accumulated."""
        self.average(self.U, live)
        total = self.kind(self.gamma)
        moved = self.x - self.P() * self.m - total * self.kind(self.h.weight_decay) * self.x
        self.x = np.where(live, moved, self.x)
        self.M = np.tile(self.m / total, (self.n, 1))
        self.U, self.W, self.gamma = np.zeros_like(self.U), np.zeros_like(self.W), 0.0

    def snapshot(self) -> Any:
        arrays = (self.x - self.W, self.x, self.M, self.U, self.v, self.e, self.E)
        return ZeroOneSnapshot(*(array.copy() for array in arrays), step=self.t)

    def save(self) -> bytes:
        buffer, names = io.BytesIO(), ("x", "M", "U", "W", "v", "e", "E", "t", "gamma")
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    def load(self, data: bytes, n_workers: int) -> None:
        stored: Any = np.load(io.BytesIO(data))
        for name in ("x", "M", "U", "W", "v", "e", "E"):
            setattr(self, name, stored[name])
        self.t, self.gamma, self.n = int(stored["t"]), float(stored["gamma"]), n_workers
        for name in ("M", "U", "W", "e"):
            rows = getattr(self, name)
            if len(rows) != n_workers:
                setattr(self, name, np.repeat(rows.mean(axis=0, keepdims=True), n_workers, axis=0))


class ZeroOne64(ZeroOne):
    """Everything in float64."""

    dtype = "float64"
    collective = Float64Collective


class StepShared(ZeroOne):
    """lr m is formed once, for u and for x, and P multiplies it; the momentum in torch's form."""

    def blend(self, m: Array, g: Array) -> Array:
        return m + np.float32(1 - self.h.beta1) * (g - m)

    def walk(self, lr: Any, live: Array) -> None:
        step = lr * self.M
        self.U = self.U + step
        self.W = np.where(live, self.W + self.P() * step + lr * np.float32(self.h.weight_decay) * self.x, 0)


class ByTheMomentum(ZeroOne):
    """At a meeting x moves by Gamma P m, and m is found by a reciprocal of Gamma."""

    def meet(self, live: Array) -> None:
        before, total = self.x, np.float32(self.gamma)
        super().meet(live)
        self.M = np.tile(self.m * (np.float32(1) / total), (self.n, 1))
        moved = before - total * (self.P() * self.M[0] + np.float32(self.h.weight_decay) * before)
        self.x = np.where(live, moved, before)


class EveryThirdStep(ZeroOne):
    """Policies of its own: v is refreshed in steps 1 to 4, and the workers meet in every third step."""

    @staticmethod
    def refresh_policy(hyper: Any, t: int) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return t <= 4

    @staticmethod
    def meeting_policy(hyper: Any, t: int) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return t % 3 == 0


ZERO_ONES: tuple[type, ...] = (ZeroOne, ZeroOne64, StepShared, ByTheMomentum, EveryThirdStep)
