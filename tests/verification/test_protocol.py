"""The protocol's own example runs; wrong classes get one sentence."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from verification import protocol
from verification.driver import Driver
from verification.finding import AdapterError, Misbehaved
from verification.protocol import Traits, levels
from verification.registry import all_properties
from verification.runner import probe, run_property


def docstring_example() -> type:
    lines = protocol.__doc__.split("A collective in ten lines:")[1].split("``onebit verify``")[0]
    code = textwrap.dedent(lines)
    assert len([line for line in code.strip().splitlines() if line.strip()]) <= 10
    namespace: dict = {}
    exec(code, namespace)
    return namespace["NoCompression"]


def test_the_example_conserves_and_does_not_compress():
    driver = Driver(docstring_example())
    outcomes = {p.id: run_property(p, driver, max_examples=20) for p in all_properties() if p.level == "collective"}
    assert outcomes["collective.conservation"].outcome == "holds"
    assert outcomes["collective.one_bit"].outcome == "fails"
    assert outcomes["collective.worker_one_bit"].outcome == "fails"
    assert outcomes["collective.wire_bytes"].outcome == "skipped"


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"start": None}, "neither allreduce"),
        ({"start": lambda self: None}, r"optimizer without step\(\), snapshot\(\)"),
        ({"allreduce": lambda self, *a: a, "scale": "l3"}, "scale must be one of"),
        ({"allreduce": lambda self, *a: a, "dtype": "float16"}, "dtype must be one of"),
        ({"allreduce": lambda self, *a: a, "chunk_multiple": 0}, "chunk_multiple must be an integer >= 1"),
        ({"allreduce": lambda self, *a: a, "workers": (0,)}, "workers must be integers >= 1"),
    ],
)
def test_wrong_classes(attributes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Driver(type("Mine", (), attributes))


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (lambda b, e, s: None, "must return"),
        (lambda b, e, s: (b, e, s), r"output_D must have shape \(16,\), got \(2, 16\)"),
        (lambda b, e, s: (s.astype(np.float64), e, s), "must be float32, got float64"),
        (lambda b, e, s: ([0.0] * 16, e, s), "must be a NumPy array, got list"),
        (lambda b, e, s: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_wrong_results_are_one_sentence(result, sentence):
    mine = type("Mine", (), {"allreduce": lambda self, b, e, s: result(b, e, s)})
    with pytest.raises(AdapterError, match=sentence) as caught:
        probe(Driver(mine), all_properties())
    assert "\n" not in str(caught.value)


def test_chunks_follow_the_traits():
    assert [c.stop - c.start for c in Traits().chunks(20, 2)] == [16, 4]
    assert [c.stop - c.start for c in Traits(chunk_multiple=32).chunks(20, 2)] == [20, 0]
    assert [c.stop - c.start for c in Traits(server_chunks=1).chunks(20, 4)] == [20]
    assert levels(docstring_example()) == ("collective",)


def test_a_snapshot_must_be_whole():
    class Mine:
        def start(self, params_D, n_workers, hyper): ...
        def step(self, grads_ND): ...
        def snapshot(self):
            return object()

    with pytest.raises(Misbehaved, match="snapshot has no params_ND"):
        Driver(Mine).snapshot(Mine(), 1, 1)
