"""What lies outside what a correct class can do: there nothing is found, and no counterexample is looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from verification.independent.collectives import Vectorised
from verification.independent.correct import CORRECT, correct_class
from verification.independent.optimizers import Eager
from verification.protocol import Hyper
from verification.search.cases import OptimizerCase
from verification.search.driver import Driver
from verification.search.plan import Plan, Profile
from verification.search.runs import check
from verification.search.search import OUTSIDE, search
from verification.search.simplify import overflows, simplest


class FarOut(Eager):
    """Correct, and with hyper-parameters with which x grows ninefold a step."""

    workers = 1, 3
    takes: ClassVar[dict[str, Any]] = {"lr": 100.0, "weight_decay": 0.1}


class Raised(Eager):
    """Correct, with a floor above every v."""

    workers = 1, 3
    takes: ClassVar[dict[str, Any]] = {"variance_floor": 3.0}


SMALL = Profile(arrays=1, draws=1, exact=12, triples=False, minutes=10, simplifying=40, largest=7)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("under_test", "exact", "overflows"), [(FarOut, 12, True), (Raised, 60, False)])
def test_where_a_correct_class_overflows_nothing_is_found(under_test, exact, overflows):
    result = search(Driver(under_test), profile=replace(SMALL, exact=exact))
    assert not [one.clause.id for one in result.verdicts if one.outcome == "fails"]
    assert any(OUTSIDE in note for note in result.notes) == overflows


DECLARED = (
    {},
    {"server_chunks": 1},
    {"server_chunks": 3, "chunk_multiple": 32},
    {"server_chunks": 1, "scale": "l1"},
    {"chunk_multiple": 16, "workers": (1, 3, 12)},
    {"dtype": "float64", "scale": "l2"},
    {"complement": "subtracted"},
    {"correction": "float32"},
    {"flushes_subnormals": True},
    {"scale_block": 24},
)
"""What a class may say that it is."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("declared", DECLARED, ids=str)
@pytest.mark.parametrize("base", [Vectorised, *CORRECT.values()], ids=lambda one: one.__name__)
def test_the_correct_class_passes_what_is_declared(base, declared):
    """Else every case in which it fails would be left out, and faults with it: a smaller case would never be found."""
    level = "collective" if base is Vectorised else "optimizer"
    if level == "optimizer" and "scale_block" in declared:
        pytest.skip("an optimizer's blocks are a hyper-parameter")
    traits = Driver(type("Declares", (base,), declared)).traits
    correct = correct_class(level, traits)
    assert correct is not None
    plan = Plan.of(Driver(correct), level, replace(SMALL, largest=40), 0)
    with np.errstate(all="ignore"):
        for row in plan.rows[:: max(1, len(plan.rows) // 8)]:
            assert next(check(Driver(correct), plan.case(*row), set()), None) is None


def test_a_smaller_case_stays_below_what_overflows():
    """A class that forgets its error fails at any magnitude; none of the cases that are tried squares 1.9e19."""
    grads_TND = np.full((3, 1, 4), 1.7e19, np.float32)
    case = OptimizerCase(np.zeros(4, np.float32), grads_TND, 1, Hyper(freeze_step=2), ("step",) * 3)
    seen = []

    def fails(candidate):
        seen.append(candidate)
        return float(np.abs(candidate.grads_TND).max()) > 1.5e19

    assert overflows(replace(case, grads_TND=grads_TND * np.float32(1.2)))
    assert not overflows(case)
    simplest(case, fails, Driver(Eager).traits)
    assert seen
    assert not any(overflows(one) for one in seen)
