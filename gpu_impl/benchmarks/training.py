"""``onebit bench training``: whole iterations, ours beside DDP with fused AdamW, on N processes of this machine.

Every contestant takes an iteration in turn, again and again, in the same processes, so what disturbs the machine
disturbs all alike: the ratios are what counts. CPU time leaves out what a process waits for, the network too. An
iteration is zero_grad, forward, backward and step. The model is a dot product with fixed numbers: as little besides the
optimizer as there can be. In turn with them a buffer of as many numbers is read and written where it lies: by that
bandwidth the time of a step is told in bytes, beside those that it must move.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpu_impl.benchmarks.byte_floor import PUBLISHED, byte_floor
from gpu_impl.benchmarks.form import CompressOption, Form, FrozenDtypeOption, ScaleBlockOption
from gpu_impl.benchmarks.timing import environment
from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.optimizer.ddp import leave_gradients_local
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from gpu_impl.optimizer.one_bit_adam import OneBitAdam
from onebit_files import writable_file, write_atomically

FREEZE_STEP, BEFORE = 3, 6
"""Iterations before the clock starts: over the freeze."""

LAYOUTS: dict[str, tuple[int, int, int]] = {
    "one tensor of 1,000": (1, 1, 1000),
    "100 tensors of 1,000": (1, 100, 1000),
    "200 tensors of 1,000": (1, 200, 1000),
    "100 groups of 1,000": (100, 1, 1000),
    "4 tensors of 2,500,000": (1, 4, 2_500_000),
}
"""Parameter groups, tensors of each, elements of each."""

BASE = "DDP, fused AdamW"
HOOKED = "HookedOneBitAdam"
CONTESTANTS = (BASE, "OneBitAdam", "DDP, OneBitAdam", HOOKED)
IN_PLACE = "in place"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""

SHORTEST = 1e-9
"""Seconds; CPU time may stand still meanwhile."""


@dataclass(frozen=True)
class Iteration:
    """One contestant.

    Attributes:
        layout: of the model.
        n_workers: N.
        contestant: who.
        seconds: median of an iteration on rank 0; ``low`` and ``high`` are the 20 % and 80 % quantiles.
        ratio: of seconds, to DDP with fused AdamW in the same run.
        step_seconds: median of the call of ``step`` alone.
        step_ratio: the same of these.
        floor_bytes: bytes a parameter that ``step`` must move, the gradient's norm included; None where the exchange is
            part of the backward pass.
        spent_bytes: step_seconds in bytes a parameter, at the bandwidth of in-place traffic in the same run.
        compress, scale_block, frozen_dtype: the form that ours are timed in.
    """

    layout: str
    n_workers: int
    contestant: str
    seconds: float
    low: float
    high: float
    ratio: float
    step_seconds: float
    step_ratio: float
    floor_bytes: float | None
    spent_bytes: float
    compress: str
    scale_block: int | None
    frozen_dtype: str


class Dot(nn.Module):
    """Its gradients are fixed numbers, other ones on each worker."""

    def __init__(self, n_tensors: int, size: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.tensors = nn.ParameterList(torch.randn(size, generator=random) for _ in range(n_tensors))
        self.numbers = torch.randn(size, generator=torch.Generator().manual_seed(1 + dist.get_rank()))

    def forward(self) -> Tensor:
        """The sum of all products, ()."""
        return torch.stack([tensor @ self.numbers for tensor in self.tensors]).sum()


def contestant(
    name: str, layout: tuple[int, int, int], now: Callable[[], float] = perf_counter, form: Form = PUBLISHED
) -> Callable[[], float]:
    """A function that takes one iteration and gives the seconds of its ``step``."""
    n_groups, n_tensors, size = layout
    model = Dot(n_groups * n_tensors, size)
    params = list(model.parameters())
    groups: Any = [{"params": params[k * n_tensors : (k + 1) * n_tensors]} for k in range(n_groups)]
    module: nn.Module = model
    if name == BASE:
        module = DistributedDataParallel(model)
        optimizer: Any = torch.optim.AdamW(groups, lr=1e-6, fused=True)
    elif name != HOOKED:
        optimizer = OneBitAdam(groups, lr=1e-6, freeze_step=FREEZE_STEP, **form.as_dict())
        if name != "OneBitAdam":
            module = leave_gradients_local(DistributedDataParallel(model, gradient_as_bucket_view=True))
    else:
        optimizer = HookedOneBitAdam(groups, lr=1e-6, freeze_step=FREEZE_STEP, **form.as_dict())
        module = DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer.attach(module)

    def iteration() -> float:
        optimizer.zero_grad()
        module().backward()
        start = now()
        optimizer.step()
        return now() - start

    return iteration


def in_place(layout: tuple[int, int, int], now: Callable[[], float]) -> Callable[[], float]:
    """A function that reads and writes as many numbers as there are parameters, and gives the seconds."""
    target = flat_buffer(prod(layout))

    def call() -> float:
        start = now()
        target.mul_(1.0)
        return now() - start

    return call


def keep_freed_memory() -> None:
    """Let this process keep what it frees, where its C library is glibc.

    Else glibc gives the end of its heap back to the system: whose gradients lie there, be it by the order in which the
    contestants were made, has fresh pages in every iteration, and the others have not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(M_MMAP_THRESHOLD, 2**25)  # the highest that it takes


def race(
    layout: tuple[int, int, int], rounds: int, threads: int, cpu_time: bool, form: Form
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each iteration and of its step, by contestant; on one worker."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    now = process_time if cpu_time else perf_counter
    runners = {IN_PLACE: in_place(layout, now), **{name: contestant(name, layout, now, form) for name in CONTESTANTS}}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runners}
    for t in range(BEFORE + rounds):
        for name, iteration in runners.items():
            dist.barrier()
            start = now()
            step_seconds = iteration()
            if t >= BEFORE:
                times[name].append((now() - start, step_seconds))
    return times


def step_floor(who: str, n_workers: int, form: Form) -> float | None:
    """Bytes a parameter that a call of ``step`` must move."""
    if who == BASE:
        return byte_floor("adam", n_workers)
    if who == HOOKED:
        return None
    return byte_floor("gradient_norm", n_workers) + byte_floor("step", n_workers, form=form)


def measure(
    name: str, n_workers: int, rounds: int, threads: int = 1, *, cpu_time: bool = False, form: Form = PUBLISHED
) -> list[Iteration]:
    """One layout on ``n_workers`` processes."""
    with WorkerPool(n_workers, timeout=600.0) as pool:
        times = pool.call(race, LAYOUTS[name], rounds, threads, cpu_time, form)[0]
    steps = {who: statistics.median(step for _, step in rows) for who, rows in times.items()}
    bytes_a_second = byte_floor("scale_in_place", n_workers) / max(steps.pop(IN_PLACE), SHORTEST)
    whole = {who: sorted(seconds for seconds, _ in times[who]) for who in steps}
    medians = {who: statistics.median(rows) for who, rows in whole.items()}
    return [
        Iteration(
            layout=name,
            n_workers=n_workers,
            contestant=who,
            seconds=medians[who],
            low=rows[round(0.2 * (len(rows) - 1))],
            high=rows[round(0.8 * (len(rows) - 1))],
            ratio=medians[who] / medians[BASE],
            step_seconds=steps[who],
            step_ratio=steps[who] / steps[BASE],
            floor_bytes=step_floor(who, n_workers, form),
            spent_bytes=steps[who] * bytes_a_second,
            **form.as_dict(),
        )
        for who, rows in whole.items()
    ]


def training(
    workers: Annotated[list[int] | None, typer.Option(help="N; repeat for several. Default 1, 2 and 4.")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="Layout; repeat for several. Default: all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Timed iterations of each; the median counts.")] = 41,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each process.")] = 1,
    compress: CompressOption = "momentum",
    scale_block: ScaleBlockOption = None,
    frozen_dtype: FrozenDtypeOption = "float32",
    cpu_time: Annotated[
        bool, typer.Option("--cpu-time", help="Count the process's CPU time: for a machine that others use too.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write everything to this file.")
    ] = None,
) -> None:
    """Time whole iterations of training beside DistributedDataParallel with fused AdamW, and give the ratios."""
    n_list, names = workers or [1, 2, 4], layout or list(LAYOUTS)
    if min(n_list) < 1:
        raise typer.BadParameter(f"--workers must be at least 1, got {min(n_list)}")
    for name in names:
        if name not in LAYOUTS:
            raise typer.BadParameter(f"--layout must be one of {', '.join(LAYOUTS)}; got {name!r}")
    form = Form.from_options(compress, scale_block, frozen_dtype)
    console, rows, facts = Console(), list[Iteration](), environment(torch.device("cpu"))
    for name in names:
        for n in n_list:
            with console.status(f"{name}, N = {n}"):
                new = measure(name, n, rounds, threads, cpu_time=cpu_time, form=form)
            console.print(table_of(new, form))
            rows += new
            if json_file:  # after each, so that an interrupted run keeps what it has
                write_atomically(
                    json_file, json.dumps({"environment": facts, "rows": [asdict(row) for row in rows]}, indent=1)
                )


def table_of(rows: list[Iteration], form: Form) -> Table:
    """One layout and one N on screen."""
    title = f"{rows[0].layout}, N = {rows[0].n_workers}; {form}"
    columns = (
        "contestant",
        "iteration",
        "20 % to 80 %",
        "ratio",
        "step",
        "ratio",
        "floor B/parameter",
        "spent",
        "ratio",
    )
    table = Table(*columns, title=title)
    for row in rows:
        spread = f"{row.low * 1e3:.3f} to {row.high * 1e3:.3f}"
        times = (f"{row.seconds * 1e3:.3f} ms", spread, f"{row.ratio:.2f}")
        traffic = ("", "", "")
        if row.floor_bytes is not None:
            traffic = (f"{row.floor_bytes:.2f}", f"{row.spent_bytes:.1f}", f"{row.spent_bytes / row.floor_bytes:.2f}")
        table.add_row(row.contestant, *times, f"{row.step_seconds * 1e3:.3f} ms", f"{row.step_ratio:.2f}", *traffic)
    return table
