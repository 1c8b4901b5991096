"""The time model of T10b on the lab's links: two numbers fitted on a few points, every other point predicted.

    step = silent + exchange
    exchange = bytes / effective bandwidth + rounds * round + trips * latency
    1 / effective bandwidth = the larger of 8/B * 1514/1448 and host

``silent`` is what the contestant takes without a network, measured; bytes are the formula's; B is the link's bit/s, of
which every full frame of 1514 bytes carries 1448 of payload. Fitted, to measured exchanges, are ``host``, seconds that
this machine takes for a byte however fast the link is, and ``round``, those of a round of messages that carry nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from scipy.optimize import least_squares

from gpu_impl.netlab.counters import ETHERNET, HEADERS
from gpu_impl.netlab.network import MTU
from gpu_impl.netlab.point import Point
from paper_figures.netlab.volumes import all_reduce_bytes, formula_bytes
from theory.theorems.time_model import step_time

FRAME = MTU + ETHERNET
OVERHEAD = FRAME / (FRAME - HEADERS)
"""Bytes of full frames over those of the payload in them. Acknowledgements without payload come on top."""

STOP = 1e-12
"""Relative change of the numbers, and of the squared error, at which the fit ends."""
SCALES = np.array([1e-9, 1e-3])
"""ns a byte and ms a round: numbers near 1 for the solver."""
FITTED = {"ddp", "1-bit"}
"""Who sends most, and who sends least; the model knows of no overlap, and the latter has none."""


@dataclass(frozen=True)
class Model:
    """The lab with one number of workers, as the model sees it.

    Attributes:
        n_workers: N.
        host: seconds a byte; no more than the fastest fitted link's where no link was faster than the machine.
        round: seconds a round.
        fitted: the points that the two numbers come from.
    """

    n_workers: int
    host: float
    round: float
    fitted: tuple[Point, ...]

    def step(self, point: Point) -> float:
        """Seconds of a step as T10b predicts them; of what was timed there, from the point's ``silent`` alone."""
        return self._time(point, point.silent)

    def exchange(self, point: Point) -> float:
        """Seconds of a step's collectives alone."""
        return self._time(point, 0.0)

    def _time(self, point: Point, compute: float) -> float:
        return step_time(
            compute,
            point.dim,
            point.n_workers,
            bandwidth=1 / max(per_byte(point), self.host),
            bits=32 * formula_bytes(point) / all_reduce_bytes(point.dim, point.n_workers, 32),
            latency=self.waiting(point) / (2 * (point.n_workers - 1)),
        )

    def waiting(self, point: Point) -> float:
        """Seconds of all rounds and trips, whatever they carry."""
        return self.round * point.rounds + point.latency * point.trips

    def error(self, point: Point) -> float:
        """Predicted over measured step, less 1."""
        return self.step(point) / point.step - 1

    def exchange_error(self, point: Point) -> float:
        """Predicted over measured exchange, less 1."""
        return self.exchange(point) / point.exchange - 1


def per_byte(point: Point) -> float:
    """Seconds that the point's link needs for a byte of payload in full frames."""
    return 8 / point.bandwidth * OVERHEAD


def fit(points: Sequence[Point]) -> Model | None:
    """The two numbers, by least squares of the exchanges' relative errors; None where that leaves no point to predict.

    Fitted on the lowest and the highest bandwidth of the contestants in FITTED, all of one N, at the lowest latency.
    """
    nearest = min(point.latency for point in points)
    ends = {min(point.bandwidth for point in points), max(point.bandwidth for point in points)}
    who = FITTED & {point.contestant for point in points} or {points[0].contestant}
    chosen = [
        point for point in points if point.bandwidth in ends and point.contestant in who and point.latency == nearest
    ]
    if len(chosen) == len(points) or len(chosen) < 2:
        return None

    def made(numbers: np.ndarray) -> Model:
        host, each_round = map(float, numbers * SCALES)
        return Model(points[0].n_workers, host, each_round, tuple(chosen))

    def errors(numbers: np.ndarray) -> list[float]:
        return [made(numbers).exchange_error(point) for point in chosen]

    start = np.array([min(point.exchange / formula_bytes(point) for point in chosen), 0.0]) / SCALES
    return made(least_squares(errors, start, bounds=(0, np.inf), xtol=STOP, ftol=STOP, gtol=STOP).x)


def measured_crossover(base: Sequence[Point], other: Sequence[Point]) -> float | None:
    """The bandwidth up to which ``other`` is the faster: between two measured ones, on a logarithmic scale.

    Args:
        base: points of one contestant, by bandwidth.
        other: of another one, at the same bandwidths.

    Returns:
        bit/s; None where the same one is faster at all of them.
    """
    gaps = [(one.bandwidth, two.step - one.step) for one, two in zip(base, other, strict=True)]
    for (slow, before), (fast, after) in pairwise(gaps):
        if before < 0 <= after:
            share = before / (before - after)
            return float(np.exp(np.log(slow) + share * (np.log(fast) - np.log(slow))))
    return None


def predicted_crossover(model: Model, base: Sequence[Point], other: Sequence[Point]) -> float | None:
    """The bandwidth up to which the model has ``other`` faster; infinite if it always is, None if it never is."""
    silent = median(point.silent for point in other) - median(point.silent for point in base)
    saved = formula_bytes(base[0]) - formula_bytes(other[0])
    costs = silent + model.waiting(other[0]) - model.waiting(base[0])
    if saved <= 0:
        return None
    return 8 * OVERHEAD / (costs / saved) if costs / saved > model.host else float("inf")
