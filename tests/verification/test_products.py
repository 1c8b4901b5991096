"""The pytest decorator, the runtime monitor, and the adapters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reference.allreduce import chunk_slices
from verification.adapters.reference import ReferenceCollective, ReferenceOptimizer
from verification.driver import Driver
from verification.monitor import Monitor, measure
from verification.mutants.error_feedback import NoServerFeedback, OptimizerServerForgets
from verification.mutants.update import LastWorkerLags
from verification.property import step_clauses
from verification.protocol import Hyper
from verification.pytest_plugin import parametrize_with_properties
from verification.registry import all_properties
from verification.runner import run_all
from verification.strategies import gaussian, optimizer_cases

REPORT = Path(__file__).parents[2] / "docs" / "conformance" / "deepspeed-0.19.6.json"


@parametrize_with_properties(ReferenceCollective)
def test_reference_collective(check_property):
    check_property()


def test_decorator_marks_expected_failures():
    decorator = parametrize_with_properties(
        NoServerFeedback, expected_failures={"collective.conservation": "no feedback on the server"}
    )
    cases = {case.id: case for case in decorator.args[1]}
    assert [mark.name for mark in cases["collective.conservation"].marks] == ["xfail"]
    with pytest.raises(AssertionError, match=r"(?s)L1: Output and new errors.*impl\.allreduce"):
        cases["collective.conservation"].values[0]()
    cases["collective.worker_bits"].values[0]()
    with pytest.raises(ValueError, match="names no property"):
        parametrize_with_properties(NoServerFeedback, expected_failures={"optimizer.apply": ""})


def watch(under_test: type, steps: int = 6, every: int = 1):
    """Findings of the monitor on a run, each worker with what it knows alone."""
    rng, n, dim = np.random.default_rng(0), 3, 200
    instance, monitor, found = under_test(), Monitor(0.9, every=every, sample=50), []
    instance.start(rng.standard_normal(dim).astype(np.float32), n, Hyper(freeze_step=1))
    chunks = chunk_slices(dim, n)
    for t in range(1, steps + 1):
        grads_ND, s = rng.standard_normal((n, dim)).astype(np.float32), instance.snapshot()
        checked = t > 1 and monitor.due(t)
        seen = [
            monitor.before(t, s.momentum_D, grads_ND[i], s.worker_errors_ND[i], chunks[i], s.server_error_D[chunks[i]])
            for i in range(n if checked else 0)
        ]
        instance.step(grads_ND)
        s = instance.snapshot()
        if checked:
            reports = [
                monitor.after(seen[i], s.params_ND[i], s.momentum_D, s.worker_errors_ND[i], s.server_error_D[chunks[i]])
                for i in range(n)
            ]
            found += monitor.judge(np.stack(reports))
    return found


def test_monitor():
    assert watch(ReferenceOptimizer) == []
    assert {finding.law for finding in watch(OptimizerServerForgets)} == {"L1"}
    assert {finding.law for finding in watch(LastWorkerLags)} == {"L6"}
    cost = measure(dim=20_000, n_workers=2, sample=256, repeats=3)
    assert cost["check_seconds"] > 0
    assert cost["bytes"] == 8 * (5 * 256 + 1)


def test_reference_optimizer_holds():
    few = [replace(prop, cost=8 * prop.cost) for prop in all_properties()]
    verdicts = run_all(Driver(ReferenceOptimizer), few, profile="quick", seed=5)
    assert [v.prop.id for v in verdicts if v.outcome != "holds"] == []


def test_torch_adam_is_a_correct_warm_up():
    pytest.importorskip("torch")
    from hypothesis import given, seed, settings

    from verification.adapters.torch_adam import TorchAdam

    driver = Driver(TorchAdam)
    cases = optimizer_cases(driver.traits, (gaussian,), compressed=(0,), bias_correction=True, live=False)
    check = step_clauses("count", "adam_momentum", "adam_variance", "adam_params", "replicas")

    @seed(0)
    @settings(max_examples=40, database=None, deadline=None)
    @given(cases)
    def test(case):
        assert list(check(driver, case)) == []

    test()


DEEPSPEED = {
    ("DeepSpeedOptimizer", "optimizer.warm_up"): "step 1",  # the first step is dropped
    ("DeepSpeedOptimizerAfterItsFirstStep", "optimizer.bias_correction"): "x[0]",  # accepted and ignored
    ("DeepSpeedOptimizerAfterItsFirstStep", "optimizer.worker_message"): "scale",  # padding counted
    ("DeepSpeedOptimizer", "optimizer.resume"): "replicas differ",  # a step on local gradients
    ("DeepSpeedOptimizerAfterItsFirstStep", "optimizer.dead_coordinates"): "dead",  # jumps by lr scale/eps
    ("DeepSpeedCollective", "collective.conservation"): "output",  # -0.0 sent as -1, accounted as +1
}


@pytest.mark.parametrize(("where", "what"), DEEPSPEED.items())
def test_the_report_on_deepspeed_contains_the_known_defects(where, what):
    rows = {(row["class"], row["property"]): row for row in json.loads(REPORT.read_text())["properties"]}
    row = rows[where]
    assert row["outcome"] == "fails"
    assert what in row["findings"][0]["message"]
    assert "impl." in row["counterexample"]
