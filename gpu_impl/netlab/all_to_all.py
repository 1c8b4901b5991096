"""The two exchanges of a compressed step, by gloo's own algorithms and in rounds, timed on links of one bandwidth.

    python -m gpu_impl.netlab.all_to_all --workers 4 --bandwidth 100Mbit --size 1250000

All move the same bytes, (N-1)/N of the buffer a worker, so what differs is how well the links are used. The optimizer
takes rounds for messages from ``gpu_impl.optimizer.rounds.SHORTEST`` bytes on.
"""

from __future__ import annotations

import statistics
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
from gpu_impl.optimizer import rounds
from gpu_impl.optimizer.collectives import torch_all_gather
from gpu_impl.optimizer.rounds import Rounds

PAUSE = 0.1
"""Seconds between two calls: what computation leaves a link to recover in."""
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
            for kind in ("all-to-all", "all-gather"):
                for way in ("gloo", "rounds"):
                    found = pool.call(timed, kind, way, size, repeats)
                    times = sorted(max(row) for row in zip(*found, strict=True))
                    middle, best = 1e3 * statistics.median(times), 1e3 * times[0]
                    typer.echo(f"{kind}, {way:7} {middle:7.1f} ms, at best {best:.1f}; line {1e3 * line:.1f}")
    except LabError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(3) from None


def timed(kind: str, way: str, size: int, repeats: int) -> list[float]:
    """Seconds of each call, on one worker."""
    received, rows = torch.zeros(2, dist.get_world_size(), size // dist.get_world_size(), dtype=torch.uint8)
    rank = dist.get_rank()
    calls = {
        ("all-to-all", "gloo"): lambda: dist.all_to_all_single(received, rows),
        ("all-to-all", "rounds"): lambda: Rounds(None, rounds.all_to_all(received, rows, rank)).wait(),
        ("all-gather", "gloo"): lambda: torch_all_gather(received.view(-1), rows[0]),
        ("all-gather", "rounds"): lambda: Rounds(None, rounds.all_gather(received, rows[0], rank)).wait(),
    }
    call = calls[kind, way]
    times = []
    for _ in range(repeats):
        sleep(PAUSE)
        dist.barrier()
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return times


if __name__ == "__main__":
    typer.run(main)
