"""A conditional mutant: an elementary bug that bites only where its trigger does, and is correct elsewhere."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_lamb import BaseLamb
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.base_zero_one import BaseZeroOne
from verification.mutants.triggers import Trigger
from verification.protocol import Array

ELEMENTWISE = {
    *("mean_gradient", "next_momentum", "next_variance", "denominator", "decay", "local_momentum", "applied", "live"),
    *("worker_input", "worker_bits", "worker_signs", "worker_message", "worker_error"),
    *("server_input", "server_output", "server_error"),
    *("own_gradient", "summed", "walked", "preconditioned", "led_to", "momenta_after", "left_over"),
    *("next_trust_mean", "applied_trust", "layer_scales", "rebuilt", "next_fresh_variance", "next_ratio"),
}
"""Decisions whose result has one number an element, so that a bug can be kept to some elements."""

BASES = (BaseOptimizer, BaseZeroOne, BaseLamb, BaseCollective)
"""The correct classes that bugs change."""

TINY = 1e-20
"""A v below this is tiny."""


def _place(array: Array) -> tuple[bool, bool]:
    """Whether an array has strides, and whether it begins on no multiple of 16 bytes."""
    return not array.flags.c_contiguous, bool(array.ctypes.data % 16)


class WatchedOptimizer(BaseOptimizer):
    """Notes what triggers ask for. What belongs to a run is in its checkpoint, what belongs to an instance is not."""

    def start(self, params_D, n_workers, hyper):
        self.begun = getattr(self, "begun", 0) + 1
        self.other_n = getattr(self, "n", n_workers) != n_workers
        self.strided, self.misaligned = _place(params_D)
        self.history = {"loads": 0, "early_loads": 0, "used_loads": 0, "resizes": 0, "saves": 0, "skips": 0}
        self.hyper, self.n, self.unseen, self.largest = hyper, n_workers, 0, 0.0
        self.taken = 0
        super().start(params_D, n_workers, hyper)
        setattr(self.reducer, "owner", self)  # noqa: B010 - only a watched collective asks for it

    def now(self) -> SimpleNamespace:
        """What is known of the run, for triggers."""
        v_D = getattr(self, "v_D", np.zeros(0))
        frozen = getattr(self, "frozen", False)
        facts = {"n": self.n, "dim": v_D.size, "t": getattr(self, "t", 0), "hyper": self.hyper, "starts": self.begun}
        facts |= {"other_n": self.other_n, "strided": self.strided, "misaligned": self.misaligned, "calls": 0}
        facts |= {"dead": (v_D == 0) & frozen, "tiny": (v_D > 0) & (v_D < TINY), "unseen": self.unseen}
        facts |= {"round": facts["t"] - getattr(self, "met", facts["t"])}
        return SimpleNamespace(**facts, **self.history, largest=self.largest)

    def step(self, grads_ND):
        self.strided, self.misaligned = _place(grads_ND)
        with np.errstate(all="ignore"):
            self.largest = float(np.abs(grads_ND).max(initial=0.0))
        if not np.isfinite(grads_ND).all():
            self.history["skips"] += 1
        super().step(grads_ND)
        self.unseen += 1
        self.taken += 1

    def snapshot(self):
        seen = super().snapshot()
        self.unseen = 0
        return seen

    def checkpoint(self):
        state = super().checkpoint()
        self.history["saves"] += 1
        return {**state, "history": dict(self.history)}

    def load(self, data, n_workers):
        used = self.taken > 0
        super().load(data, n_workers)
        self.history["loads"] += 1
        self.history["early_loads"] += not self.frozen
        self.history["used_loads"] += used

    def resize(self, n_workers):
        super().resize(n_workers)
        self.history["resizes"] += 1


class WatchedCollective(BaseCollective):
    """The same for a collective; one that an optimizer owns asks its owner."""

    owner: Any = None
    allreduces = 0

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        self.allreduces += 1
        (self.n, self.dim), self.largest = buffers_ND.shape, float(np.abs(buffers_ND).max(initial=0.0))
        self.strided, self.misaligned = _place(buffers_ND)
        return super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)

    def now(self) -> SimpleNamespace:
        """What is known of the call, for triggers."""
        if self.owner is not None:
            return self.owner.now()
        facts = {"strided": self.strided, "misaligned": self.misaligned, "largest": self.largest}
        return SimpleNamespace(n=self.n, dim=self.dim, calls=self.allreduces, t=0, **facts)


def conditional(bug: type, trigger: Trigger, level: str) -> type:
    """The class with ``bug`` where ``trigger`` bites; a bug of the collective may be had in an optimizer."""
    if level == "optimizer" and issubclass(bug, BaseCollective):
        collective = conditional(bug, trigger, "collective")
        return type(bug.__name__, (WatchedOptimizer,), {"collective": collective, "__doc__": bug.__doc__})
    base = next(one for one in bug.__mro__ if one in BASES)
    watched = WatchedOptimizer if level == "optimizer" else WatchedCollective
    namespace: dict[str, Any] = {"__doc__": bug.__doc__}
    for owner in bug.__mro__[: bug.__mro__.index(base)]:
        for name, wrong in vars(owner).items():
            right = getattr(base, name, None)
            if name in namespace or name.startswith("__") or right is None:
                continue
            if inspect.isfunction(wrong):
                namespace[name] = _either(name, getattr(bug, name), right, trigger)
            elif name == "SAVED":
                namespace[name] = property(lambda self, w=wrong, r=right: w if trigger.bites(self.now()) else r)
            elif name == "collective":
                namespace[name] = conditional(wrong, trigger, "collective")
    conditioned = type(f"{bug.__name__}Conditional", (bug,), namespace)
    return type(bug.__name__, (watched, conditioned), {"__doc__": bug.__doc__})


def _either(name: str, wrong: Any, right: Any, trigger: Trigger) -> Any:
    """The method that is wrong where the trigger bites."""

    def method(self: Any, *arguments: Any) -> Any:
        now = self.now()
        if not trigger.bites(now):
            return right(self, *arguments)
        if trigger.mask is None or name not in ELEMENTWISE:
            return wrong(self, *arguments)
        mask_D, correct, changed = trigger.mask(now), right(self, *arguments), wrong(self, *arguments)
        if name.startswith("server_"):
            chunk = self.chunks(mask_D.size, now.n)[arguments[-1]]
            mask_D = mask_D[chunk]
        return np.where(mask_D, changed, correct) if np.shape(correct)[-1:] == mask_D.shape else changed

    return method
