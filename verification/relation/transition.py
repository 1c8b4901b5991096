"""What every step relation shares: which clauses apply, that steps count, that skips change nothing, equal replicas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from verification.algorithms.base import array_names
from verification.protocol import Array, Scale, Traits
from verification.relation.advice import Hint, advice, arithmetic
from verification.relation.claims import equal, near
from verification.relation.finding import Finding, NotJudged, explained, judge

Floats = NDArray[np.float64]
Found = Iterator[Finding]
Indices = NDArray[np.intp]

DECLARATIONS = (
    arithmetic("complement", "subtracted", "1 - beta comes from the rounded beta"),
    arithmetic("correction", "float32", "1 - beta^t is formed in float32"),
)


def same_bits(a: Array, b: Array) -> bool:
    """Bitwise equality: +0.0 and -0.0 differ, a NaN equals itself."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


@dataclass(frozen=True)
class Transition(ABC):
    """One optimizer step as a relation between the implementation's own state before and after it.

    The oracle starts from the state that the implementation itself reported, so it is re-synchronised at every step and
    rounding never accumulates: trajectories of two correct float32 implementations drift apart, single steps don't.

    Attributes:
        before, after: snapshots of the algorithm.
        grads_ND: gradients (N, D).
        exact: no operation of the compression round rounds, so its tolerances are zero.
    """

    before: Any
    grads_ND: Array
    after: Any
    hyper: Any
    traits: Traits
    exact: bool = False

    @property
    def t(self) -> int:
        """Number of this step, from 1."""
        return self.before.step + 1

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.grads_ND).all())

    def findings(self, judged: set[str] | None = None, *, advises: bool = True) -> list[Finding]:
        """What does not hold; each names the step. ``judged`` collects the clauses that had something to say."""
        found = self._found(set() if judged is None else judged)
        arrays = {f"after.{name}": getattr(self.after, name) for name in array_names(self.after)}
        said = explained(found, arrays, self._advice() if found and advises else ())
        return [replace(one, message=f"step {self.t}: {one.message}") for one in said]

    def _found(self, judged: set[str]) -> list[Finding]:
        if not self.finite:
            return judge(self, ("skip",), judged)
        if self.left_out:
            return judge(self, ("count",), judged)
        return self.applied(judged)

    @abstractmethod
    def applied(self, judged: set[str]) -> list[Finding]:
        """What does not hold of a step that was done."""

    @cached_property
    def left_out(self) -> bool:
        """Whether the step was not done at all: no number changed, not even its count."""
        return self.after.step == self.before.step and not list(self.unchanged("", "", array_names(self.before)))

    def _advice(self) -> tuple[Hint, ...]:
        """The declarations with which nothing is found."""
        if not self.finite or self.left_out:
            return ()
        hints = []
        for hint in DECLARATIONS:
            other: Self = replace(self, traits=hint.of(self.traits))
            if other.traits != self.traits and not other._found(set()):
                hints.append(hint)
        return (*hints, *advice(self.hyper.scale, self.traits, self._holds, self.grads_ND.shape))

    def _holds(self, scale: Scale, traits: Traits) -> bool:
        """Whether nothing is found with another scale and other chunks."""
        return not replace(self, hyper=replace(self.hyper, scale=scale), traits=traits)._found(set())

    def unchanged(self, law: str, clause: str, names: Sequence[str], because: str = "") -> Found:
        """These arrays are bitwise as before; the first one that is not."""
        for name in names:
            arrays = getattr(self.before, name), getattr(self.after, name)
            if not same_bits(*arrays):
                claim = equal(f"after.{name}", f"before.{name}", *arrays)
                yield Finding(law, clause, f"{because}{_went(name, *arrays)}", claim)
                return

    def skip(self) -> Found:
        """NaN or Inf on any worker: nothing changes, on any worker [C8]."""
        if self.after.step != self.before.step:
            message = "a gradient is not finite, but the step was counted"
            yield Finding("C8", "skip", message, "after.step == before.step")
        yield from self.unchanged("C8", "skip", array_names(self.before), "a gradient is not finite, but ")

    def count(self) -> Found:
        """Steps count from 1, one at a time."""
        message, claim = f"the state after it says step {self.after.step}", f"after.step == {self.t}"
        if self.left_out:
            message = "it was left out, as if a gradient were not finite: they all are"
        if self.left_out or self.after.step != self.t:
            yield Finding("C8", "count", message, claim)

    def replicas(self) -> Found:
        """x is bitwise equal on all workers [L6]."""
        if len(self.after.params_ND) == 1:
            raise NotJudged
        yield from self.equal_rows("params_ND", "L6", "replicas")

    def equal_rows(self, name: str, law: str, clause: str) -> Found:
        """An array is bitwise equal on all workers; the first worker that differs from worker 0."""
        rows_ND = getattr(self.after, name)
        for i in range(1, len(rows_ND)):
            if not same_bits(rows_ND[i], rows_ND[0]):
                k, symbol = int(np.argmax(rows_ND[i] != rows_ND[0])), SYMBOLS[name]
                message = f"worker {i} has {symbol}[{k}] = {rows_ND[i, k]:.9g}, worker 0 has {rows_ND[0, k]:.9g}"
                claim = equal(f"after.{name}[{i}]", f"after.{name}[0]", rows_ND[i], rows_ND[0])
                yield Finding(law, clause, message, claim)
                return

    def still(self, dead_D: NDArray[np.bool_], *names: str) -> Found:
        """A zero-variance coordinate is not updated and does not decay [C6]: it is as before in one of these arrays."""
        if not dead_D.any():
            raise NotJudged
        after_ND = self.after.params_ND
        before_AND = [np.broadcast_to(getattr(self.before, name), after_ND.shape) for name in names]
        moved_ND = np.logical_and.reduce([after_ND != before_ND for before_ND in before_AND]) & dead_D
        for i, k in np.argwhere(moved_ND)[:1]:
            places = (f"{name}.item({i}, {k})" if name.endswith("_ND") else f"{name}.item({k})" for name in names)
            yield Finding(
                "C6",
                "dead_params",
                f"element {k} has zero variance, but x[{k}] went from {before_AND[-1][i, k]:.9g} to "
                f"{after_ND[i, k]:.9g}",
                " or ".join(f"after.params_ND.item({i}, {k}) == before.{place}" for place in places),
            )


def started(start: Any, params_D: Array, at_start: Mapping[str, float]) -> Found:
    """A run starts at its parameters, before step 1, and everything else is 0, or what ``at_start`` says.

    Args:
        start: the state that ``start()`` left.
        params_D: what it was given.
        at_start: arrays of the state -> their numbers, where those are not 0.
    """
    if start.step != 0:
        yield Finding("protocol", "start", f"start() leaves a state of step {start.step}", "before.step == 0")
    for name in array_names(start):
        got = getattr(start, name)
        wanted = params_D if SYMBOLS[name] == "x" else np.full_like(params_D, at_start.get(name, 0.0))
        expected, exactly = np.broadcast_to(wanted, got.shape).astype(np.float64), np.zeros(got.shape)
        for one in differs("protocol", "start", name, got, expected, exactly):
            message, claim = f"start() leaves a state in which {one.message}", one.claim.replace("after.", "before.")
            yield replace(one, message=message, claim=claim)


SYMBOLS = {
    "params_ND": "x",
    "shared_D": "x",
    "momentum_D": "m",
    "momentum_ND": "m",
    "accumulated_ND": "u",
    "variance_D": "v",
    "worker_errors_ND": "error",
    "server_error_D": "server error",
    "trust_mean_D": "c-bar",
    "layer_scale_D": "s",
    "fresh_variance_D": "v'",
    "ratio_D": "r",
}


def differs(
    law: str,
    clause: str,
    name: str,
    got: Array,
    expected: Floats,
    tolerance: Floats,
    elements: Indices | None = None,
) -> Found:
    """The first element of (D,) or (N, D) that is not what it must be; ``elements`` number those of D."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(got - expected) <= tolerance)
    for where in np.argwhere(wrong)[:1]:
        at, k = tuple(where), where[-1] if elements is None else elements[where[-1]]
        worker = f"worker {where[0]}: " if len(where) == 2 else ""
        place = f"{where[0]}, {k}" if len(where) == 2 else f"0, {k}" if name.endswith("_ND") else f"{k}"
        error = abs(got[at] - expected[at])
        yield Finding(
            law,
            clause,
            f"{worker}{SYMBOLS[name]}[{k}] is {got[at]:.9g}, must be {expected[at]:.9g}, off by {error:.2g}, "
            f"tolerance {tolerance[at]:.2g}",
            near(f"after.{name}.item({place})", expected[at], tolerance[at]),
        )


def _went(name: str, one: Array, other: Array) -> str:
    """The first element in which two arrays differ, with its numbers; the name alone where shapes or signs do."""
    if one.shape != other.shape or not (one != other).any():
        return f"{name} changed"
    at = tuple(int(k) for k in np.argwhere(one != other)[0])
    return f"{name} changed: {SYMBOLS.get(name, name)}[{at[-1]}] went from {one[at]:.9g} to {other[at]:.9g}"
