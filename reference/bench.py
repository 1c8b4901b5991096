"""``onebit bench reference``: what one compressed step of the NumPy reference costs, for each number of workers.

Times are processor time: the reference has one thread, so on an idle machine that is the time, and on a busy one it
still is the reference's own. They stand beside one ``numpy.add(a, b, out=c)`` over N x D float32, which moves 12 N D
bytes: so many adds, however fast the machine is.
"""

from __future__ import annotations

import json
import platform
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from onebit_files import writable_file, write_atomically
from reference.allreduce import chunk_slices, dense_allreduce_bytes
from reference.compressors.base import SCALAR_BYTES
from reference.compressors.scaled_sign import SCALES
from reference.optimizers.one_bit_adam import OneBitAdam
from reference.state import ARRAYS


@dataclass(frozen=True)
class ReferenceCost:
    """What was measured of a compressed step of all N simulated workers.

    Attributes:
        n_workers: N.
        dim: D.
        scale: "l1" or "l2" [C1].
        repeats: of what was timed; the times are medians, in seconds.
        add_seconds: one add over N x D.
        step_seconds: one step.
        temporaries: what a step allocates beside the next state, in units of one N x D array.
        memory_bytes: a worker's share of everything: two states, the gradients, and the temporaries.
        wire_bytes: that a worker sends, mean over the workers.
        chunks: of the all-reduce that are not empty [C3].
        scales: that a worker sends, mean over the workers.
        saving: how many times more a ring all-reduce in float32 sends.
        numpy: its version.
        machine: the platform.
    """

    n_workers: int
    dim: int
    scale: str
    repeats: int
    add_seconds: float
    step_seconds: float
    temporaries: float
    memory_bytes: float
    wire_bytes: float
    chunks: int
    scales: float
    saving: float
    numpy: str
    machine: str

    @property
    def nanoseconds(self) -> float:
        """Of a step, for a worker and element."""
        return 1e9 * self.step_seconds / self.n_workers / self.dim

    @property
    def multiple(self) -> float:
        """Time of a step over time of an add."""
        return self.step_seconds / self.add_seconds


def median_seconds(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median time of each of ``calls``, made in turn, A B C A B C ..., so that a machine's moods meet all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats + 1):
        for call, own in zip(calls, times, strict=True):
            start = process_time()
            call()
            own.append(process_time() - start)
    return [float(np.median(own[1:])) for own in times]  # the first round warms up


def measure_reference(n_workers: int = 8, dim: int = 10**5, scale: str = "l2", repeats: int = 9) -> ReferenceCost:
    """Measure one compressed step and the add, in turn, and count what the step allocates and sends."""
    grads_ND = np.random.default_rng(0).standard_normal((n_workers, dim), np.float32)
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1, scale=scale)
    state = optimizer.step(optimizer.init(grads_ND[0], n_workers), grads_ND)  # the warm-up: from here on v is frozen

    tracemalloc.start()
    after = optimizer.step(state, grads_ND)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    state_bytes = sum(getattr(state, name).nbytes for name in ARRAYS)
    sent_bytes = after.bytes_on_wire - state.bytes_on_wire
    bits_bytes = 2 * (n_workers - 1) * -(-dim // 8)

    out_ND = np.empty_like(grads_ND)
    add_seconds, step_seconds = median_seconds(
        [lambda: np.add(after.worker_errors, grads_ND, out=out_ND), lambda: optimizer.step(after, grads_ND)], repeats
    )
    return ReferenceCost(
        n_workers=n_workers,
        dim=dim,
        scale=scale,
        repeats=repeats,
        add_seconds=add_seconds,
        step_seconds=step_seconds,
        temporaries=(peak - kept) / grads_ND.nbytes,
        memory_bytes=(state_bytes + grads_ND.nbytes + peak) / n_workers,
        wire_bytes=sent_bytes / n_workers,
        chunks=sum(chunk.start < chunk.stop for chunk in chunk_slices(dim, n_workers)),
        scales=(sent_bytes - bits_bytes) / SCALAR_BYTES / n_workers,
        saving=dense_allreduce_bytes(dim, n_workers) / max(1, sent_bytes),
        numpy=np.__version__,
        machine=platform.platform(),
    )


WORKERS = (8, 128, 512, 1024)
COLUMNS = ("scale", "N", "ns", "adds", "temp", "MB", "kB sent", "fewer", "chunks", "scales")
LEGEND = (
    "for a worker. ns: processor time for an element; adds: the same over one numpy.add(a, b, out=c), 12 are the aim; "
    "temp: N x D arrays beside the next state, 2 are the aim; MB: memory; fewer: bytes than a float32 ring"
)


def reference(
    workers: Annotated[list[int] | None, typer.Option(min=1, help="N; repeat. Default 8, 128, 512, 1024.")] = None,
    dim: Annotated[int, typer.Option(min=1, help="D, parameters.")] = 10**5,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the measurements to this file.")
    ] = None,
) -> None:
    """What a compressed step of the NumPy reference costs, for each number of workers; 1,024 take 2 GB of memory."""
    costs = [measure_reference(n_workers, dim, scale) for scale in SCALES for n_workers in workers or WORKERS]
    table = Table(*COLUMNS, title=f"a compressed step of the reference, D = {dim:,}", caption=LEGEND, box=SIMPLE)
    for column in table.columns[1:]:
        column.justify = "right"
    for cost in costs:
        table.add_row(
            cost.scale,
            f"{cost.n_workers:,}",
            f"{cost.nanoseconds:.1f}",
            f"{cost.multiple:.1f}",
            f"{cost.temporaries:.2f}",
            f"{cost.memory_bytes / 1e6:.2f}",
            f"{cost.wire_bytes / 1e3:,.1f}",
            f"{cost.saving:.1f}",
            f"{cost.chunks:,}",
            f"{cost.scales:,.0f}",
        )
    Console().print(table)
    if json_file:
        rows = [{**asdict(cost), "nanoseconds": cost.nanoseconds, "multiple": cost.multiple} for cost in costs]
        write_atomically(json_file, json.dumps(rows, indent=1))
