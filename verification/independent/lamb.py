"""Correct 1-bit LAMBs, each with another arithmetic."""

from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np

from verification.independent.collectives import Float64 as Float64Collective
from verification.independent.optimizers import Eager
from verification.protocol import Array, LambSnapshot

NUMBERS = ("c", "s", "r")
"""What a layer has one of."""


class Lamb(Eager):
    """Norms by NumPy's pairwise sums, in the dtype, of numbers scaled so that no square vanishes."""

    algorithm: ClassVar[str] = "one_bit_lamb"
    h: Any
    extensions: ClassVar[tuple[str, ...]] = ("scale_block", "frozen_dtype")

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        super().start(params_D, n_workers, hyper)
        self.layers = hyper.slices(params_D.size)
        self.c, self.s, self.r = (np.full(len(self.layers), one, self.dtype) for one in (0, 1, 1))
        self.fresh = np.zeros_like(self.x)

    def norm(self, values: Array) -> Any:
        """Of one layer."""
        largest = np.abs(values).max()
        return largest * np.sqrt(np.square(values / largest).sum()) if largest > 0 else self.kind(0)

    def wide(self, numbers: Array) -> Array:
        """Those of the layers, at every element."""
        return np.repeat(numbers, [layer.stop - layer.start for layer in self.layers])

    def along_layers(self, direction: Array, trust: Array) -> Array:
        """x - lr c (direction + lambda x)."""
        one, h = self.kind, self.h
        return self.x - one(h.lr) * self.wide(trust) * (direction + one(h.weight_decay) * self.x)

    def adam(self, grads_ND: Array) -> None:
        before = self.x
        super().adam(grads_ND)  # m and v, and the freeze
        h, one = self.h, self.kind
        self.x = before
        b1, b2 = self.corrections(self.t) if h.bias_correction else (1.0, 1.0)
        direction = self.first_m / one(b1) / (np.sqrt(self.first_v / one(b2)) + one(h.eps))
        update = direction + one(h.weight_decay) * self.x
        trust = np.array([self.trust_ratio(self.x[layer], update[layer]) for layer in self.layers], self.dtype)
        self.x = self.along_layers(direction, trust)
        self.c = one(h.trust_decay) * self.c + one(1 - h.trust_decay) * trust
        if self.t == h.freeze_step:
            sizes = [self.norm(self.m[layer]) / self.kind((layer.stop - layer.start) ** 0.5) for layer in self.layers]
            common = np.mean(sizes)
            self.s = np.array([common / own if own > 0 else 1 for own in sizes], self.dtype)
            self.fresh = self.v.copy()

    def moved(self, x: Array, m: Array, v: Array, b1: float, b2: float) -> Array:
        """Keeps m and v as they were in this step, before the freeze changes them."""
        self.first_m, self.first_v = m, v
        return x

    def trust_ratio(self, weights: Array, update: Array) -> Any:
        """c of one layer."""
        x, r = self.norm(weights), self.norm(update)
        return np.clip(x / r if x > 0 and r > 0 else 1, self.h.min_trust, self.h.max_trust)

    def inputs(self, grads_ND: Array) -> Array:
        return super().inputs(grads_ND) * self.wide(self.s)

    def compress(self, grads_ND: Array) -> None:
        h, one, live, old = self.h, self.kind, self.v > 0, self.m
        self.average(self.inputs(grads_ND), live)
        self.m = self.unscaled(self.m)
        rebuilt = (self.m - one(h.beta1) * old) / one(1 - h.beta1)
        self.fresh = one(h.beta2) * self.fresh + one(1 - h.beta2) * rebuilt * rebuilt
        ratio = (np.sqrt(self.v) + one(h.eps)) / (np.sqrt(self.fresh) + one(h.eps))
        for k, layer in enumerate(self.layers):
            inside = ratio[layer][live[layer]]
            found = np.clip(inside.max() if inside.size else one(0), one(h.min_ratio), one(h.max_ratio))
            self.r[k] = np.clip(found, self.r[k] * one(1 - h.ratio_change), self.r[k] * one(1 + h.ratio_change))
        b1 = self.corrections(1)[0] if h.bias_correction else 1.0
        direction = self.preconditioned(self.m / one(b1))
        self.x = np.where(live, self.along_layers(direction, self.c * self.r), self.x)

    def unscaled(self, received: Array) -> Array:
        """What is received over s."""
        return received / self.wide(self.s)

    def snapshot(self) -> Any:
        params_ND = np.tile(self.x, (self.n, 1))
        c, s, r = (self.wide(getattr(self, name)) for name in NUMBERS)
        arrays = (params_ND, self.m, self.v, self.e, self.E, c, s, self.fresh, r)
        return LambSnapshot(*(array.copy() for array in arrays), step=self.t)

    def save(self) -> bytes:
        buffer, names = io.BytesIO(), ("x", "m", "v", "e", "E", "t", "fresh", *NUMBERS)
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    def load(self, data: bytes, n_workers: int) -> None:
        super().load(data, n_workers)
        stored: Any = np.load(io.BytesIO(data))
        for name in ("fresh", *NUMBERS):
            setattr(self, name, stored[name])


class Lamb64(Lamb):
    """Everything in float64."""

    dtype = "float64"
    collective = Float64Collective


class Reciprocals(Lamb):
    """Divisions by products with reciprocals, the rate first, decay apart; norms one term after another."""

    def norm(self, values: Array) -> Any:
        largest = np.abs(values).max()
        if largest == 0:
            return np.float32(0)
        squares = np.square(values / largest)
        sums = [np.add.accumulate(squares[at : at + 2**15])[-1] for at in range(0, squares.size, 2**15)]
        return largest * np.sqrt(np.add.accumulate(np.array(sums))[-1])

    def along_layers(self, direction: Array, trust: Array) -> Array:
        rate = np.float32(self.h.lr) * self.wide(trust)
        return self.x * (np.float32(1) - rate * np.float32(self.h.weight_decay)) - rate * direction

    def unscaled(self, received: Array) -> Array:
        return received * (np.float32(1) / self.wide(self.s))


LAMBS: tuple[type, ...] = (Lamb, Lamb64, Reciprocals)
