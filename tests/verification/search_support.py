"""A small search, for tests that need no more, and the relation on the steps of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import Hyper
from verification.relation.step import StepRelation
from verification.search.cases import OptimizerCase
from verification.search.driver import Driver
from verification.search.plan import Profile
from verification.search.runs import follow

BRIEF = Profile(1, 1, 12, triples=False, minutes=30, simplifying=40, largest=300, longest=12)
"""One covering array of sizes up to 1024 and up to 12 compressed steps: every pair of levels once; twelve seeds without
rounding."""


def few(under_test, workers=(1, 2)):
    """The same class for few workers alone: half of the cases, for tests to which their number is nothing."""
    return type(under_test.__name__, (under_test,), {"workers": workers, "__module__": under_test.__module__})


def transitions(under_test=BaseOptimizer, dim=41, **changes):
    """The relation on each of five steps of two workers, the variance frozen after the second."""
    rng = np.random.default_rng(3)
    grads_TND = rng.standard_normal((5, 2, dim)).astype(np.float32) + np.float32(0.5)
    hyper = replace(Hyper(freeze_step=2, weight_decay=0.1, variance_floor=0.5), **changes)
    driver = Driver(under_test)
    case = OptimizerCase(np.ones(dim, np.float32), grads_TND, 2, hyper, ("step",) * 5)
    moves = follow(driver, case, {"snapshots"})
    return [StepRelation(move.before, move.grads_ND, move.after, hyper, driver.traits) for move in moves]
