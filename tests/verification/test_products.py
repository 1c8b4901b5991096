"""The pytest decorator, the runtime monitor, and the adapters."""

from __future__ import annotations

import numpy as np
import pytest
from search_support import BRIEF, few

from reference.allreduce import chunk_slices
from verification.adapters.reference import ReferenceCollective, ReferenceOptimizer
from verification.monitor import Monitor, measure
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.error_feedback import NoServerFeedback
from verification.mutants.update import LastWorkerLags
from verification.protocol import Hyper
from verification.pytest_plugin import parametrize_with_properties
from verification.search.driver import Driver
from verification.search.search import search


@parametrize_with_properties(ReferenceCollective, profile=BRIEF)
def test_reference_collective(check_property):
    check_property()


def test_decorator_marks_expected_failures():
    why = {"collective.conservation": "no feedback on the server"}
    decorator = parametrize_with_properties(few(NoServerFeedback), profile=BRIEF, expected_failures=why)
    cases = {case.id: case for case in decorator.args[1]}
    assert [mark.name for mark in cases["collective.conservation"].marks] == ["xfail"]
    with pytest.raises(AssertionError, match=r"(?s)L1: Output and new errors.*mine\.allreduce"):
        cases["collective.conservation"].values[0]()
    cases["collective.worker_bits"].values[0]()
    with pytest.raises(ValueError, match="names no clause"):
        parametrize_with_properties(NoServerFeedback, expected_failures={"optimizer.apply": ""})


def test_an_expected_failure_of_a_clause_that_is_left_out_says_why_it_is():
    silent = type("Silent", (NoServerFeedback,), {"bytes_per_worker": None})
    with pytest.raises(ValueError, match=r"collective\.wire_bytes \(Silent has no bytes_per_worker\(\)\)"):
        parametrize_with_properties(silent, expected_failures={"collective.wire_bytes": ""})


def test_decorator_does_not_let_pass_what_was_not_checked():
    class Refuses(ReferenceOptimizer):
        def start(self, params_D, n_workers, hyper):
            raise NotImplementedError("next year")

    cases = parametrize_with_properties(Refuses, profile=BRIEF).args[1]
    sentence = r"(?s)not checked: \d+ cases of its domain were refused: next year.*refused \(next year\)"
    with pytest.raises(AssertionError, match=sentence):
        cases[0].values[0]()


class ServerForgets(BaseOptimizer):
    collective = NoServerFeedback


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
    assert {finding.law for finding in watch(ServerForgets)} == {"L1"}
    assert {finding.law for finding in watch(LastWorkerLags)} == {"L6"}
    cost = measure(dim=20_000, n_workers=2, sample=256, repeats=3)
    assert cost["check_seconds"] > 0
    assert cost["bytes"] == 8 * (5 * 256 + 1)


@pytest.mark.soak
def test_reference_optimizer_holds():
    """Just what ``onebit verify`` and ``onebit report`` do; on other seeds correct classes are tried by the mutants."""
    result = search(Driver(ReferenceOptimizer))
    assert [verdict for verdict in result.verdicts if verdict.outcome != "holds"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "under_test", [few(ReferenceOptimizer, (1, 2, 3)), pytest.param(ReferenceOptimizer, marks=pytest.mark.soak)]
)
def test_reference_optimizer_holds_in_one_array(under_test):
    result = search(Driver(under_test), profile=BRIEF, seed=5)
    assert [verdict for verdict in result.verdicts if verdict.outcome != "holds"] == []


def test_torch_adam_is_a_correct_warm_up():
    pytest.importorskip("torch")
    from verification.adapters.torch_adam import TorchAdam

    result = search(Driver(TorchAdam), profile=BRIEF)
    judged = {verdict.clause.id: verdict.outcome for verdict in result.verdicts}
    assert {"optimizer.adam_momentum", "optimizer.adam_variance", "optimizer.adam_params"} <= set(judged)
    assert {name for name, outcome in judged.items() if outcome != "holds"} == set()
