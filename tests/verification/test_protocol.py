"""The protocol's own example runs; wrong classes get one sentence."""

from __future__ import annotations

import math
import sys
import textwrap

import numpy as np
import pytest
from search_support import few

from verification import protocol
from verification.protocol import Traits, levels
from verification.relation.finding import AdapterError, Misbehaved
from verification.search.driver import Driver
from verification.search.search import probe, search

ZERO_ONE = {"algorithm": "zero_one_adam", **dict.fromkeys(("start", "step", "snapshot"), lambda self, *a: None)}


def docstring_example() -> type:
    lines = protocol.__doc__.split("A collective in ten lines:")[1].split("``onebit verify``")[0]
    code = textwrap.dedent(lines)
    assert len([line for line in code.strip().splitlines() if line.strip()]) <= 10
    namespace: dict = {}
    exec(code, namespace)
    return namespace["NoCompression"]


def test_the_example_conserves_and_does_not_compress(brief):
    result = search(Driver(few(docstring_example())), profile=brief)
    outcomes = {verdict.clause.id: verdict.outcome for verdict in result.verdicts}
    assert outcomes["collective.conservation"] == "holds"
    assert outcomes["collective.one_bit"] == "fails"
    assert outcomes["collective.worker_one_bit"] == "fails"
    assert outcomes["collective.server_scale"] in ("not checked", "fails")
    assert result.left_out == {"NoCompression has no bytes_per_worker()": ["wire_bytes"]}


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"start": None}, "neither allreduce"),
        ({"start": lambda self: None}, r"optimizer without step\(\), snapshot\(\)"),
        ({"allreduce": lambda self, *a: a, "scale": "l3"}, "scale must be one of"),
        ({"allreduce": lambda self, *a: a, "scale": lambda self: 1}, r"scale must be one of .* got a method: give it"),
        ({"allreduce": lambda self, *a: a, "dtype": "float16"}, "dtype must be one of"),
        ({"allreduce": lambda self, *a: a, "correction": np.float32}, r"correction must be one of .* got <class"),
        ({"allreduce": lambda self, *a: a, "chunk_multiple": 0}, "chunk_multiple must be an integer >= 1"),
        ({"allreduce": lambda self, *a: a, "workers": (0,)}, "workers must be integers >= 1"),
        ({"allreduce": lambda self, *a: a, "workers": 2}, r"in a tuple, such as \(2, 4\), got 2"),
        ({"allreduce": lambda self, *a: a, "workers": (True,)}, "workers must be integers >= 1"),
        ({"allreduce": lambda self, *a: a, "sizes": range(0)}, "sizes must be integers >= 1"),
        ({"allreduce": lambda self, *a: a, "sizes": "many"}, "sizes must be integers >= 1"),
        ({"allreduce": lambda self, *a: a, "takes": {"betas": 1}}, "takes must map names of lr"),
        ({"allreduce": lambda self, *a: a, "takes": {"scale": 1}}, "scale must have values like 'l2'"),
        ({"allreduce": lambda self, *a: a, "takes": {"eps": ()}}, "eps must have values like"),
        (
            {"allreduce": lambda self, *a: a, "takes": {"lr": math.nan}},
            "no run can have this: lr must be",
        ),
        (
            {"allreduce": lambda self, *a: a, "takes": {"beta2": 1.5}},
            "no run can have this: beta2 must lie",
        ),
        (
            {"allreduce": lambda self, *a: a, "algorithm": "one_bit_lamb", "takes": {"layers": (8, 8)}},
            r"layers must have values like .* a tuple stands in a list",
        ),
        (
            {"allreduce": lambda self, *a: a, "algorithm": "one_bit_lamb", "takes": {"min_trust": 20, "max_trust": 10}},
            "no run can have this: max_trust must be",
        ),
        ({"allreduce": lambda self, *a: a, "refresh_policy": 3}, "is for 0/1 Adam, and 1-bit Adam has none"),
        ({**ZERO_ONE, "refresh_policy": 3}, r"refresh_policy must be a static method of \(hyper"),
        ({**ZERO_ONE, "refresh_policy": lambda h: True}, "refresh_policy must be a static method"),
        ({**ZERO_ONE, "meeting_policy": lambda h, t: 1 / 0}, "gave 'ZeroDivisionError: division"),
        ({"allreduce": lambda self, *a: a, "has_server_error": "no"}, "has_server_error must be one of"),
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
        (lambda b, e, s: sys.exit(3), "raised SystemExit: 3"),
    ],
)
def test_wrong_results_are_one_sentence(result, sentence):
    mine = type("Mine", (), {"allreduce": lambda self, b, e, s: result(b, e, s)})
    with pytest.raises(AdapterError, match=sentence) as caught:
        probe(Driver(mine))
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
        Driver(Mine).look(Mine(), 1, 1)


def test_bytes_per_worker_may_not_raise():
    class Mine:
        def allreduce(self, b, e, s):
            return np.zeros_like(s), b + e, np.zeros_like(s)

        def bytes_per_worker(self):
            raise RuntimeError("no idea")

    with pytest.raises(AdapterError, match="bytes_per_worker raised RuntimeError: no idea"):
        probe(Driver(Mine))
