"""Ways to do the all-to-all of a compressed step on gloo, timed beside the all-gather that follows it.

    python -m gpu_impl.netlab.all_to_all --workers 4 --bandwidth 100Mbit --size 1250000

Each moves the same bytes, (N-1)/N of the buffer a worker, so what differs is how well the links are used:

    all-to-all    gloo's own: a worker sends to all others at once
    rounds        N-1 rounds; in round k a worker sends to the k-th after it and receives from the k-th before it
    all-gather    gloo's own: a ring
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Annotated

import torch
import typer
from torch import distributed as dist

from gpu_impl.netlab.bandwidth import bits_per_second
from gpu_impl.netlab.collective import Collective
from gpu_impl.netlab.counters import HEADERS
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.network import MTU
from gpu_impl.netlab.tools import LabError

PAUSE = 0.1
"""Seconds between two calls: what computation leaves a link to recover in."""
WAYS = ("all-to-all", "rounds", "all-gather")
FRAME = MTU + 14


def main(
    workers: Annotated[int, typer.Option(min=2)] = 4,
    bandwidth: Annotated[str, typer.Option(help="Of each link, each way.")] = "100Mbit",
    size: Annotated[int, typer.Option(min=1, help="Bytes of a worker's buffer.")] = 1_250_000,
    repeats: Annotated[int, typer.Option(min=1)] = 15,
) -> None:
    """Time each of them on links of one bandwidth."""
    rate = bits_per_second(bandwidth)
    size -= size % workers
    line = Collective("all-to-all", size).data(workers) * FRAME / (FRAME - HEADERS) * 8 / rate
    try:
        with lab(workers) as (network, pool):
            network.limit(rate)
            for way in WAYS:
                found = pool.call(timed, way, size, repeats)
                times = sorted(max(row) for row in zip(*found, strict=True))
                middle = statistics.median(times)
                typer.echo(f"{way:12} {1e3 * middle:7.1f} ms, at best {1e3 * times[0]:.1f}; line {1e3 * line:.1f}")
    except LabError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(3) from None


def timed(way: str, size: int, repeats: int) -> list[float]:
    """Seconds of each call, on one worker."""
    call = in_rounds(size // dist.get_world_size()) if way == "rounds" else Collective(way, size).prepared()
    times = []
    for _ in range(repeats):
        sleep(PAUSE)
        dist.barrier()
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return times


def in_rounds(row_bytes: int) -> Callable[[], None]:
    """One flow a link and direction at any time."""
    n_workers, rank = dist.get_world_size(), dist.get_rank()
    sent, received = (torch.zeros(n_workers, row_bytes, dtype=torch.uint8) for _ in range(2))

    def call() -> None:
        received[rank].copy_(sent[rank])
        for k in range(1, n_workers):
            to, of = (rank + k) % n_workers, (rank - k) % n_workers
            for work in (dist.irecv(received[of], of), dist.isend(sent[to], to)):
                assert work is not None
                work.wait()

    return call


if __name__ == "__main__":
    typer.run(main)
