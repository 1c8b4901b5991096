"""The race to Adam's loss: every entrant over links of one speed, loss against the wall clock and bytes on the wire.

The clock stands while one looks at the loss. It runs from a barrier to the end of the last step on the slowest worker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import product

from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.netlab import entrants
from gpu_impl.netlab.bandwidth import in_words
from gpu_impl.netlab.counters import total
from gpu_impl.netlab.entrants import ENTRANTS, GRID, LAP
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.network import Network

PATIENCE = 600.0
"""Seconds that a lap may take."""
TUNING_SEED = 1000
"""No race has it."""


@dataclass(frozen=True)
class Run:
    """One entrant on one kind of link with one seed; lists have an entry for each look at the loss.

    Attributes:
        entrant: its name.
        title: in tables.
        seed: of start and batches.
        lr: learning rate.
        n_workers: N.
        dim: D.
        bandwidth: bit/s of each link.
        load: programs that waited for a processor of this machine, the workers among them, mean of the last minute.
        step: gradients so far.
        seconds: of training so far.
        loss: on text that is held out; inf where it is no finite number.
        payload_bytes: that a worker sent so far, gloo's framing and the barriers of the laps with it, mean of workers.
    """

    entrant: str
    title: str
    seed: int
    lr: float
    n_workers: int
    dim: int
    bandwidth: float
    load: float
    step: list[int]
    seconds: list[float]
    loss: list[float]
    payload_bytes: list[float]


def race(
    names: Sequence[str],
    n_workers: int,
    bandwidths: Sequence[float],
    seeds: Sequence[int],
    n_steps: int,
    report: Callable[[str], None],
) -> Generator[Run, None, None]:
    """Every run, as soon as it is there.

    Raises:
        LabError: the lab can't be built here.
        WorkerDiedError, CollectiveFailedError: a worker ended, or took far too long.
    """
    with lab(n_workers, timeout=PATIENCE) as (network, pool):
        for seed, name, bandwidth in product(seeds, names, bandwidths):
            report(f"{name}, {in_words(bandwidth)}, seed {seed}")
            yield _run(network, pool, name, seed, n_steps, bandwidth)


def tune(
    names: Sequence[str], n_workers: int, n_steps: int, report: Callable[[str], None]
) -> Generator[Run, None, None]:
    """A run of each at every learning rate of the grid, on links without a limit.

    Raises:
        LabError, WorkerDiedError, CollectiveFailedError: as above.
    """
    with lab(n_workers, timeout=PATIENCE) as (network, pool):
        for name, lr in product(names, GRID):
            report(f"{name}, learning rate {lr:g}")
            yield _run(network, pool, name, TUNING_SEED, n_steps, None, lr)


def _run(
    network: Network,
    pool: WorkerPool,
    name: str,
    seed: int,
    n_steps: int,
    bandwidth: float | None,
    lr: float | None = None,
) -> Run:
    network.limit(None)
    dim = pool.call(entrants.enter, name, seed, n_steps, lr)[0]
    network.limit(bandwidth)
    steps, seconds, losses, sent = [0], [0.0], [pool.call(entrants.look)[0]], [0.0]
    for first in range(1, n_steps + 1, LAP):
        last, before = min(first + LAP - 1, n_steps), total(network.sent())
        found = pool.call(entrants.lap, first, last)
        began, ended = (max(times) for times in zip(*found, strict=True))
        steps.append(last)
        seconds.append(seconds[-1] + ended - began)
        sent.append(sent[-1] + (total(network.sent()) - before).payload / pool.n_workers)
        losses.append(pool.call(entrants.look)[0])
    return Run(
        entrant=name,
        title=ENTRANTS[name].title,
        seed=seed,
        lr=ENTRANTS[name].lr if lr is None else lr,
        n_workers=pool.n_workers,
        dim=dim,
        bandwidth=bandwidth or 0.0,
        load=os.getloadavg()[0],
        step=steps,
        seconds=seconds,
        loss=losses,
        payload_bytes=sent,
    )
