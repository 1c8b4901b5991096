"""The state of a run: everything an optimizer remembers between two steps, for all workers, in one frozen record."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from reference import arguments
from reference.arithmetic import Array, finite, is_exact
from reference.error_feedback import Mask

CHECKPOINT_FORMAT = "onebit-reference-state-4"
EARLIER_FORMAT = "onebit-reference-state-3"
"""Without ``form``: of what the arrays mean nothing can be checked."""
END, END_BYTES = b"PK\x05\x06", 22
"""How the last record of a ZIP file without a comment begins, and its length."""
SLOT = "slot:"
"""What the names of slots begin with in a checkpoint."""


@dataclass(frozen=True)
class State:
    """State after ``step`` applied steps. Arrays are read-only views: a step makes new ones and changes none.

    Attributes:
        params: x (D,), identical on all workers [L6].
        momentum: m-bar (D,), shared by all workers; after the freeze the decoded server message [L5]. With
            ``compress="update"`` it is y-bar = P m-bar from the freeze on, and the errors are in its units [C12].
        variance: v (D,); frozen after step T_w [L4]. Zero for optimizers without one.
        worker_errors: delta_i (N, D), one row a worker.
        server_error: delta-bar (D,), chunk j lives on worker j [C3].
        step: applied steps t; a skipped step does not count [C8].
        frozen_at: T_w once the variance is frozen, None during warm-up; of 0/1 Adam the step of the last refresh of v.
        skipped_steps: steps skipped because a gradient was not finite [C8].
        ignored_gradients: how often a non-zero gradient arrived at a zero-variance coordinate and was not applied [C6].
        bytes_on_wire: bytes sent so far by all workers together.
        rounds: collective exchanges so far, in each of which every worker waits for the others.
        variance_norms: the last norms ||v||_1, one a step, oldest first, of every array; kept only while a rule decides
            when to freeze [C10].
        slots: what one algorithm alone remembers, name -> array. A name carries its axes: ``momentum_ND`` is (N, D),
            one row a worker, and such a slot is resized with the workers.
        form: what the arrays depend on, as the optimizer that made them says it (``reference.optimizers.form``), name
            -> value. One that would take them for something else refuses the state; without an entry nothing is asked.
    """

    params: Array
    momentum: Array
    variance: Array
    worker_errors: Array
    server_error: Array
    step: int = 0
    frozen_at: int | None = None
    skipped_steps: int = 0
    ignored_gradients: int = 0
    bytes_on_wire: int = 0
    rounds: int = 0
    variance_norms: tuple[tuple[float, ...], ...] = ()
    slots: Mapping[str, Array] = field(default_factory=dict)
    form: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ARRAYS:
            object.__setattr__(self, name, _read_only(getattr(self, name)))
        object.__setattr__(self, "slots", {name: _read_only(array) for name, array in self.slots.items()})

    def with_slots(self, **arrays: Array) -> State:
        """This state with new contents of the slots that are named."""
        return replace(self, slots={**self.slots, **arrays})

    @property
    def n_workers(self) -> int:
        """N."""
        return len(self.worker_errors)

    @property
    def total_error(self) -> Array:
        """Delta = mean_i delta_i + delta_bar (D,): all that was compressed away and not yet sent."""
        return self.worker_errors.sum(axis=0) / self.n_workers + self.server_error

    @cached_property
    def live(self) -> Mask | None:
        """Mask of what is compressed (D,) once frozen: all but zero-variance coordinates, v = 0 [C6], and
        those whose v has overflowed, for P is 0 there and no message could move them. None while that is all.
        """
        if self.frozen_at is None:
            return None
        live_D = live_in(self.variance)
        return None if live_D.all() else live_D


def _read_only(array: Array) -> Array:
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def live_in(variance_D: Array) -> Mask:
    """Where v > 0 and has not overflowed (D,)."""
    return np.asarray(variance_D > 0, dtype=np.bool_) & finite(variance_D)


ARRAYS = ("params", "momentum", "variance", "worker_errors", "server_error")


def save(state: State) -> bytes:
    """Serialise every worker's errors and every server chunk with the rest: resume is bitwise exact [C11, L9].

    Raises:
        TypeError: the state holds Fractions (an exact run is for tests, it has no checkpoint format).
    """
    if is_exact(state.params):
        raise TypeError("a state of Fractions cannot be saved: convert it to float64 first")
    scalars = {f.name: getattr(state, f.name) for f in fields(State) if f.name not in (*ARRAYS, "slots", "form")}
    scalars["frozen_at"] = -1 if state.frozen_at is None else state.frozen_at
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: getattr(state, name) for name in ARRAYS}
    arrays |= {SLOT + name: array for name, array in state.slots.items()}
    scalars |= {"format": CHECKPOINT_FORMAT, "form": json.dumps(dict(state.form))}
    np.savez(buffer, slots=np.array(sorted(state.slots)), **arrays, **scalars)
    return buffer.getvalue()


def load(data: bytes) -> State:
    """The state that :func:`save` wrote.

    Raises:
        ValueError: ``data`` is damaged, truncated or not one of our checkpoints.
    """
    try:
        buffer = io.BytesIO(data)
        with zipfile.ZipFile(buffer) as whole:
            first = min((one.header_offset for one in whole.infolist()), default=0)
        if first or buffer.getvalue()[-END_BYTES:][: len(END)] != END:
            raise ValueError("there is something before or behind it")
        buffer.seek(0)
        with np.load(buffer, allow_pickle=False) as stored:
            values = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        raise ValueError(f"this is not a readable checkpoint (damaged or truncated): {error}") from None
    slots = {name.removeprefix(SLOT): values.pop(name) for name in list(values) if name.startswith(SLOT)}
    found = str(values.pop("format", ""))
    if found == EARLIER_FORMAT:
        values.setdefault("form", np.array("{}"))
    if found not in (CHECKPOINT_FORMAT, EARLIER_FORMAT) or set(values) != {f.name for f in fields(State)}:
        raise ValueError(f"this is not a checkpoint of this package: format {CHECKPOINT_FORMAT!r} expected")
    if sorted(slots) != (named := values.pop("slots").tolist()):
        raise ValueError(f"this checkpoint is damaged: it must hold {', '.join(named)}")
    form = _form_in(str(values.pop("form")))
    numbers = {name: int(value) for name, value in values.items() if value.ndim == 0}
    frozen_at = numbers.pop("frozen_at")
    norms = tuple(tuple(map(float, row)) for row in values.pop("variance_norms"))
    arrays = {name: values[name] for name in ARRAYS}
    frozen_at = None if frozen_at < 0 else frozen_at
    return replace(State(**arrays), **numbers, frozen_at=frozen_at, variance_norms=norms, slots=slots, form=form)


def _form_in(text: str) -> dict[str, Any]:
    """The form that :func:`save` wrote: lists were tuples."""

    def as_tuples(value: Any) -> Any:
        return tuple(map(as_tuples, value)) if isinstance(value, list) else value

    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"this checkpoint is damaged: its form is {text[:80]!r}")
    return {name: as_tuples(value) for name, value in found.items()}


def resize(state: State, n_workers: int) -> State:
    """The same run on another number of workers, N -> N' [C11].

    Each new delta_i is the mean of the old ones, so Delta = mean_i delta_i + delta_bar is conserved [L9, theorem T9];
    delta_bar keeps its values, and the chunks are cut anew. So is each row of a slot that has one for every worker; of
    whole numbers, such as ages, it is the largest.

    Raises:
        ValueError: ``n_workers`` < 1.
    """
    arguments.integer("n_workers", n_workers)
    if n_workers == state.n_workers:
        return state

    def means(rows_ND: Array) -> Array:
        if rows_ND.dtype.kind == "i":
            return np.repeat(rows_ND.max(axis=0, keepdims=True), n_workers, axis=0)
        wide = np.result_type(rows_ND.dtype, np.float64)  # in float32 the sum of two large momenta may overflow
        mean_D = (rows_ND.sum(axis=0, dtype=wide) / state.n_workers).astype(rows_ND.dtype)
        return np.tile(mean_D, (n_workers, *[1] * mean_D.ndim))

    slots = {name: means(array) if per_worker(name) else array for name, array in state.slots.items()}
    return replace(state, worker_errors=means(state.worker_errors), slots=slots)


def per_worker(slot: str) -> bool:
    """Whether the slot of this name has a row for every worker: its axes begin with N."""
    return slot.rpartition("_")[2].startswith("N")
