"""``gpu_impl.OneBitAdam`` on real processes under the whole harness; ``onebit verify`` tries more cases."""

from __future__ import annotations

import pytest

from verification.adapters import optimizer_worker
from verification.adapters.optimizer import Optimizer, TorchOptimizer
from verification.driver import Driver
from verification.registry import all_properties
from verification.runner import run_property

CASES = 8
NAMES = (
    "optimizer.programs",
    "optimizer.resume",
    "optimizer.resize",
    "optimizer.non_finite",
    "optimizer.exact_dyadic",
    "optimizer.extreme_gradients",
    "optimizer.variance_floor",
    "optimizer.dead_coordinates",
)
"""What processes, checkpoints and skipped steps can break; the kernels alone are checked by all properties."""


def verdict_on(under_test, name):
    (prop,) = [prop for prop in all_properties() if prop.id == name]
    return run_property(prop, Driver(under_test), max_examples=CASES, seconds=20, shrink=False)


@pytest.mark.parametrize(
    ("under_test", "name"),
    [*((Optimizer, name) for name in NAMES), (TorchOptimizer, "optimizer.programs")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_it_holds(under_test, name):
    verdict = verdict_on(under_test, name)
    assert verdict.outcome == "holds", verdict.findings


def forgetful_load(run, saved):
    """A resume that loses what this worker still owes."""
    optimizer_worker.load(run, saved)
    bucket = optimizer_worker.RUNS[run].bucket
    bucket.u_scale.zero_()


def test_a_bug_in_the_workers_is_found(monkeypatch):
    class Forgetful(Optimizer):
        def load(self, data, n_workers):
            with monkeypatch.context() as patch:
                patch.setattr("verification.adapters.optimizer.worker.load", forgetful_load)
                super().load(data, n_workers)

    assert verdict_on(Forgetful, "optimizer.resume").outcome == "fails"
