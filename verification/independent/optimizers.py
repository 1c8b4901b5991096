"""Correct optimizers around the collectives, each with another arithmetic; the lazy form is in ``lazy.py``."""

from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np

from theory.rounding import momentum_tolerance
from verification.independent.collectives import Float64 as Float64Collective
from verification.independent.collectives import NormOfNorms, ReciprocalRoot, Vectorised, blocks_of
from verification.protocol import EXTENSIONS, Array, Hyper, Scale, Snapshot


def to_bfloat16(values: Array) -> Array:
    """The nearest numbers with 8 bits, ties to even; by the bits of float32, or from float64 by its own."""
    bits, kind = {4: (16, np.uint32), 8: (45, np.uint64)}[values.itemsize]
    words = np.ascontiguousarray(values).view(kind)
    half_less_one, odd = kind((1 << (bits - 1)) - 1), (words >> kind(bits)) & kind(1)
    return ((words + half_less_one + odd) >> kind(bits) << kind(bits)).view(values.dtype)


class Eager:
    """Plain float32: product form of the momentum, division by the denominator."""

    dtype: ClassVar[str] = "float32"
    chunk_multiple: ClassVar[int] = 8
    server_chunks: ClassVar[int | None] = None
    extensions: ClassVar[tuple[str, ...]] = EXTENSIONS
    collective: ClassVar[type[Vectorised]] = Vectorised

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        self.h, self.n, self.t, self.kind = hyper, n_workers, 0, np.dtype(self.dtype).type
        zeros = np.zeros(params_D.size, self.dtype)
        self.x, self.m, self.v, self.E = params_D.copy(), zeros.copy(), zeros.copy(), zeros.copy()
        self.e = np.zeros((n_workers, params_D.size), self.dtype)

    def step(self, grads_ND: Array) -> None:
        if not np.isfinite(grads_ND).all():
            return
        self.t += 1
        if self.t <= self.h.freeze_step:
            self.adam(grads_ND)
        else:
            self.compress(grads_ND)

    def adam(self, grads_ND: Array) -> None:
        """A warm-up step; at T_w the floor, and the dead forget their momentum."""
        h, one = self.h, self.kind
        g = self.mean(grads_ND)
        self.m = self.blend(self.m, g)
        self.v = self.square(g)
        b1, b2 = self.corrections(self.t) if h.bias_correction else (1.0, 1.0)
        self.x = self.moved(self.x, self.m, self.v, b1, b2)
        if self.t == h.freeze_step:
            live = self.v > 0
            floor = h.variance_floor * (self.v[live].astype(np.float64).mean() if live.any() else 0.0)
            self.v = np.where(live, np.maximum(self.v, one(floor)), one(0))
            if h.compress == "update":
                self.m = self.preconditioned(self.m)
            self.m = np.where(live, self.m, one(0))

    def corrections(self, second: int) -> tuple[Any, Any]:
        """1 - beta1^t, and 1 - beta2^second."""
        return 1 - self.h.beta1**self.t, 1 - self.h.beta2**second

    def preconditioned(self, values: Array) -> Array:
        """P times ``values`` (..., D) with the frozen P; at zero-variance coordinates anything."""
        h, one = self.h, self.kind
        b2 = 1 - h.beta2**h.freeze_step if h.bias_correction else 1.0
        denominator = np.sqrt(np.where(self.v > 0, self.v, one(1)) / one(b2)) + one(h.eps)
        if h.frozen_dtype == "float32":
            return values / denominator
        return values * to_bfloat16(one(1) / denominator)

    def mean(self, grads_ND: Array) -> Array:
        """g-bar."""
        return grads_ND.mean(axis=0)

    def blend(self, m: Array, g: Array) -> Array:
        """beta1 m + (1 - beta1) g."""
        return self.kind(self.h.beta1) * m + self.kind(1 - self.h.beta1) * g

    def square(self, g: Array) -> Array:
        """beta2 v + (1 - beta2) g^2."""
        return self.kind(self.h.beta2) * self.v + self.kind(1 - self.h.beta2) * g * g

    def moved(self, x: Array, m: Array, v: Array, b1: float, b2: float) -> Array:
        """x - lr (m/b1/(sqrt(v/b2) + eps) + lambda x)."""
        one, h = self.kind, self.h
        return x - one(h.lr) * (m / one(b1) / (np.sqrt(v / one(b2)) + one(h.eps)) + one(h.weight_decay) * x)

    def inputs(self, grads_ND: Array) -> Array:
        """m_i of every worker, or P m_i."""
        if self.h.compress == "update":
            grads_ND = self.preconditioned(grads_ND)
        return np.stack([self.blend(self.m, g) for g in grads_ND])

    def compress(self, grads_ND: Array) -> None:
        """A step of the compression stage, on the live coordinates alone."""
        h, live = self.h, self.v > 0
        self.average(self.inputs(grads_ND), live)
        b1, b2 = self.corrections(h.freeze_step) if h.bias_correction else (1.0, 1.0)
        if h.compress == "update" or h.frozen_dtype == "bfloat16":
            update = self.m if h.compress == "update" else self.preconditioned(self.m)
            moved = self.along(self.x, update, b1)
        else:
            moved = self.moved(self.x, self.m, np.where(live, self.v, 1), b1, b2)
        self.x = np.where(live, moved, self.x)

    def average(self, inputs_ND: Array, live: Array) -> None:
        """m and the errors after a round."""
        self.m, new_e, new_E = np.zeros_like(self.m), np.zeros_like(self.e), np.zeros_like(self.E)
        if live.any():
            self.exchange(inputs_ND, live, new_e, new_E)
        self.e, self.E = new_e, new_E

    def along(self, x: Array, update: Array, b1: float) -> Array:
        """x - lr (update/b1 + lambda x)."""
        one, h = self.kind, self.h
        return x - one(h.lr) * (update / one(b1) + one(h.weight_decay) * x)

    def exchange(self, inputs_ND: Array, live: Array, new_e: Array, new_E: Array) -> None:
        """Workers on all live coordinates, servers on the live ones of their chunk."""
        arithmetic = self.collective()
        arithmetic.scale = self.h.scale  # pyright: ignore[reportAttributeAccessIssue]
        u, w = inputs_ND + self.e, np.zeros_like(self.E)
        c = self.chunk_multiple * -(-w.size // (self.chunk_multiple * (self.server_chunks or self.n)))
        blocks = blocks_of(w.size, c, self.h.scale_block)
        whole = [slice(0, w.size)] if self.h.scale_block is None else blocks
        s = np.stack([self.magnitudes(arithmetic, row, whole, live) for row in u])[:, live]
        q = self.worker_signs(u[:, live], inputs_ND[:, live], live)
        new_e[:, live] = u[:, live] - s * q
        w[live] = arithmetic.average(s * q, self.E[live])
        self.m[live] = (self.magnitudes(arithmetic, w, blocks, live) * arithmetic.sign(w))[live]
        new_E[live] = w[live] - self.m[live]

    def magnitudes(self, arithmetic: Vectorised, u: Array, parts: list[slice], live: Array) -> Array:
        """The scale of the live elements of each part, at all of its elements."""
        found = np.zeros_like(u)
        for part in parts:
            inside = u[part][live[part]]
            if inside.size:
                found[part] = arithmetic.scale_of(inside)
        return found

    def worker_signs(self, u: Array, inputs: Array, live: Array) -> Array:
        """The bits that workers send."""
        return np.where(u >= 0, 1, -1).astype(self.dtype)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            np.tile(self.x, (self.n, 1)), self.m.copy(), self.v.copy(), self.e.copy(), self.E.copy(), self.t
        )

    def save(self) -> bytes:
        """All arrays and the step."""
        buffer = io.BytesIO()
        np.savez(buffer, x=self.x, m=self.m, v=self.v, e=self.e, E=self.E, t=np.array(self.t))
        return buffer.getvalue()

    def load(self, data: bytes, n_workers: int) -> None:
        """On another number of workers everybody gets the mean error."""
        stored: Any = np.load(io.BytesIO(data))
        self.x, self.m, self.v, self.e, self.E = (stored[name] for name in "xmveE")
        self.t, self.n = int(stored["t"]), n_workers
        if len(self.e) != n_workers:
            self.e = np.repeat(self.e.mean(axis=0, keepdims=True), n_workers, axis=0)


class Float64(Eager):
    """Everything in float64."""

    dtype = "float64"
    collective = Float64Collective


class Lerp(Eager):
    """m + (1 - beta1)(g - m), torch's form; the gradient's square is formed first."""

    def blend(self, m: Array, g: Array) -> Array:
        step = np.float32(1 - self.h.beta1)
        return m + step * (g - m) if step < 0.5 else g - (g - m) * (np.float32(1) - step)

    def square(self, g: Array) -> Array:
        return np.float32(self.h.beta2) * self.v + np.float32(1 - self.h.beta2) * (g * g)


class Fused(Eager):
    """Fused multiply-adds: products are exact, each sum is rounded once."""

    def blend(self, m: Array, g: Array) -> Array:
        first = (np.float32(self.h.beta1) * m).astype(np.float64)
        return (first + np.float64(np.float32(1 - self.h.beta1)) * g).astype(np.float32)

    def moved(self, x: Array, m: Array, v: Array, b1: float, b2: float) -> Array:
        h = self.h
        ratio = m / np.float32(b1) / (np.sqrt(v / np.float32(b2)) + np.float32(h.eps))
        update = (np.float64(np.float32(h.weight_decay)) * x + ratio).astype(np.float32)
        return (x - np.float64(np.float32(h.lr)) * update).astype(np.float32)


class Norms(Eager):
    """The scale from the norms of pieces."""

    collective = NormOfNorms


class Reciprocal(Eager):
    """A reciprocal preconditioner, lr multiplied in first, decay as a factor of x; sums from the other end."""

    collective = ReciprocalRoot

    def preconditioned(self, values: Array) -> Array:
        if self.h.frozen_dtype != "float32":
            return super().preconditioned(values)
        h = self.h
        over = np.float32(1 / (1 - h.beta2**h.freeze_step) if h.bias_correction else 1.0)
        return values * (np.float32(1) / (np.sqrt(np.where(self.v > 0, self.v, 1) * over) + np.float32(h.eps)))

    def inputs(self, grads_ND: Array) -> Array:
        if self.h.compress != "update":
            return super().inputs(grads_ND)
        weighted_ND = np.float32(1 - self.h.beta1) * grads_ND  # the weight first, then P
        return np.float32(self.h.beta1) * self.m + self.preconditioned(weighted_ND)

    def average(self, inputs_ND: Array, live: Array) -> None:
        """m and the errors after a round."""
        self.m, new_e, new_E = np.zeros_like(self.m), np.zeros_like(self.e), np.zeros_like(self.E)
        if live.any():
            self.exchange(inputs_ND, live, new_e, new_E)
        self.e, self.E = new_e, new_E

    def along(self, x: Array, update: Array, b1: float) -> Array:
        h = self.h
        return x * np.float32(1 - h.lr * h.weight_decay) - np.float32(h.lr / b1) * update

    def mean(self, grads_ND: Array) -> Array:
        total = grads_ND[-1] / np.float32(len(grads_ND))
        for row in grads_ND[-2::-1]:
            total = total + row / np.float32(len(grads_ND))
        return total

    def moved(self, x: Array, m: Array, v: Array, b1: float, b2: float) -> Array:
        h = self.h
        P = np.float32(1) / (np.sqrt(v * np.float32(1 / b2)) + np.float32(h.eps))
        return x * np.float32(1 - h.lr * h.weight_decay) - np.float32(h.lr / b1) * m * P


class Chunks64(Eager):
    """Chunks of 64."""

    chunk_multiple = 64


class OtherSignInDoubt(Eager):
    """Workers send the other sign wherever rounding could have led there, but not for an exact zero."""

    def worker_signs(self, u: Array, inputs: Array, live: Array) -> Array:
        q = super().worker_signs(u, inputs, live)
        magnitude = np.abs(inputs) + np.abs(self.e[:, live])  # a lower bound of what the tolerance is made of
        bound = momentum_tolerance(0.0, inputs, self.e[:, live], self.h.beta1, "float32") * 0.1
        return np.where((u != 0) & (magnitude > 0) & (np.abs(u) <= bound), -q, q)


class OnlyL1(Eager):
    """Says that it does l1 alone."""

    scale: ClassVar[Scale] = "l1"


class Published(Eager):
    """Knows nothing of the extensions, not even their names."""

    extensions = ()

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        super().start(params_D, n_workers, Hyper(**vars(hyper)))
        if set(vars(hyper)) & set(EXTENSIONS):
            raise TypeError(f"what is {', '.join(EXTENSIONS)}?")


class BlocksAlone(Eager):
    """Has block scales of 64 and no other extension."""

    extensions = ("scale_block",)
    takes: ClassVar[dict[str, Any]] = {"scale_block": 64}

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        if (hyper.compress, hyper.scale_block, hyper.frozen_dtype) != ("momentum", 64, "float32"):
            raise NotImplementedError("blocks of 64 alone")
        super().start(params_D, n_workers, hyper)


OPTIMIZERS: tuple[type, ...] = (
    Eager,
    Float64,
    Lerp,
    Fused,
    Norms,
    Reciprocal,
    Chunks64,
    OtherSignInDoubt,
    OnlyL1,
    Published,
    BlocksAlone,
)
