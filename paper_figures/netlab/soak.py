"""Training through bad weather: packet loss, delay spikes and links that go down, and what must hold meanwhile.

    onebit netlab soak                 # half an hour
    onebit netlab soak --minutes 1

Every few steps the state of all workers is looked at: 1-bit Adam must conserve what it compressed away (L1) and all
replicas must be equal (L6), as :mod:`verification.monitor` judges it. At the end the same steps are taken again on
links without a limit, and everything must come out in the same bits. Exit status 1: something does not hold; 3: a
worker gave up, which is told in one sentence. As ``onebit netlab`` it needs root and iproute2.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import distributed as dist

from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.kernels.layout import Layout
from gpu_impl.netlab import entrants
from gpu_impl.netlab.bandwidth import bits_per_second
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.tools import LabError
from gpu_impl.netlab.weather import Weather
from gpu_impl.optimizer.one_bit_adam import OneBitAdam
from onebit_files import writable_file, write_atomically
from paper_figures.netlab.command import machine
from verification.monitor import Monitor

ENTRANT = "1-bit-short"
STRETCH = 10
"""Steps from one look at the state to the next."""
PATIENCE = 300.0
"""Seconds that a stretch may take, and that gloo waits for a worker."""
N_STEPS = 400
"""That the learning rate is tuned for; the run goes on with it."""


@dataclass
class Course:
    """What came of a training.

    Attributes:
        steps: taken.
        looks: how often the state was judged.
        findings: what does not hold.
        loss: held-out loss at the start and at the end.
        checksums: of each worker's parameters, momentum and errors at the end.
    """

    steps: int = 0
    looks: int = 0
    findings: list[str] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    checksums: list[list[int]] = field(default_factory=list)


def watched_step(t: int) -> NDArray[np.float64]:
    """Step t of this worker, with its report for the monitor."""
    ours, rank = entrants.running(), dist.get_rank()
    optimizer = ours.training.optimizer
    assert isinstance(optimizer, OneBitAdam)
    inputs, targets = entrants.batch(ours.seed, t, rank)
    optimizer.zero_grad()
    ours.training.loss(ours.training.module(inputs), targets).backward()
    ((_, bucket),) = optimizer.run.pairs()
    parcel = optimizer.run.parcels[0]
    parcel.gather()
    grad_D, preconditioner_D = parcel.gradients.flat_of(0).numpy().copy(), bucket.variance.numpy()
    part = Layout(grad_D.size, dist.get_world_size()).part(rank)
    monitor = Monitor(optimizer.param_groups[0]["betas"][0], every=1)
    seen = monitor.before(
        t,
        bucket.momentum_D().numpy(),
        np.where(preconditioner_D > 0, grad_D, 0),  # zero-variance coordinates are left out [C6]
        bucket.worker_error_D().numpy(),
        part,
        bucket.server_error_C().numpy(),
    )
    optimizer.step()
    return monitor.after(
        seen,
        bucket.flat.master.numpy(),
        bucket.momentum_D().numpy(),
        bucket.worker_error_D().numpy(),
        bucket.server_error_C().numpy(),
    )


def checksums() -> list[int]:
    """Of what this worker holds."""
    ((_, bucket),) = entrants.running().training.optimizer.run.pairs()
    arrays = (bucket.flat.master, bucket.momentum_D(), bucket.worker_error_D(), bucket.server_error_C())
    return [zlib.crc32(np.ascontiguousarray(array.numpy()).view(np.uint8).data) for array in arrays]


def train(pool: WorkerPool, more: Callable[[int], bool]) -> Course:
    """Steps in stretches, as long as ``more`` says so after each, and until one step was watched: the last of each."""
    course = Course()
    pool.call(entrants.enter, ENTRANT, 0, N_STEPS)
    course.loss.append(pool.call(entrants.look)[0])
    while more(course.steps) or not course.looks:
        first, last = course.steps + 1, course.steps + STRETCH
        pool.call(entrants.lap, first, last - 1)
        if last > entrants.SHORT:
            found = Monitor(0.9).judge(np.stack(pool.call(watched_step, last)))
            course.looks += 1
            course.findings += [f"step {last}: {finding}" for finding in found]
        else:
            pool.call(entrants.lap, last, last)
        course.steps = last
    course.loss.append(pool.call(entrants.look)[0])
    course.checksums = pool.call(checksums)
    return course


def main(
    minutes: Annotated[float, typer.Option(min=0.05, max=10_080, help="Of bad weather.")] = 30.0,
    workers: Annotated[int, typer.Option(min=2, max=64, help="N.")] = 4,
    bandwidth: Annotated[str, typer.Option(help="Of each link, each way, in clear weather.")] = "50Mbit",
    seed: Annotated[int, typer.Option(help="Of the weather.")] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write what was found to this file.")
    ] = None,
) -> None:
    """Train through packet loss, delay spikes and links that go down, and check that nothing is lost."""
    try:
        rate = bits_per_second(bandwidth)
    except ValueError as error:
        raise typer.BadParameter(f"--bandwidth: {error}") from None
    with (
        lab(workers, timeout=PATIENCE) as (network, pool),
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        bar, end = progress.add_task("bad weather", total=60 * minutes), time.monotonic() + 60 * minutes

        def more(steps: int) -> bool:
            left = end - time.monotonic()
            progress.update(bar, completed=60 * minutes - left, description=f"bad weather, {steps} steps")
            return left > 0

        with Weather(network, rate, seed) as weather:
            disturbed = train(pool, more)
        if weather.failure:
            raise LabError(weather.failure)
        network.limit(None)
        bar = progress.add_task("again, undisturbed", total=disturbed.steps)

        def again(steps: int) -> bool:
            progress.update(bar, completed=steps)
            return steps < disturbed.steps

        calm = train(pool, again)
    same = calm.checksums == disturbed.checksums
    findings = disturbed.findings + calm.findings
    spells = ", ".join(f"{count} x {kind}" for kind, count in sorted(weather.spells.items()))
    lines = [
        f"{minutes:g} minutes, {disturbed.steps:,} steps of {workers} workers; {spells}; "
        f"{weather.dropped:,} frames dropped by queues",
        f"L1 and L6 at {disturbed.looks:,} steps: {len(disturbed.findings)} findings; "
        f"held-out loss {disturbed.loss[0]:.3f} -> {disturbed.loss[1]:.3f}",
        f"the same steps undisturbed: {'the same bits' if same else 'OTHER BITS'} of parameters, momentum and errors",
        *findings[:10],
    ]
    typer.echo("\n".join(lines))
    if json_file:
        facts = {"environment": machine(), "minutes": minutes, "bandwidth": rate, "seed": seed, "same_bits": same}
        facts |= {"spells": dict(weather.spells), "dropped": weather.dropped}
        facts |= {"disturbed": asdict(disturbed), "calm": asdict(calm)}
        write_atomically(json_file, json.dumps(facts, indent=1) + "\n")
    raise typer.Exit(0 if same and not findings else 1)
