"""Counterexamples are small, stay about the same thing while they shrink, and can be pasted."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np

from verification.cases import CollectiveCase
from verification.driver import Driver
from verification.mutants import checkpoints, error_feedback, scale
from verification.registry import all_properties
from verification.runner import check_case, run_property
from verification.shrink import simplify
from verification.snippet import literal, snippet

PROPERTIES = {prop.id: prop for prop in all_properties()}


def failure(prop: str, under_test: type):
    verdict = run_property(PROPERTIES[prop], Driver(under_test), max_examples=60)
    assert verdict.outcome == "fails"
    return verdict


def test_forgotten_server_error_needs_two_elements():
    case = failure("collective.conservation", error_feedback.NoServerFeedback).case
    assert case.n_workers <= 2
    assert case.dim <= 2


def test_padding_in_the_scale_needs_one_element():
    verdict = failure("collective.worker_scale", scale.PaddingCounted)
    assert (verdict.case.n_workers, verdict.case.dim) == (1, 1)
    assert verdict.findings[0].clause == "worker_scale"
    assert "the l2 scale of its u is" in verdict.findings[0].message


def test_a_resume_bug_needs_one_checkpoint():
    case = failure("optimizer.resume", checkpoints.ServerErrorNotSaved).case
    assert case.operations.count("reload") == 1
    assert case.hyper.freeze_step == 1
    assert case.dim <= 2


def test_shrinking_stays_inside_what_fails():
    prop, driver = PROPERTIES["collective.conservation"], Driver(error_feedback.NoServerFeedback)
    rng = np.random.default_rng(0)
    inputs = tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((5, 100), (5, 100), (100,)))
    small = simplify(CollectiveCase((inputs,)), lambda case: bool(check_case(prop, driver, case)))
    assert check_case(prop, driver, small)
    assert small.dim <= 2


def test_literals_are_exact():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        for array in (rng.standard_normal((3, 4)), np.array([0.0, -0.0, np.nan, np.inf, 1e-40, 1e30]), np.ones(50)):
            exact = array.astype(dtype)
            again = eval(literal(exact), {"np": np})
            assert again.tobytes() == exact.tobytes()
            assert again.dtype == exact.dtype


def test_snippets_run():
    source = str(Path(error_feedback.__file__))
    verdict = failure("collective.conservation", error_feedback.NoServerFeedback)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(snippet(verdict.case, source, "NoServerFeedback", "L1"), {})
    assert "array" in printed.getvalue()
    verdict = failure("optimizer.resume", checkpoints.ServerErrorNotSaved)
    with contextlib.redirect_stdout(printed):
        exec(snippet(verdict.case, str(Path(checkpoints.__file__)), "ServerErrorNotSaved"), {})
    assert "Snapshot" in printed.getvalue()
