"""Faults that need one level of one feature, each planted and found in the cases of ``quick`` with that level alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from verification.adapters.reference import ReferenceOptimizer
from verification.algorithms.base import LEVELS
from verification.independent.lamb import Lamb
from verification.independent.optimizers import BlocksAlone
from verification.mutants import kept_state, ranges, skips
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.conditional import conditional
from verification.mutants.triggers import DEVELOPMENT
from verification.search.driver import Driver
from verification.search.optimizer_cases import optimizer_case
from verification.search.optimizer_space import COMPRESSED, FREEZE, LARGE, SIZES, WORKERS, optimizer_space
from verification.search.plan import PROFILES, Plan
from verification.search.runs import check

ALWAYS = DEVELOPMENT[0]

ENOUGH = 60
"""So many cases with the level; the cheapest first."""

FAULTS = {
    kept_state.ScaleOfTheFirstStart: {"begin": ("used", "used with the same shape")},
    kept_state.CorrectionOfTheFirstStart: {"begin": ("used", "used with the same shape")},
    kept_state.MaskKeptAtLoad: {"checkpoint": ("reload used",)},
    kept_state.SnapshotCachedByStep: {"checkpoint": ("reload used",)},
    skips.FinitenessBySum: {"magnitude": ("largest",)},
    skips.FinitenessByMean: {"magnitude": ("largest",)},
    skips.FinitenessByWorker: {"magnitude": ("largest",)},
    skips.LargestTakenForInfinite: {"magnitude": ("largest",)},
    skips.SecondSkipInARow: {"skips": ("compressed",)},
    ranges.LongBlocksCutOff: {"scale_block": ((1032, 4096),), "size": SIZES[5:7]},
    ranges.MiddlingWarmUp: {"freeze": ((10, 16),)},
    ranges.SomeWorkersUnheard: {"workers": ((17, 32),)},
    ranges.MoreThan64Workers: {"workers": ((65, 128),)},
    ranges.Between16384And65536: {"size": ((16385, 131072),)},
    ranges.SmallParametersFlushed: {"gradients": ("sparse",)},
    ranges.LargeInUpdates: {"size": (LARGE,)},
    ranges.LargeInBlocks: {"size": (LARGE,)},
}


@cache
def plan():
    return Plan.of(Driver(BaseOptimizer), "optimizer", replace(PROFILES["quick"], exact=0), 0)


def cases(wanted):
    """The cases of rows with these levels; those of the largest size are no rows."""
    if wanted.get("size") == (LARGE,):
        return [case for make in plan().specials if (case := make()).dim >= LARGE[0] and len(case.program) > 2]
    rows = [item for item in plan().rows if all(item[0][name] in levels for name, levels in wanted.items())]
    return (plan().case(*item) for item in rows[:ENOUGH])


@pytest.mark.one_in(10)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_it_is_found_with_its_level(fault):
    driver = Driver(conditional(fault, ALWAYS, "optimizer"))
    assert any(next(check(driver, case, set()), None) is not None for case in cases(FAULTS[fault]))


@pytest.mark.parametrize(
    "ranges", [WORKERS, SIZES, FREEZE, [level for level in LEVELS["scale_block"] if level]], ids=["N", "D", "T_w", "B"]
)
def test_ranges_have_no_gaps(ranges):
    unit = 8 if ranges[0] == (8, 8) else 1
    assert ranges[0][0] == unit
    inside = [(a, b) for a, b in ranges if any(c <= a and b <= d and (a, b) != (c, d) for c, d in ranges)]
    assert all(above[0] == below[1] + unit for below, above in pairwise(one for one in ranges if one not in inside))
    assert COMPRESSED[0][0] == 2
    assert (SIZES[-1][1] + 1, 2**20) == LARGE


def test_two_largest_numbers_overflow_nothing_that_a_correct_step_forms():
    """Where a coordinate is alone in its scale both are sent as they are, and add up to more than float32 holds."""
    driver, rng = Driver(ReferenceOptimizer), np.random.default_rng(7)
    space, tried = optimizer_space(driver.traits, can_save=False), 0
    while tried < 120:
        row = {**space.random_row(rng), "magnitude": "largest", "size": (2, 3), "dead": "some with a later gradient"}
        if row["workers"][1] > 8 or space.exclusion(row):
            continue
        tried += 1
        assert not list(check(driver, optimizer_case(row, driver.traits, rng), set()))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("under_test", [BlocksAlone, type("LambBlocks", (Lamb,), {"takes": {"scale_block": 64}})])
def test_large_cases_have_no_value_that_the_class_does_not_take(under_test):
    driver = Driver(under_test)
    plan = Plan.of(driver, "optimizer", PROFILES["quick"], 1240)
    assert {make().hyper.scale_block for make in plan.large_cases()} == {64}
