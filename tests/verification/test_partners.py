"""Processes that share the cases of a search: the same comes out, and what happens to one of them is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from search_support import BRIEF

from verification.isolated import search_isolated

WRONG = """
import numpy as np

class Mine:
    workers = 1, 2
    scale, server_chunks = "l1", 1

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        def compress(u, sign):
            s = np.abs(u).mean(axis=-1, keepdims=True, dtype=np.float64).astype(np.float32)
            sent = np.where(sign(u), s, -s)
            return sent, u - sent
        sent_ND, errors_ND = compress(buffers_ND + worker_errors_ND, lambda u: u >= 0)
        output_D, error_D = compress(sent_ND.mean(axis=0) + server_error_D, lambda u: u {sign} 0)
        {more}
        return output_D, errors_ND, error_D
"""
ENDS = """
        import os, pathlib
        calls = pathlib.Path(__file__).with_suffix(".calls")
        with calls.open("a") as file:
            file.write(".")
        if calls.stat().st_size >= 60:  # two at once may both see 61
            {end}
"""


def searched(folder, jobs, profile, *, sign, end=""):
    file = folder / "mine.py"
    file.write_text(WRONG.format(sign=sign, more=ENDS.format(end=end) if end else ""))
    return search_isolated(f"{file}:Mine", profile, name="small", jobs=jobs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sign", [">", ">="])
def test_the_same_comes_out_whoever_examines_the_cases(tmp_path, sign):
    alone, shared = (searched(tmp_path, jobs, replace(BRIEF, exact=4, simplifying=5), sign=sign) for jobs in (1, 3))
    assert alone.whole
    assert shared.whole
    told = [
        [(one.clause.id, one.outcome, one.cases, one.pairs, one.note, one.program) for one in outcome.result.verdicts]
        for outcome in (alone, shared)
    ]
    assert told[0] == told[1]
    assert ("fails" in {one[1] for one in told[0]}) == (sign == ">")
    assert alone.result.cases == shared.result.cases
    assert alone.result.coverage == shared.result.coverage
    assert shared.result.cpu_seconds > 0


@pytest.mark.parametrize(
    ("end", "how"), [("os._exit(7)", "with exit status 7"), ("os.kill(os.getpid(), 9)", "by signal 9")]
)
def test_a_class_that_ends_its_process_in_any_of_them_is_told(tmp_path, end, how):
    """It is about the sixtieth call of all processes together, whoever makes it."""
    for _ in range(3):
        (tmp_path / "mine.calls").unlink(missing_ok=True)
        outcome = searched(tmp_path, 3, BRIEF, sign=">=", end=end)
        assert not outcome.whole
        assert f"ended its process {how}" in outcome.result.notes[0]
        assert {one.outcome for one in outcome.result.verdicts} <= {"not checked", "fails"}


def test_what_the_time_cut_off_is_not_checked(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(WRONG.format(sign=">=", more="__import__('time').sleep(0.05)"))
    for minutes in (0.05, 0.5, 5):  # a busy machine may need them for its first case
        outcome = search_isolated(f"{file}:Mine", BRIEF, name="small", jobs=2, minutes=minutes)
        if outcome.result.cases:
            break
    assert {one.outcome for one in outcome.result.verdicts} == {"not checked"}
    assert "the time was over" in outcome.result.notes[0]
    assert 0 < outcome.result.cases < 200
