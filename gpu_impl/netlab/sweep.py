"""A sweep of the lab: every contestant at every number of workers, size, bandwidth and latency, one after another.

A contestant takes its first steps on free links. At each point, steps without a network are measured before and after
those on it, and the collectives of a step alone. What the calls of the workers send beside the steps (two barriers) is
measured with no step between them, and taken off.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise, product
from math import ceil

from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.netlab import worker
from gpu_impl.netlab.bandwidth import in_words
from gpu_impl.netlab.contestants import CONTESTANTS
from gpu_impl.netlab.counters import Sent, total
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.network import Network
from gpu_impl.netlab.plan import CHANGE, FEWEST, MOST, START, Plan
from gpu_impl.netlab.point import Point

SINGLE_STEPS = 3
"""Of those without a network, before and after the others."""
IDLE = 3
"""Calls without a step, of which the least counts: in a slow one TCP may send a message twice."""
PATIENCE = 10.0
"""How many times longer than planned the workers may take."""

Report = Callable[[str, float], None]
"""Told what is done next, and the seconds (as planned) that are done."""


def sweep(plan: Plan, report: Report) -> Generator[Point, None, None]:
    """Every point of a plan, as soon as it is there.

    Raises:
        LabError: the lab can't be built here.
        WorkerDiedError, CollectiveFailedError: a worker ended, or took far longer than planned.
    """
    longest = max(plan.expected(*one) for one in product(plan.contestants, plan.parameters, plan.bandwidths))
    for n_workers in plan.workers:
        report(f"N = {n_workers}: starting the workers", 0)
        settings = {"congestion": plan.congestion, "delayed": any(plan.latencies)}
        with lab(n_workers, timeout=60 + PATIENCE * longest, **settings) as (network, pool):
            pool.call(worker.ready)
            report("", START)
            for n_parameters, name in product(plan.parameters, plan.contestants):
                report(f"N = {n_workers}, D = {n_parameters:,}, {name}: first steps", 0)
                network.limit(None)
                dim, calls = pool.call(worker.prepare, name, n_parameters, plan.batch)[0]
                period = CONTESTANTS[name].period
                report("", CHANGE)
                for latency, bandwidth in product(plan.latencies, plan.bandwidths):
                    report(f"N = {n_workers}, D = {dim:,}, {name}, {in_words(bandwidth)}", 0)
                    network.limit(bandwidth, latency)
                    apart = _Apart(pool, period)
                    apart.measure()
                    times, cpu, sent, drops = steps_on_links(network, pool, plan.seconds, period)
                    exchange = _exchange(network, pool, len(times)) / period
                    apart.measure()
                    yield Point(
                        contestant=name,
                        n_workers=n_workers,
                        dim=dim,
                        batch=plan.batch,
                        bandwidth=bandwidth,
                        latency=latency,
                        step=statistics.median(times),
                        low=_quantile(times, 0.2),
                        high=_quantile(times, 0.8),
                        exchange=exchange,
                        silent=statistics.median(apart.silent),
                        compute=statistics.median(apart.alone),
                        cpu=cpu,
                        wire_bytes=sent.bytes / n_workers / (len(times) * period),
                        payload_bytes=sent.payload / n_workers / (len(times) * period),
                        call_bytes=sum(call.data(n_workers) + call.framing(n_workers) for call in calls) / period,
                        framing=sum(call.framing(n_workers) for call in calls) / period,
                        rounds=sum(call.rounds(n_workers) for call in calls) / period,
                        trips=sum(call.trips(n_workers) for call in calls) / period,
                        drops=drops,
                        n_steps=len(times) * period,
                        load=os.getloadavg()[0],
                    )
                    report("", plan.expected(name, n_parameters, bandwidth))


class _Apart:
    """Seconds of steps that need no network, on the slowest worker."""

    def __init__(self, pool: WorkerPool, period: int) -> None:
        self._pool = pool
        self._period = period
        self.silent: list[float] = []
        self.alone: list[float] = []

    def measure(self) -> None:
        """Some of each."""
        for which, period, times in ((worker.ALONE, 1, self.alone), (worker.SILENT, self._period, self.silent)):
            together = zip(*self._pool.call(worker.single_steps, which, ceil(SINGLE_STEPS / period)), strict=True)
            times += [max(one.ended[0] - one.began for one in row) / period for row in together]


def steps_on_links(
    network: Network, pool: WorkerPool, seconds: float, period: int = 1
) -> tuple[list[float], float, Sent, int]:
    """Seconds of a step in each period, processor seconds of one, all that was sent in all of them, frames dropped."""
    first, _, _ = _counted(network, pool, worker.NETWORK, 1)
    n_periods = min(MOST, max(FEWEST, round(seconds / first[0])))
    times, cpu, sent = _counted(network, pool, worker.NETWORK, n_periods)
    beside = min((_counted(network, pool, worker.NETWORK, 0)[2] for _ in range(IDLE)), key=lambda one: one.bytes)
    steps = [time / period for time in times]
    return steps, cpu / (n_periods * period), sent - beside, network.drops() + sent.drops


def _exchange(network: Network, pool: WorkerPool, n_periods: int) -> float:
    """Median seconds of a period's collectives."""
    return statistics.median(_counted(network, pool, worker.EXCHANGE, n_periods)[0])


def _counted(network: Network, pool: WorkerPool, which: str, n_periods: int) -> tuple[list[float], float, Sent]:
    """Seconds of each period, processor seconds of all of a worker's, all that was sent."""
    before = total(network.sent())
    found = pool.call(worker.steps, which, n_periods)
    sent = total(network.sent()) - before
    ends = [max(one.began for one in found), *(max(row) for row in zip(*(one.ended for one in found), strict=True))]
    times = [end - begin for begin, end in pairwise(ends)]
    return times, statistics.mean(one.cpu_seconds for one in found), sent


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]
