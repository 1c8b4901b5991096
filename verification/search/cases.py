"""The inputs of a check, as plain arrays: what is simplified, printed and run again."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from onebit_files import counted
from verification.protocol import Array, CommonHyper, Traits
from verification.search.covering import Row

Call = tuple[Array, Array, Array]
"""(buffers_ND, worker_errors_ND, server_error_D)."""


@dataclass(frozen=True, repr=False)
class CollectiveCase:
    """Calls of a collective, on one instance.

    Attributes:
        calls: inputs of each.
        layout: how the arrays lie in memory (``layouts.py``).
        factor: the last call is made again with everything times this [L7]; 1: it is not.
        exact: dyadic inputs, on which no operation rounds.
    """

    calls: tuple[Call, ...]
    layout: str = "contiguous"
    factor: float = 1.0
    exact: bool = False

    @property
    def n_workers(self) -> int:
        return self.calls[-1][0].shape[0]

    @property
    def dim(self) -> int:
        return self.calls[-1][0].shape[1]

    def __repr__(self) -> str:
        return f"N={self.n_workers}, D={self.dim}, {counted(len(self.calls), 'call')}, {self.layout}"


@dataclass(frozen=True, repr=False)
class OtherRun:
    """Another run, of steps alone: before the one of a case on its instance, beside it, or where it is loaded.

    Attributes:
        params_D: where it starts; its D may be another one.
        grads_TND: gradients of its steps; some may not be finite. There may be none.
        n_workers: N.
        hyper: hyper-parameters; None: those of the case.
    """

    params_D: Array
    grads_TND: Array
    n_workers: int
    hyper: CommonHyper | None = None


@dataclass(frozen=True, repr=False)
class OptimizerCase:
    """A run of an optimizer.

    Attributes:
        params_D: where it starts.
        grads_TND: gradients of the steps, in order, with a row for every worker that there ever is.
        n_workers: N at the start.
        hyper: hyper-parameters.
        program: what is done, in order: "step"; "save" (and nothing is loaded); "reload" (save, then load into a new
            instance); "reload used" (into one that has done ``target``); "roll back" (save, step, load into the same
            instance); "resize 3" (load on three workers), "resize 3 used" (where ``target`` ran on others).
        unseen: numbers of the operations after which no snapshot is taken.
        begin: "new"; "used": the instance has done ``other`` before; "beside": ``other`` goes on beside it, its
            gradients again and again.
        layout: how parameters and gradients lie in memory (``layouts.py``).
        exact: dyadic inputs, on which no operation of a compression round rounds.
        other: see ``begin``.
        target: what the instance has done into which the run is loaded; with the hyper-parameters and D of the case.
    """

    params_D: Array
    grads_TND: Array
    n_workers: int
    hyper: CommonHyper
    program: tuple[str, ...]
    unseen: frozenset[int] = field(default=frozenset())
    begin: str = "new"
    layout: str = "contiguous"
    exact: bool = False
    other: OtherRun | None = None
    target: OtherRun | None = None

    @property
    def dim(self) -> int:
        return self.params_D.size

    def __repr__(self) -> str:
        program = ", ".join(self.program) if len(self.program) < 12 else f"{len(self.program)} operations"
        return f"N={self.n_workers}, D={self.dim}, {self.layout}, {program}, {self.hyper}"


Case = CollectiveCase | OptimizerCase

Maker = Callable[[], Case]
"""Makes a case, the same one each time."""


def always(case: Case) -> Case:
    """The case itself, for a maker."""
    return case


def anew(
    make: Callable[[Row, Traits, np.random.Generator], Case], row: Row, traits: Traits, rng: np.random.Generator
) -> Case:
    """The case of a row, for a maker: the generator stays as it is, so that the next call makes the same."""
    return make(row, traits, deepcopy(rng))


def elements(case: Case) -> int:
    """Numbers in all its inputs."""
    if isinstance(case, CollectiveCase):
        return sum(array.size for inputs in case.calls for array in inputs)
    others = [run for run in (case.other, case.target) if run is not None]
    return case.params_D.size + case.grads_TND.size + sum(run.params_D.size + run.grads_TND.size for run in others)


def kind(operation: str) -> str:
    """The operation without its number of workers: "resize 3 used" is a "resize used"."""
    return " ".join(word for word in operation.split() if not word.isdigit())


def workers_after(operation: str, n: int) -> int:
    """The number of workers after an operation on ``n``."""
    return int(operation.split()[1]) if operation.startswith("resize") else n


def most_workers(n_workers: int, program: tuple[str, ...]) -> int:
    """The largest number of workers that a program ever has."""
    return max(n_workers, *(workers_after(operation, 0) for operation in program), 0)


def trimmed(case: OptimizerCase) -> OptimizerCase:
    """The case without gradients that no step uses."""
    steps, rows = case.program.count("step"), most_workers(case.n_workers, case.program)
    return OptimizerCase(**{**vars(case), "grads_TND": np.ascontiguousarray(case.grads_TND[:steps, :rows])})
