"""Drives a class under test: calls it with copies, checks shapes and dtypes, turns what it raises into a sentence."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from verification.algorithms.base import array_names
from verification.protocol import Array, CommonHyper, Traits, attribute, levels
from verification.raised import of_the_user, said
from verification.relation.finding import Misbehaved, OutOfTime, Unsupported
from verification.search.cases import Call, OtherRun


class Driver:
    """A class under test, its traits, and the calls that properties make; ``took``: the seconds of each.

    ``advises``: whether findings name declarations with which there were none; to try them takes several times as long.
    ``apart``: this process was started for the class, which was loaded from its file.
    """

    def __init__(self, under_test: type, *, apart: bool = False) -> None:
        self.under_test, self.apart = under_test, apart
        self.name = under_test.__name__
        self.levels = levels(under_test)
        self.traits = Traits.of(under_test)
        self.deadline, self.advises = math.inf, True
        self.took: list[float] = []

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        return self.deadline - time.monotonic()

    def declaring(self, traits: Traits) -> Driver:
        """The same class as if it declared these traits."""
        other = copy(self)
        other.traits = traits
        return other

    def advising(self, wanted: bool) -> Driver:
        """The same with or without advice."""
        other = copy(self)
        other.advises = wanted
        return other

    @property
    def source(self) -> str:
        """The file that the class is in."""
        try:
            return str(Path(inspect.getfile(self.under_test)).resolve())
        except (OSError, TypeError):
            return "FILE.py"

    @property
    def can_save(self) -> bool:
        """Whether it has both save() and load()."""
        return all(callable(attribute(self.under_test, name)) for name in ("save", "load"))

    def new(self) -> Any:
        """A new instance."""
        return self._call("__init__", self.under_test)

    def allreduce_in_place(self, instance: Any, inputs: Call) -> Call:
        """One call on the very arrays given."""
        n, dim = inputs[0].shape
        outputs = self._call("allreduce", lambda: _items(instance.allreduce(*inputs)))
        if outputs is None or len(outputs) != 3:
            raise Misbehaved(f"{self.name}.allreduce must return (output_D, worker_errors_ND, server_error_D)")
        where = f"{self.name}.allreduce"
        return (
            self._plain(f"{where}: output_D", outputs[0], (dim,)),
            self._plain(f"{where}: worker_errors_ND", outputs[1], (n, dim)),
            self._plain(f"{where}: server_error_D", outputs[2], (dim,)),
        )

    def bytes_per_worker(self, instance: Any) -> Array | None:
        """What each worker says it sent in the last call; None: the class does not say."""
        method = getattr(instance, "bytes_per_worker", None)
        if not callable(method):
            return None
        return self._call("bytes_per_worker", lambda: _unmasked(np.asarray(_unmasked(method()))))

    def start(self, params_D: Array, n_workers: int, hyper: CommonHyper, instance: Any = None) -> Any:
        """``instance``, or a new one, started."""
        instance = self.new() if instance is None else instance
        self.start_in_place(instance, params_D.copy(), n_workers, hyper)
        return instance

    def start_in_place(self, instance: Any, params_D: Array, n_workers: int, hyper: CommonHyper) -> None:
        """Start with the very array given."""
        self._call("start", instance.start, params_D, n_workers, hyper)

    def step(self, instance: Any, grads_ND: Array) -> None:
        """One step on a copy of the gradients."""
        self.step_in_place(instance, grads_ND.copy())

    def step_in_place(self, instance: Any, grads_ND: Array) -> None:
        """One step on the very array given."""
        self._call("step", instance.step, grads_ND)

    def look(self, instance: Any, n: int, dim: int) -> tuple[Any, Any]:
        """A snapshot of the very arrays that were returned, and a copy of it."""
        seen = self.raw_snapshot(instance, n, dim)
        return seen, replace(seen, **{name: getattr(seen, name).copy() for name in array_names(seen)})

    def raw_snapshot(self, instance: Any, n: int, dim: int) -> Any:
        """A snapshot of the very arrays that ``snapshot()`` returned, their shapes checked."""
        kind = self.traits.checked_as.snapshot
        names, shapes = array_names(kind), {"ND": (n, dim), "D": (dim,)}

        def read() -> dict[str, Any]:
            seen = instance.snapshot()
            return {name: getattr(seen, name) for name in (*names, "step") if hasattr(seen, name)}

        found, where = self._call("snapshot", read), f"{self.name}.snapshot"
        if missing := [name for name in names if name not in found]:
            raise Misbehaved(f"{where} has no {missing[0]}")
        if type(found.get("step")) is not int and not isinstance(found.get("step"), np.integer):
            raise Misbehaved(f"{where}: step must be an integer")
        arrays = {name: self._plain(f"{where}: {name}", found[name], shapes[name.rpartition("_")[2]]) for name in names}
        return kind(**arrays, step=int(found["step"]))

    def save(self, instance: Any) -> bytes:
        """A checkpoint."""
        data = self._call("save", instance.save)
        if not isinstance(data, bytes):
            raise Misbehaved(f"{self.name}.save must return bytes, got {type(data).__name__}")
        return bytes(memoryview(data))  # a subclass may keep more than bytes

    def use(self, instance: Any, run: OtherRun, hyper: CommonHyper, n_workers: int) -> None:
        """Another run on the instance, looked at when it has started and when it ends: that must leave nothing."""
        n, dim = n_workers, run.params_D.size
        self.start(run.params_D, n, hyper, instance)
        self.look(instance, n, dim)
        for grads_ND in run.grads_TND[:, :n]:
            self.step(instance, grads_ND)
        self.look(instance, n, dim)

    def load(self, instance: Any, data: bytes, n_workers: int) -> None:
        """Continue from a checkpoint on so many workers."""
        self._call("load", instance.load, data, n_workers)

    def _plain(self, what: str, array: Any, shape: tuple[int, ...]) -> Array:
        """The array, or its memory as a plain one: what a subclass makes of comparisons and sums is none of ours."""
        if not issubclass(type(array), np.ndarray):
            raise Misbehaved(f"{what} must be a NumPy array, got {type(array).__name__}")
        if issubclass(type(array), np.ma.MaskedArray):
            raise Misbehaved(f"{what} is a masked array: every element must be there")
        plain = array if type(array) is np.ndarray else np.ndarray.view(array, np.ndarray)
        if plain.shape != shape:
            raise Misbehaved(f"{what} must have shape {shape}, got {plain.shape}")
        if plain.dtype != self.traits.numpy_dtype:
            raise Misbehaved(f"{what} must be {self.traits.dtype}, got {plain.dtype}")
        return plain

    def _call(self, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.left < 0:
            raise OutOfTime
        began = time.monotonic()
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except NotImplementedError as error:
            raise Unsupported(said(error) or f"{self.name}.{method} is not implemented") from None
        except BaseException as error:
            if of_the_user(error):
                raise
            raise Misbehaved(f"{self.name}.{method} raised {type(error).__name__}: {said(error)}") from error
        finally:
            self.took.append(time.monotonic() - began)


def _items(outputs: Any) -> tuple[Any, ...] | None:
    """What a tuple holds; None: it is none."""
    return tuple(outputs) if isinstance(outputs, tuple) else None


def _unmasked(values: Any) -> Any:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError("a masked array: every element must be there")
    return values
