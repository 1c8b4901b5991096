"""Covering arrays hold every pair and every triple that is allowed, nothing that is not, and the same for one seed."""

from __future__ import annotations

import operator
from functools import cache, partial
from itertools import combinations, product

import numpy as np
import pytest
from search_support import BRIEF

from verification.algorithms import ALGORITHMS
from verification.independent.lamb import Lamb
from verification.independent.optimizers import Eager
from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import LAYOUTS, Traits
from verification.relation.finding import AdapterError
from verification.search import layouts
from verification.search.collective_space import collective_space
from verification.search.covering import Space, covering_rows, missing_rows
from verification.search.driver import Driver
from verification.search.optimizer_space import LATE, TRIPLES, WORKERS, optimizer_space
from verification.search.palettes import MAGNITUDES
from verification.search.plan import PROFILES, Plan

NO_TWO_WITH_X = ("a", partial(operator.eq, 2), "b", partial(operator.eq, "x"), "said so")
SMALL = Space({"a": (1, 2, 3), "b": ("x", "y"), "c": (0, 1, 2, 3), "d": (True, False)}, [NO_TWO_WITH_X])


def held(rows, names):
    return {tuple(row[name] for name in names) for row in rows}


@pytest.mark.parametrize("seed", range(5))
def test_every_allowed_pair_and_triple(seed):
    rows = covering_rows(SMALL, seed, ("a", "b", "c", "d"))
    for names in combinations(SMALL.features, 3):
        wanted = set(product(*(SMALL.features[name] for name in names)))
        allowed = {
            row
            for row in wanted
            if SMALL.allows({**dict.fromkeys(SMALL.features), **dict(zip(names, row, strict=True))})
        }
        assert held(rows, names) == allowed
    assert SMALL.pair_count(rows) == SMALL.pair_count(covering_rows(SMALL, seed)) == 3 * 2 + 12 + 6 + 8 + 4 + 8 - 1


def test_rows_are_few_and_repeat():
    rows = covering_rows(SMALL, 3)
    assert rows == covering_rows(SMALL, 3)
    assert rows != covering_rows(SMALL, 4)
    assert 12 <= len(rows) <= 16


SPACES = [
    optimizer_space(Traits(algorithm=one.name, extensions=one.extensions), can_save=True) for one in ALGORITHMS.values()
]


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda one: one.name)
def test_settings_are_tried_with_each_other(algorithm):
    """What is left out has to do with gradients, sizes or checkpoints; 1-bit LAMB needs beta2 or eps, and ranges."""
    space = optimizer_space(Traits(algorithm=algorithm.name, extensions=algorithm.extensions), can_save=True)
    settings = [level for level in space.levels if level[0] in algorithm.levels]
    pairs = [{name: space.features[name][i] for name, i in pair} for pair in combinations(settings, 2)]
    apart = [pair for pair in pairs if len(pair) == 2 and space.exclusion(pair)]
    empty = [
        pair for low, high in algorithm.ranges for pair in apart if set(pair) == {low, high} and pair[low] > pair[high]
    ]
    others = [pair for pair in apart if pair not in empty]
    assert others == ([{"eps": 0.0, "beta2": 0.0}] if algorithm.name == "one_bit_lamb" else [])


@pytest.mark.parametrize("base", [Lamb, Eager])
def test_settings_of_which_there_is_no_case_are_refused_and_others_searched(base):
    under_test = type("Fixed", (base,), {"takes": {"beta2": 0.0, "eps": 0.0}})
    if base is Lamb:
        with pytest.raises(AdapterError, match=r"^of what Fixed takes there is no case: the gradient that is rebuilt"):
            Plan.of(Driver(under_test), "optimizer", BRIEF, 0)
    else:
        assert len(Plan.of(Driver(under_test), "optimizer", BRIEF, 0)) > 50


@pytest.mark.parametrize("space", [*SPACES, collective_space(Traits())])
def test_the_spaces_are_covered(space):
    rows = covering_rows(space, 0)
    levels = space.levels
    pairs = sum(levels[a][0] != levels[b][0] for a, b in combinations(range(len(levels)), 2))
    single = [name for name, values in space.features.items() if len(values) == 1]
    assert not single
    assert space.pair_count(rows) == pairs - len(space.excluded())
    assert all(space.allows(row) for row in rows)
    assert set(TRIPLES) <= {name for one in SPACES for name in one.features}


@cache
def quick_plan():
    return Plan.of(Driver(BaseOptimizer), "optimizer", PROFILES["quick"], 1)


def test_quick_has_every_magnitude_in_late_steps_on_every_number_of_workers():
    plan = quick_plan()
    wanted = set(product(*(plan.space.features[name] for name in LATE)))
    allowed = {levels for levels in wanted if not excluded(dict(zip(LATE, levels, strict=True)))}
    assert held([row for row, _ in plan.rows], LATE) == allowed
    huge_and_long, many_and_long = len(WORKERS), len([n for n in WORKERS if n[0] > 16]) * (len(MAGNITUDES) - 1)
    one_and_largest, largest_and_long = 2, len(WORKERS)
    assert len(wanted - allowed) == huge_and_long + many_and_long + one_and_largest + largest_and_long


def excluded(row):
    if row["magnitude"] == "largest" and row["workers"] == (1, 1):
        return True
    return row["compressed"][1] > 12 and (row["magnitude"] in ("huge", "largest") or row["workers"][0] > 16)


def test_missing_rows_are_few():
    rows = covering_rows(SMALL, 0)
    more = missing_rows(SMALL, 0, ("a", "b", "c"), rows)
    assert held([*rows, *more], ("a", "b", "c")) == held(covering_rows(SMALL, 0, ("a", "b", "c")), ("a", "b", "c"))
    assert 0 < len(more) < len(rows)
    assert missing_rows(SMALL, 0, ("a", "b", "c"), [*rows, *more]) == []


def test_what_no_row_can_hold_ends():
    """x needs y, y excludes every level of c: the pair is given up, the rest is covered."""
    space = Space(
        {"a": (1, 2), "b": (1, 2), "c": (1, 2)}, [("a", partial(operator.eq, 1), "c", (1, 2).__contains__, "no")]
    )
    rows = covering_rows(space, 0)
    assert held(rows, ("b", "c")) == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert np.all([row["a"] == 2 for row in rows])


def test_layouts_keep_the_numbers_and_the_case():
    assert tuple(layouts.LAYOUTS) == LAYOUTS
    for shape in ((1,), (7,), (1, 1), (3, 8)):
        array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for place in layouts.LAYOUTS.values():
            placed, before = place(array), array.copy()
            assert np.array_equal(placed, array)
            layouts.spoil(placed)
            assert np.array_equal(array, before)
    assert layouts.LAYOUTS["misaligned"](array).ctypes.data % 16
    assert not layouts.LAYOUTS["read-only"](array).flags.writeable
    assert not layouts.LAYOUTS["transposed"](array).flags.c_contiguous


def test_a_seed_gives_the_same_cases():
    first, second = (Plan.of(Driver(BaseOptimizer), "optimizer", BRIEF, 4) for _ in range(2))
    assert first.rows == second.rows
    for one, other in zip(first.rows, second.rows, strict=True):
        assert repr(first.case(*one)) == repr(second.case(*other))


def test_each_row_draws_its_own_numbers():
    """With one seed for a whole array, its rows drew the same D and the same T_w wherever their levels agreed."""
    plan = quick_plan()
    assert len({seed for _, seed in plan.rows}) == len(plan.rows)
    small = [item for item in plan.rows if item[0]["size"] == (41, 256) and item[0]["compressed"][1] <= 12]
    assert len({plan.case(*item).dim for item in small[:40]}) > 20


def test_every_length_of_a_warm_up_up_to_40_occurs():
    plan = quick_plan()
    cheap = [item for item in plan.rows if item[0]["size"][1] <= 256]
    lengths = {plan.case(*item).hyper.freeze_step for item in cheap}
    assert lengths == {*range(1, 41)}
