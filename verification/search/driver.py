"""Drives a class under test: calls it with copies, checks shapes and dtypes, turns what it raises into a sentence."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from verification.algorithms.base import array_names
from verification.protocol import Array, CommonHyper, Traits, levels
from verification.relation.finding import Misbehaved, OutOfTime, Unsupported
from verification.search.cases import Call, OtherRun


class Driver:
    """A class under test, its traits, and the calls that properties make; ``took``: the seconds of each."""

    def __init__(self, under_test: type) -> None:
        self.under_test = under_test
        self.name = under_test.__name__
        self.levels = levels(under_test)
        self.traits = Traits.of(under_test)
        self.deadline = math.inf
        self.took: list[float] = []

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
        return all(callable(getattr(self.under_test, name, None)) for name in ("save", "load"))

    def new(self) -> Any:
        """A new instance."""
        return self._call("__init__", self.under_test)

    def allreduce_in_place(self, instance: Any, inputs: Call) -> Call:
        """One call on the very arrays given."""
        n, dim = inputs[0].shape
        outputs = self._call("allreduce", instance.allreduce, *inputs)
        if not isinstance(outputs, tuple) or len(outputs) != 3:
            raise Misbehaved(f"{self.name}.allreduce must return (output_D, worker_errors_ND, server_error_D)")
        names = ("output_D", "worker_errors_ND", "server_error_D")
        for name, array, shape in zip(names, outputs, ((dim,), (n, dim), (dim,)), strict=True):
            self._check(f"{self.name}.allreduce: {name}", array, shape)
        return outputs

    def bytes_per_worker(self, instance: Any) -> Array | None:
        """What each worker says it sent in the last call; None: the class does not say."""
        method = getattr(instance, "bytes_per_worker", None)
        return np.asarray(self._call("bytes_per_worker", method)) if callable(method) else None

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
        """The very snapshot that was returned, its shapes checked, and a copy of it."""
        seen = self.raw_snapshot(instance, n, dim)
        kind = self.traits.checked_as.snapshot
        copies = {name: getattr(seen, name).copy() for name in array_names(kind)}
        return seen, kind(**copies, step=int(seen.step))

    def raw_snapshot(self, instance: Any, n: int, dim: int) -> Any:
        """The very arrays that ``snapshot()`` returned, their shapes checked."""
        seen = self._call("snapshot", instance.snapshot)
        for name in array_names(self.traits.checked_as.snapshot):
            if not hasattr(seen, name):
                raise Misbehaved(f"{self.name}.snapshot has no {name}")
            self._check(
                f"{self.name}.snapshot: {name}", getattr(seen, name), (n, dim) if name.endswith("_ND") else (dim,)
            )
        if not isinstance(getattr(seen, "step", None), int | np.integer):
            raise Misbehaved(f"{self.name}.snapshot: step must be an integer")
        return seen

    def save(self, instance: Any) -> bytes:
        """A checkpoint."""
        data = self._call("save", instance.save)
        if not isinstance(data, bytes):
            raise Misbehaved(f"{self.name}.save must return bytes, got {type(data).__name__}")
        return data

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

    def _check(self, what: str, array: Any, shape: tuple[int, ...]) -> None:
        if not isinstance(array, np.ndarray):
            raise Misbehaved(f"{what} must be a NumPy array, got {type(array).__name__}")
        if array.shape != shape:
            raise Misbehaved(f"{what} must have shape {shape}, got {array.shape}")
        if array.dtype != self.traits.numpy_dtype:
            raise Misbehaved(f"{what} must be {self.traits.dtype}, got {array.dtype}")

    def _call(self, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        if time.monotonic() > self.deadline:
            raise OutOfTime
        began = time.monotonic()
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except NotImplementedError as error:
            raise Unsupported(_said(error) or f"{self.name}.{method} is not implemented") from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise Misbehaved(f"{self.name}.{method} raised {type(error).__name__}: {_said(error)}") from error
        finally:
            self.took.append(time.monotonic() - began)


def _said(error: BaseException) -> str:
    """The first line of its message; an exception may fail to say it."""
    try:
        return (str(error).splitlines() or [""])[0]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "(its message can't be read)"
