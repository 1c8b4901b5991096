"""A class that fails now and then: it has one cause, and neither memory layouts nor earlier calls are blamed for it."""

from __future__ import annotations

import numpy as np
import pytest
from search_support import few

from verification.search.driver import Driver
from verification.search.search import search


class Allreduce:
    """Correct, but for what ``now_and_then`` does to a scale; the same faults with the same seed."""

    scale, server_chunks = "l1", 1
    rng = np.random.default_rng(0)

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        def compress(u):
            s = np.abs(u.astype(np.float64)).mean(axis=-1, keepdims=True).astype(np.float32)
            s = self.now_and_then(s) if Allreduce.rng.random() < 0.01 else s
            sent = np.where(u >= 0, s, -s)
            return sent, u - sent

        sent_ND, errors_ND = compress(buffers_ND + worker_errors_ND)
        output_D, error_D = compress(sent_ND.mean(axis=0, dtype=np.float32) + server_error_D)
        return output_D, errors_ND, error_D


class Raises(Allreduce):
    def now_and_then(self, s):
        raise RuntimeError("the connection was lost")


class Wrong(Allreduce):
    def now_and_then(self, s):
        return s * np.float32(1.1)


@pytest.mark.parametrize(("under_test", "clauses"), [(Raises, {"raises"}), (Wrong, {"worker_scale", "determinism"})])
def test_one_cause_and_nothing_else_is_blamed(under_test, clauses, brief):
    result = search(Driver(few(under_test)), profile=brief)
    assert len(result.causes) == 1
    assert clauses <= result.causes[0].names
    program = result.causes[0].program
    assert f"{under_test.__name__} is random, or keeps something that instances share" in program
    assert "the same calls pass, or fail" in program
    assert "in memory" not in program
    assert "layout=" not in program
    assert all("this case passes" in one.findings[0].message for one in result.verdicts if one.outcome == "fails")
