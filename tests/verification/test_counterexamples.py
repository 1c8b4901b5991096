"""Counterexamples are small, stay in their clause's domain while they shrink, and are programs that assert."""

from __future__ import annotations

import base64
import subprocess
import sys
import zlib
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from search_support import few

from verification.adapters.reference import ReferenceOptimizer
from verification.independent.collectives import VectorisedL1
from verification.independent.correct import correct_class
from verification.independent.optimizers import Eager, Published
from verification.mutants import checkpoints, error_feedback, events, memory, scale, signs
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.families import BaseCollectiveL1
from verification.protocol import Hyper, PublishedHyper, Traits
from verification.search.cases import CollectiveCase
from verification.search.causes import Causes, Failing
from verification.search.clauses import clause_of
from verification.search.collective_space import large_exact_cases
from verification.search.driver import Driver
from verification.search.dyadic import exact_round, rounds_nowhere
from verification.search.literals import hyper_text, literal
from verification.search.plan import Plan
from verification.search.runs import check, findings
from verification.search.search import search


def explained(under_test, clauses, profile, exact=False):
    """The causes for which these clauses fail, each from the first case of the plan (or exact one) that breaks it."""
    driver, failing = Driver(under_test), {}
    plan = Plan.of(driver, clauses[0].split(".")[0], profile, 0)
    cases = chain(() if exact else (plan.case(*item) for item in plan.rows), (make() for make in plan.specials))
    for case in cases:
        for found in check(driver, case, set()):
            name = f"{plan.level}.{found.clause}"
            if name in clauses and name not in failing:
                failing[name] = Failing(clause_of(name), case, (found,))
        if len(failing) == len(clauses):
            break
    causes = Causes(driver, 400)
    assert set(causes.explain(list(failing.values()))) == set(clauses)
    return causes.found


def only(under_test, clauses, profile, exact=False):
    (cause,) = explained(under_test, clauses, profile, exact)
    return cause


def run(program, under_test, base=None):
    """A program run by itself in this process, with the class of the file or with ``base`` of the same file."""
    text = program if base is None else program.replace(f"[{under_test.__name__!r}]", f"[{base.__name__!r}]")
    exec(compile(text, "program", "exec"), {})


def test_forgotten_server_error_needs_two_elements(brief):
    cause = only(error_feedback.NoServerFeedback, ["collective.conservation"], brief)
    assert cause.case.n_workers <= 2
    assert cause.case.dim <= 2
    assert len(cause.case.calls) == 1


def test_padding_in_the_scale_needs_one_element(brief):
    cause = only(scale.PaddingCounted, ["collective.worker_scale"], brief)
    assert (cause.case.n_workers, cause.case.dim) == (1, 1)
    assert "the l2 scale of its u is" in cause.findings[0].message


def test_a_resume_bug_needs_one_checkpoint_and_is_one_cause(brief):
    """What a load loses is lost by a load into a used instance, and when the number of workers changes."""
    clauses = ["optimizer.resume", "optimizer.resume_used", "optimizer.resize"]
    cause = only(few(checkpoints.ServerErrorNotSaved), clauses, brief)
    assert cause.case.program.count("reload") == 1
    assert cause.case.hyper.freeze_step == 1
    assert cause.case.dim <= 3
    assert sorted(cause.clauses) == sorted(clauses)


class TieIsMinus(BaseOptimizer):
    collective = signs.ServerZeroIsMinus


def test_a_tie_is_still_a_tie_after_shrinking(brief):
    """The run without rounding keeps what makes it so, and a correct class passes it."""
    cause = only(TieIsMinus, ["optimizer.server_bits"], brief, exact=True)
    assert cause.case.exact
    assert cause.case.hyper.beta1 == 0.5
    assert cause.case.hyper.scale in ("l1", "l2")
    assert findings(correct_class("optimizer", Driver(BaseOptimizer).traits), cause.case) == []
    with pytest.raises(AssertionError):
        run(cause.program, TieIsMinus)
    run(cause.program, TieIsMinus, BaseOptimizer)


class LateTieIsMinus(BaseCollectiveL1):
    """Ties of large buffers alone, where a scale is not zero."""

    def server_signs(self, w_C):
        wrong = w_C.size >= 1024 and self.large
        return super().server_signs(w_C) if not wrong else np.where(w_C > 0, np.float32(1), np.float32(-1))

    def allreduce(self, buffers_ND, *others, **more):
        self.large = np.abs(buffers_ND).max(initial=0) > 0.5
        return super().allreduce(buffers_ND, *others, **more)


def test_large_cases_are_written_shortly():
    """16384 numbers in which nothing rounds: patterns and runs of zeros, not lists."""
    case = next(case for case in large_exact_cases(Traits(scale="l1")) if case.n_workers == 4)
    assert case.dim == 16384
    found = findings(LateTieIsMinus, case)
    assert {one.clause for one in found} == {"server_bits"}
    causes = Causes(Driver(LateTieIsMinus), 200)
    causes.explain([Failing(clause_of("collective.server_bits"), case, tuple(found))])
    (cause,) = causes.found
    assert cause.case.exact
    assert len(cause.program) < 1200, cause.program
    with pytest.raises(AssertionError):
        run(cause.program, LateTieIsMinus)
    run(cause.program, LateTieIsMinus, BaseCollectiveL1)


def test_exact_rounds_are_told_from_others():
    for traits, n, dim in ((Traits(), 4, 4**7), (Traits(scale="l1"), 2, 128), (Traits(dtype="float64"), 1, 16)):
        for seed in range(4):
            inputs = exact_round(traits, n, dim, seed).calls[0]
            assert rounds_nowhere(traits, inputs)
            buffers_ND = inputs[0].copy()
            buffers_ND[0, 0] += buffers_ND.dtype.type(1 / 3)
            assert not rounds_nowhere(traits, (buffers_ND, *inputs[1:]))
    still = (np.array([[2.0**24, 1.0]], np.float32), np.zeros((1, 2), np.float32), np.zeros(2, np.float32))
    assert not rounds_nowhere(Traits(scale="l1"), still)


def test_what_a_broken_premise_hides_is_no_other_cause():
    """Nothing is compressed: where a worker sends more than one magnitude, the server's scale can't be judged."""

    class Nothing(BaseCollective):
        def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
            u_ND = buffers_ND + worker_errors_ND
            return u_ND.mean(axis=0) + server_error_D, np.zeros_like(u_ND), np.zeros_like(server_error_D)

    zeros_ND, failing = np.zeros((1, 2), np.float32), []
    for names, buffer, error in (("worker_one_bit, one_bit", 1, 0), ("server_scale", 0, 1)):
        call = (np.array([[buffer, 0]], np.float32), zeros_ND, np.array([error, 0], np.float32))
        failing += [Failing(clause_of(f"collective.{name}"), CollectiveCase((call,)), ()) for name in names.split(", ")]
    causes = Causes(Driver(Nothing), 400)
    causes.explain(failing)
    (cause,) = causes.found
    assert sorted(cause.clauses) == sorted(one.clause.id for one in failing)
    assert cause.program.count("\nassert ") == 2


def test_two_faults_are_two_causes(brief):
    class Both(scale.PaddingCounted):
        def server_signs(self, w_C):
            return np.where(w_C > 0, np.float32(1), np.float32(-1))

    found = explained(Both, ["collective.worker_scale", "collective.server_bits"], brief)
    assert [cause.clauses for cause in found] == [["collective.worker_scale"], ["collective.server_bits"]]


def test_wrong_bits_of_a_worker_are_no_fault_of_the_server():
    """An exact round is made for the right messages: beside a wrong one the server's numbers may round."""

    class Strict(VectorisedL1):
        scale = "l2"

        def sign(self, u):
            return np.where(u > 0, 1, -1).astype(self.dtype)

        def server_sign(self, w_D, s_N):
            return np.where(w_D >= 0, 1, -1).astype(self.dtype)

    for seed in range(20):
        case = exact_round(Traits(), 1, 16, seed)
        assert {one.clause for one in findings(Strict, case)} == {"worker_bits"}


SHOWN = [
    (error_feedback.NoServerFeedback, ["collective.conservation"], BaseCollective, "output_D.item(0)"),
    (memory.ContiguousAssumed, ["collective.worker_bits"], BaseCollective, "found = findings("),
    (checkpoints.MomentumNotSaved, ["optimizer.resume"], BaseOptimizer, "before = mine.snapshot()"),
    (events.FloorLostAtLoad, ["optimizer.resume", "optimizer.floor"], BaseOptimizer, "plain, end = run(False), run("),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("under_test", "clauses", "base", "form"), SHOWN, ids=lambda item: getattr(item, "id", None))
def test_programs_fail_by_their_assertion_and_pass_for_a_correct_class(under_test, clauses, base, form, brief):
    cause = only(under_test, clauses, brief)
    assert form in cause.program
    with pytest.raises(AssertionError):
        run(cause.program, under_test)
    run(cause.program, under_test, base)


def test_a_program_runs_by_itself(brief, tmp_path):
    cause = only(error_feedback.NoServerFeedback, ["collective.conservation"], brief)
    assert f"NoServerFeedback = runpy.run_path({str(Path(error_feedback.__file__))!r})" in cause.program
    correct = cause.program.replace("['NoServerFeedback']", "['BaseCollective']")
    for text, status, said in ((cause.program, 1, "AssertionError"), (correct, 0, "")):
        file = tmp_path / "shown.py"
        file.write_text(text)
        ran = subprocess.run([sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (status, ""), ran.stderr
        assert said in ran.stderr


def test_what_a_class_raises_is_raised_by_the_program(brief):
    class Odd(Eager):
        def step(self, grads_ND):
            if self.n == 7:
                raise ZeroDivisionError("seven")
            super().step(grads_ND)

    cause = only(Odd, ["optimizer.raises"], brief)
    (text,) = (line for line in cause.program.splitlines() if line.startswith("# "))
    assert text == "# protocol: Odd.step raised ZeroDivisionError: seven"
    body = cause.program.partition("['Odd']")[2]
    with pytest.raises(ZeroDivisionError):
        exec(body, {"np": np, "Hyper": Hyper, "Odd": Odd})
    exec(body, {"np": np, "Hyper": Hyper, "Odd": ReferenceOptimizer})


def test_every_failing_clause_has_its_cause_and_program(brief):
    result = search(Driver(few(signs.ZeroIsMinus)), profile=brief)
    assert [cause.clauses for cause in result.causes] == [["collective.worker_bits"]]
    for verdict in result.verdicts:
        assert (verdict.cause, bool(verdict.program)) == ((1, True) if verdict.outcome == "fails" else (0, False))


def test_literals_are_exact_and_short():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((2, 600))
    arrays = (
        rng.standard_normal((3, 4)), np.array([0.0, -0.0, np.nan, np.inf, 1e-40, 1e30]), np.ones(50), np.zeros((2, 70)),
        np.resize([1.0, -1.0], (3, 999)), np.eye(64), rng.integers(-3, 4, (40, 5)), -np.zeros(9), dense,
        np.random.default_rng(0).integers(-3, 4, (1, 9000)),
    )  # fmt: skip
    for dtype in (np.float32, np.float64):
        for array in arrays:
            exact = array.astype(dtype)
            text = literal(exact)
            again = eval(text, {"np": np, "base64": base64, "zlib": zlib})
            assert (again.tobytes(), again.dtype, again.shape) == (exact.tobytes(), exact.dtype, exact.shape)
            assert len(text) < 1500 or array is dense


def test_hyper_parameters_at_their_defaults_are_left_out():
    hyper = Hyper(beta1=0.5, freeze_step=2, scale_block=8)
    assert hyper_text(hyper) == "Hyper(beta1=0.5, freeze_step=2, scale_block=8)"
    assert eval(hyper_text(hyper)) == hyper
    published = Driver(Published).traits.hyper(freeze_step=1, compress="update")
    assert hyper_text(published) == "PublishedHyper(freeze_step=1)"
    assert eval(hyper_text(published)) == published == PublishedHyper(freeze_step=1)
