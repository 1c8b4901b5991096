"""What a sweep of the lab measures, and how long that will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from gpu_impl.netlab.contestants import CONTESTANTS

FEWEST, MOST = 3, 40
"""Timed steps of a point, or periods of them."""
START, CHANGE = 10.0, 2.0
"""Seconds that a lab and a contestant take to start, roughly."""


@dataclass(frozen=True)
class Plan:
    """What is measured: every combination.

    Attributes:
        workers: numbers of workers N.
        parameters: sizes of the model.
        bandwidths: bit/s of each link, each way.
        latencies: seconds from any host to any other, added.
        contestants: names in ``CONTESTANTS``.
        batch: samples of a worker and step.
        seconds: that a point's timed steps take, if FEWEST of them take no longer.
        congestion: how TCP finds its rate.
    """

    workers: Sequence[int]
    parameters: Sequence[int]
    bandwidths: Sequence[float]
    latencies: Sequence[float]
    contestants: Sequence[str]
    batch: int
    seconds: float
    congestion: str

    def expected(self, name: str, n_parameters: int, bandwidth: float) -> float:
        """Seconds of a point, roughly: the links are nearly full."""
        one = CONTESTANTS[name]
        period = one.period * (0.02 + one.bits * 2 * n_parameters / bandwidth)
        return period + 2 * max(self.seconds, FEWEST * period)

    def total(self) -> float:
        """Seconds of the whole sweep, roughly."""
        each = product(self.contestants, self.parameters, self.bandwidths)
        points = len(self.latencies) * sum(self.expected(*one) for one in each)
        return len(self.workers) * (START + len(self.contestants) * len(self.parameters) * CHANGE + points)
