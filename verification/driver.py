"""Drives a class under test: calls it with copies, checks shapes and dtypes, turns what it raises into a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from verification.cases import CollectiveCase, OptimizerCase
from verification.finding import Misbehaved, Unsupported
from verification.protocol import ARRAYS, Array, Hyper, Snapshot, Traits, levels

Round = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Transition:
    """One operation of a run: the state before, what was done, the state after."""

    before: Snapshot
    operation: str
    grads_ND: Array | None
    after: Snapshot


class Driver:
    """A class under test, its traits, and the calls that properties make."""

    def __init__(self, under_test: type) -> None:
        self.under_test = under_test
        self.name = under_test.__name__
        self.levels = levels(under_test)
        self.traits = Traits.of(under_test)

    @property
    def can_save(self) -> bool:
        """Whether it has both save() and load()."""
        return all(callable(getattr(self.under_test, name, None)) for name in ("save", "load"))

    def new(self) -> Any:
        """A new instance."""
        return self._call("__init__", self.under_test)

    def allreduce(self, instance: Any, inputs: Round) -> Round:
        """One call on copies of ``inputs``; the outputs are checked, not copied."""
        return self.allreduce_in_place(instance, tuple(array.copy() for array in inputs))  # pyright: ignore[reportArgumentType]

    def allreduce_in_place(self, instance: Any, inputs: Round) -> Round:
        """One call on the very arrays given."""
        n, dim = inputs[0].shape
        outputs = self._call("allreduce", instance.allreduce, *inputs)
        if not isinstance(outputs, tuple) or len(outputs) != 3:
            raise Misbehaved(f"{self.name}.allreduce must return (output_D, worker_errors_ND, server_error_D)")
        names = ("output_D", "worker_errors_ND", "server_error_D")
        for name, array, shape in zip(names, outputs, ((dim,), (n, dim), (dim,)), strict=True):
            self._check(f"{self.name}.allreduce: {name}", array, shape)
        return outputs

    def outputs(self, case: CollectiveCase) -> Iterator[tuple[Round, Round]]:
        """(inputs, outputs) of the calls of ``case``, all on one new instance."""
        self._check_workers(case.n_workers)
        instance = self.new()
        for inputs in case.rounds:
            yield inputs, self.allreduce(instance, inputs)

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> Any:
        """A new instance, started."""
        instance = self.new()
        self.start_in_place(instance, params_D.copy(), n_workers, hyper)
        return instance

    def start_in_place(self, instance: Any, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        """Start with the very array given."""
        self._check_workers(n_workers)
        self._call("start", instance.start, params_D, n_workers, hyper)

    def step(self, instance: Any, grads_ND: Array) -> None:
        """One step on a copy of the gradients."""
        self.step_in_place(instance, grads_ND.copy())

    def step_in_place(self, instance: Any, grads_ND: Array) -> None:
        """One step on the very array given."""
        self._call("step", instance.step, grads_ND)

    def snapshot(self, instance: Any, n: int, dim: int) -> Snapshot:
        """The state as reported, its shapes checked, copied."""
        seen = self.raw_snapshot(instance, n, dim)
        return Snapshot(**{name: getattr(seen, name).copy() for name in ARRAYS}, step=int(seen.step))

    def raw_snapshot(self, instance: Any, n: int, dim: int) -> Snapshot:
        """The very arrays that ``snapshot()`` returned, their shapes checked."""
        seen = self._call("snapshot", instance.snapshot)
        for name, shape in zip(ARRAYS, ((n, dim), (dim,), (dim,), (n, dim), (dim,)), strict=True):
            if not hasattr(seen, name):
                raise Misbehaved(f"{self.name}.snapshot has no {name}")
            self._check(f"{self.name}.snapshot: {name}", getattr(seen, name), shape)
        if not isinstance(getattr(seen, "step", None), int | np.integer):
            raise Misbehaved(f"{self.name}.snapshot: step must be an integer")
        return seen

    def reloaded(self, instance: Any, case: OptimizerCase, n_workers: int) -> Any:
        """A new instance that continues where ``instance`` stands, on ``n_workers`` workers, from a checkpoint."""
        data = self._call("save", instance.save)
        if not isinstance(data, bytes):
            raise Misbehaved(f"{self.name}.save must return bytes, got {type(data).__name__}")
        # the parameters given here are wrong on purpose: they must come from the checkpoint
        fresh = self.start(np.zeros_like(case.params_D), n_workers, case.hyper)
        self._call("load", fresh.load, data, n_workers)
        return fresh

    def transitions(self, case: OptimizerCase) -> Iterator[Transition]:
        """Run the program of ``case``, one transition an operation."""
        n, dim, taken = case.n_workers, case.dim, 0
        instance = self.start(case.params_D, n, case.hyper)
        state = self.snapshot(instance, n, dim)
        for operation in case.operations:
            before, grads_ND = state, None
            if operation == "step":
                grads_ND = case.grads_TND[taken][[i if i < case.n_workers else 0 for i in range(n)]]
                taken += 1
                self.step(instance, grads_ND)
            else:
                if operation.startswith("resize"):
                    n = int(operation.split()[1])
                instance = self.reloaded(instance, case, n)
            state = self.snapshot(instance, n, dim)
            yield Transition(before, operation, grads_ND, state)

    def _check_workers(self, n_workers: int) -> None:
        if self.traits.workers is not None and n_workers not in self.traits.workers:
            raise Unsupported(f"{self.name} is driven with {' or '.join(map(str, self.traits.workers))} workers only")

    def _check(self, what: str, array: Any, shape: tuple[int, ...]) -> None:
        if not isinstance(array, np.ndarray):
            raise Misbehaved(f"{what} must be a NumPy array, got {type(array).__name__}")
        if array.shape != shape:
            raise Misbehaved(f"{what} must have shape {shape}, got {array.shape}")
        if array.dtype != self.traits.numpy_dtype:
            raise Misbehaved(f"{what} must be {self.traits.dtype}, got {array.dtype}")

    def _call(self, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except NotImplementedError as error:
            raise Unsupported(str(error) or f"{self.name}.{method} is not implemented") from None
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise Misbehaved(f"{self.name}.{method} raised {type(error).__name__}: {reason}") from error
