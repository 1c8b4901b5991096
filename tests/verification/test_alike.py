"""Collective cases in which workers are alike, or one element is far above the rest: faults that bite nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from verification.mutants import alike as mutants
from verification.mutants import scale
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.error_feedback import WorkerErrorClippedAtFortyScales
from verification.relation.tolerances import scale_of
from verification.search.collective_space import large_cases
from verification.search.driver import Driver
from verification.search.large_cases import corners, each_level
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


@pytest.mark.one_in(9)
@pytest.mark.parametrize("fault", [scale.EndLeftOut, scale.LongPaddingCounted])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", [None, range(1000, 2**20, 1001), (5, 100_001)])
def test_every_seed_sees_the_end_of_many_elements(fault, seed, sizes):
    driver = Driver(type("Fault", (fault,), {"sizes": sizes}))
    assert any(next(check(driver, make(), set()), None) is not None for make in large_cases(driver.traits, seed))


@pytest.mark.parametrize(
    ("fault", "level"), [(scale.MagnitudesOverflow, "largest"), (mutants.VotesInEightBits, "all workers agree")]
)
def test_some_row_of_its_level_finds_it(fault, level):
    """Sums of magnitudes that overflow, and counts of votes in few bits."""
    plan = Plan.of(Driver(fault), "collective", PROFILES["quick"], 0)
    rows = [one for one in plan.rows if level in one[0].values()]
    assert any(next(check(plan.driver, plan.case(*one), set()), None) is not None for one in rows)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("declared", [None, range(1000, 2**20, 1001), (5, 300_001)])
def test_an_optimizer_that_forgets_the_end_is_found(seed, declared):
    class EndForgotten(BaseOptimizer):
        collective, sizes = scale.EndLeftOut, declared

    cases = [make() for make in each_level(Driver(EndForgotten).traits, can_save=False, seed=seed)]
    assert any(next(check(Driver(EndForgotten), case, set()), None) is not None for case in cases)


class LateVotesInEightBits(mutants.VotesInEightBits):
    """From the twentieth chunk on: chunks of 128 workers are empty unless there are many elements."""

    def server_input(self, parts, error_C, j):
        kind = super() if j >= 20 else super(mutants.VotesInEightBits, self)
        return kind.server_input(parts, error_C, j)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("declared", [None, range(64, 4097, 64)])
def test_many_workers_with_many_elements_are_tried(seed, declared):
    class Wrong(BaseOptimizer):
        collective, sizes = LateVotesInEightBits, declared

    cases = [make() for make in corners(Driver(Wrong).traits, can_save=False, seed=seed)]
    many = [case for case in cases if case.n_workers == 128 and case.hyper.freeze_step > 6 and case.dim > 256]
    several = [case for case in many if (case.grads_TND[-1] == case.grads_TND[-1, 0]).all()]
    assert any(next(check(Driver(Wrong), case, set()), None) is not None for case in several)
    assert not [finding for case in several[:1] for finding in check(Driver(BaseOptimizer), case, set())]


def test_a_scale_of_few_numbers_is_held_to_few_roundings():
    """The order of zeros is nobody's: of 8 numbers among 100,000 no sum rounds more than seven times."""
    u_D = np.zeros(100_000)
    u_D[-8:] = np.random.default_rng(0).standard_normal(8)
    traits = Driver(scale.LongPaddingCounted).traits
    for kind in ("l1", "l2"):
        exact, tolerance = scale_of(u_D[None], np.zeros((1, u_D.size)), kind, traits)
        assert tolerance[0] < 16 * 2.0**-24 * exact[0]
        unsure = np.full((1, u_D.size), 1e-30)  # what may not be 0 may round
        assert scale_of(u_D[None], unsure, kind, traits)[1][0] > 1000 * 2.0**-24 * exact[0]
        for order in (u_D, u_D[::-1], np.roll(u_D, 4)):
            terms = (np.abs(order) if kind == "l1" else order * order).astype(np.float32)
            mean = np.add.accumulate(terms, dtype=np.float32)[-1] / np.float32(u_D.size)
            found = mean if kind == "l1" else np.sqrt(mean)
            assert abs(float(found) - exact[0]) <= tolerance[0]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_workers_are_alike_bit_by_bit(n):
    rng = np.random.default_rng(n)
    buffers_ND, errors_ND = (rng.standard_normal((n, 33)) for _ in range(2))
    for name, rows, sizes in (
        ("equal scales", n, 1),
        ("two workers agree", max(1, n - 1), max(1, n - 1)),
        ("all workers agree", 1, 1),
    ):
        b_ND, e_ND = (array_ND.astype(np.float32) for array_ND in ALIKE[name](rng, buffers_ND, errors_ND))
        u_ND = b_ND + e_ND
        assert len({row.tobytes() for row in u_ND}) == rows
        assert len({row.tobytes() for row in np.abs(u_ND)}) == sizes


def test_a_spike_is_nearly_the_whole_scale():
    values_ND = one_spike(np.random.default_rng(0), (3, 2000))
    assert (np.abs(values_ND).max(axis=1) > 40 * np.sqrt(np.square(values_ND).mean(axis=1))).all()
