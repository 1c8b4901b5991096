"""Collective cases in which workers are alike, or one element is far above the rest: faults that bite nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from verification.mutants import alike as mutants
from verification.mutants.error_feedback import WorkerErrorClippedAtFortyScales
from verification.search.driver import Driver
from verification.search.palettes import ALIKE, one_spike
from verification.search.plan import PROFILES, Plan
from verification.search.runs import check


class MedianOfThree(mutants.MedianOfEqualScales):
    """Three and more workers, and more than two elements."""

    def server_input(self, parts, error_C, j):
        kind = super() if len(parts) > 2 and error_C.size > 2 else super(mutants.MedianOfEqualScales, self)
        return kind.server_input(parts, error_C, j)


class ManyEqualCountOnce(mutants.EqualMessagesCountOnce):
    """More than forty elements a chunk, which do not agree by chance."""

    def server_input(self, parts, error_C, j):
        kind = super() if error_C.size > 40 else super(mutants.EqualMessagesCountOnce, self)
        return kind.server_input(parts, error_C, j)


class ClippedOnEvenWorkers(WorkerErrorClippedAtFortyScales):
    """On an even number of workers."""

    def worker_error(self, u_D, s, signs_D, i):
        kind = super() if self.workers % 2 == 0 else super(WorkerErrorClippedAtFortyScales, self)
        return kind.worker_error(u_D, s, signs_D, i)


@pytest.mark.parametrize(
    ("fault", "level"),
    [
        (MedianOfThree, "equal scales"),
        (ManyEqualCountOnce, "two workers agree"),
        (ClippedOnEvenWorkers, "one spike"),
    ],
)
def test_rows_of_its_level_find_it(fault, level):
    """At quick, in rows alone: not in the cases that were made so that nothing rounds."""
    plan = Plan.of(Driver(fault), "collective", PROFILES["quick"], 0)
    found = 0
    for row, seed in plan.rows:
        if row["buffers"] == level and 40 < row["size"][0] <= 4096 and found < 3:
            found += next(check(plan.driver, plan.case(row, seed), set()), None) is not None
    assert found == 3


@pytest.mark.parametrize("n", [1, 2, 5])
def test_workers_are_alike_bit_by_bit(n):
    rng = np.random.default_rng(n)
    buffers_ND, errors_ND = (rng.standard_normal((n, 33)) for _ in range(2))
    for name, rows, sizes in (("equal scales", n, 1), ("two workers agree", max(1, n - 1), max(1, n - 1))):
        b_ND, e_ND = (array_ND.astype(np.float32) for array_ND in ALIKE[name](rng, buffers_ND, errors_ND))
        u_ND = b_ND + e_ND
        assert len({row.tobytes() for row in u_ND}) == rows
        assert len({row.tobytes() for row in np.abs(u_ND)}) == sizes


def test_a_spike_is_nearly_the_whole_scale():
    values_ND = one_spike(np.random.default_rng(0), (3, 2000))
    assert (np.abs(values_ND).max(axis=1) > 40 * np.sqrt(np.square(values_ND).mean(axis=1))).all()
