"""``gpu_impl.OneBitAdam`` on real processes under the harness; ``onebit verify`` tries more cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from gpu_impl.kernels.marks import is_marked
from verification.adapters import optimizer_worker
from verification.adapters.optimizer import OneBitLamb, Optimizer, TorchOptimizer, ZeroOneAdam
from verification.protocol import Hyper
from verification.search.driver import Driver
from verification.search.plan import Plan, Profile
from verification.search.runs import check

CHECKPOINTS = ("reload", "reload used", "resize", "resize twice", "save", "none")


def findings(under_test, cases, **levels):
    """What is found in random cases with these levels, and in one without rounding."""
    driver = Driver(under_test)
    plan = Plan.of(driver, "optimizer", Profile(0, 1, 0, triples=False, minutes=1, simplifying=0), 0)
    rng = np.random.default_rng(0)
    rows = (plan.space.random_row(rng) for _ in range(10**4))
    wanted = (row for row in rows if all(row[name] == level for name, level in levels.items()) and row["size"][1] < 300)
    chosen = [plan.case(row, number) for number, row in enumerate(islice(wanted, cases))]
    return [one for case in [*chosen, *plan.exact_cases(3)] for one in check(driver, case, set())]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_it_holds(checkpoint):
    assert findings(Optimizer, 4, checkpoint=checkpoint) == []


def test_the_workers_write_nothing_into_the_terminal(capfd):
    """They log a warning where no gradient came before the freeze; to a user's own run it says something."""
    optimizer = Optimizer()
    optimizer.start(np.zeros(3, np.float32), 2, Hyper(freeze_step=1))
    optimizer.step(np.zeros((2, 3), np.float32))
    assert "".join(capfd.readouterr()) == ""


def test_the_torch_kernels_hold():
    assert findings(TorchOptimizer, 3, checkpoint="reload") == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("under_test", [ZeroOneAdam, OneBitLamb])
def test_the_family_holds(under_test, checkpoint):
    assert findings(under_test, 2, checkpoint=checkpoint) == []


class ForgetsItsTrust(OneBitLamb):
    """A resume that begins the mean of the trust ratio anew."""

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.pool.call(forget_trust, self.run)


def forget_trust(run):
    optimizer_worker.RUNS[run].optimizer.run.numbers("trust_mean").fill_(0.0)


class SwapsItsState(ZeroOneAdam):
    """It shows what it has added up as its momentum."""

    def snapshot(self):
        seen = super().snapshot()
        return replace(seen, momentum_ND=seen.accumulated_ND)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("under_test", "clauses"),
    [(ForgetsItsTrust, {"resume"}), (SwapsItsState, {"local_momentum", "meeting"})],
)
def test_a_bug_in_the_family_is_found(under_test, clauses):
    assert {one.clause for one in findings(under_test, 4, checkpoint="reload", when="compressed")} & clauses


def forgetful_load(run, saved):
    """A resume that loses this worker's residual."""
    optimizer_worker.load(run, saved)
    bucket = optimizer_worker.RUNS[run].bucket
    bucket.momentum.masked_fill_(~is_marked(bucket.momentum), 0)  # after a load it holds the error itself


def test_a_bug_in_the_workers_is_found(monkeypatch):
    class Forgetful(Optimizer):
        def load(self, data, n_workers):
            with monkeypatch.context() as patch:
                patch.setattr("verification.adapters.optimizer.worker.load", forgetful_load)
                super().load(data, n_workers)

    assert {one.clause for one in findings(Forgetful, 4, checkpoint="reload", when="compressed")} & {"resume"}


def test_a_run_beside_many_others_is_not_forgotten():
    """A worker keeps few runs; the one that began first was dropped though it went on."""
    params_D, hyper = np.ones(3, np.float32), Hyper(freeze_step=1)
    beside = Optimizer()
    beside.start(params_D, 1, hyper)
    for _ in range(optimizer_worker.MOST_RUNS + 1):
        Optimizer().start(params_D, 1, hyper)
        beside.step(np.ones((1, 3), np.float32))
    assert beside.snapshot().step == optimizer_worker.MOST_RUNS + 1
