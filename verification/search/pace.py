"""How long a whole search takes, told from the cases that were done."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onebit_files import counted

ENOUGH_CALLS = 100
"""So many calls say how long a full check takes."""

ENOUGH_ROWS = 8
"""So many rows say what an element costs beside a call."""

REACH = 16
"""So many times longer rows than any that was done are still told from these."""


class Pace:
    """What the cases so far took.

    Args:
        costs_RK: calls and elements of every row of the search.

    Attributes:
        shared_by: the processes that examine cases.
    """

    def __init__(self, costs_RK: Sequence[tuple[float, float]]) -> None:
        self.costs_RK, self.shared_by = costs_RK, 1
        self.done: list[tuple[float, float, float]] = []
        self.took: list[float] = []

    def note(self, costs: tuple[float, float] | None, seconds: float, took: Sequence[float]) -> None:
        """Note a case: ``costs`` of its row, if it has one; seconds of it, and of each call of the class in it."""
        self.took += took
        if costs is not None:
            self.done.append((*costs, seconds))

    def seconds(self) -> float | None:
        """How long all rows take, by those so far; None: too few to say."""
        if len(self.took) < ENOUGH_CALLS or not self.done:
            return None
        return whole_time(np.array(self.done), np.array(self.costs_RK, np.float64)) / self.shared_by

    def told(self, class_name: str, profile: str) -> str:
        """A sentence: how long a full check takes, the calls at the mean of those so far, and what is done beside."""
        took_C, seconds = np.array(self.took), self.seconds()
        if seconds is None:
            return f"{counted(len(took_C), 'call')} are too few to say how long a full check takes"
        each = float(np.minimum(took_C, np.quantile(took_C, 0.95)).mean())  # the first call of a thing may be slow
        minutes = math.ceil(seconds / 60)
        whole = f"{counted(minutes, 'minute')}" if minutes < 120 else f"{minutes / 60:.1f} hours"
        return (
            f"at {each:.2g} s a call of {class_name} on this machine as busy as it is, a full {profile} check "
            f"takes about {whole}; say --minutes {math.ceil(1.5 * minutes)}"
        )


def whole_time(done_RK: NDArray[np.float64], all_RK: NDArray[np.float64]) -> float:
    """Seconds for all rows: so much a call and so much an element, by least squares on those that were done.

    The elements count where their share is above two standard errors, and where a row that was done has a 16th of those
    of the longest to come, a call; else chance in short rows would decide on the long.

    Args:
        done_RK: calls, elements and seconds of each row that was done.
        all_RK: calls and elements of every row.
    """
    costs_RK, seconds_R = done_RK[:, :2], done_RK[:, 2]
    weights_R = 1 / np.maximum(costs_RK[:, 0], 1)  # a long row tells no more than a short one
    shares_RK, each_R = costs_RK * weights_R[:, None], seconds_R * weights_R
    found_K = np.linalg.lstsq(shares_RK, each_R, rcond=None)[0]
    variance = ((each_R - shares_RK @ found_K) ** 2).sum() / max(1, len(each_R) - 2)
    error = math.sqrt(variance * np.linalg.pinv(shares_RK.T @ shares_RK)[1, 1])
    longest, seen = (float((costs[:, 1] / costs[:, 0]).max()) for costs in (all_RK, costs_RK))
    if len(seconds_R) < ENOUGH_ROWS or found_K[0] < 0 or found_K[1] <= 2 * error or longest > REACH * seen:  # a call
        found_K = np.array([seconds_R.sum() / costs_RK[:, 0].sum(), 0.0])
    return float((all_RK @ found_K).sum())
