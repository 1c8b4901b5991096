"""The processes that the distributed tests run in: results by rank, errors as errors, never a hang."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from multiprocessing import context
from multiprocessing.connection import wait
from pathlib import Path

import pytest
import torch
from torch import distributed as dist

from gpu_impl.harness import worker_pool
from gpu_impl.harness.worker_pool import GRACE, WorkerDiedError, WorkerPool

ROOT = Path(__file__).parents[2]

KEPT = []


def total_of_ranks(more):
    value = torch.tensor([float(dist.get_rank() + more)])
    dist.all_reduce(value)
    return value.item()


def keep(value):
    KEPT.append(value)
    return KEPT


def fail_on_rank_1():
    if dist.get_rank() == 1:
        raise ValueError("no good")
    dist.barrier()


def end_on_rank_0():
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def test_results_by_rank_and_what_is_kept_between_calls():
    with WorkerPool(3) as pool:
        assert pool.call(total_of_ranks, 1) == [6.0] * 3
        assert pool.map(keep, [[0], [1], [2]]) == [[0], [1], [2]]
        assert pool.map(keep, [[3], [4], [5]]) == [[0, 3], [1, 4], [2, 5]]
    assert pool.closed


def test_a_module_beside_the_caller_is_found_though_the_pool_is_older(tmp_path, monkeypatch):
    with WorkerPool(1) as pool:
        pool.call(keep, 0)
        (tmp_path / "written_later.py").write_text("def answer():\n    return 42\n")
        monkeypatch.syspath_prepend(tmp_path)
        module = importlib.import_module("written_later")
        assert pool.call(module.answer) == [42]


def test_after_an_error_of_one_worker_the_others_get_little_time(monkeypatch):
    allowed = []

    def noting(pipes, seconds):
        allowed.append(seconds)
        return wait(pipes, seconds)

    monkeypatch.setattr(worker_pool, "wait", noting)
    with WorkerPool(2) as pool, pytest.raises(ValueError, match="no good") as caught:
        pool.call(fail_on_rank_1)
    assert allowed[0] > GRACE >= allowed[-1]
    assert "on worker 1" in caught.value.__notes__[0]


def test_a_killed_worker_is_an_error():
    with WorkerPool(2) as pool:
        outcomes = pool.outcomes(end_on_rank_0, [(), ()])
        assert isinstance(outcomes[0], WorkerDiedError)
        assert "exit code -9" in str(outcomes[0])
        assert isinstance(outcomes[1], RuntimeError)
        assert pool.closed
        with pytest.raises(WorkerDiedError, match="new pool"):
            pool.call(end_on_rank_0)
    with (
        WorkerPool(2) as pool,
        pytest.raises(WorkerDiedError, match="exit code -9"),
    ):  # not what the other raises for it
        pool.call(end_on_rank_0)


def test_a_shared_pool_is_started_again_after_it_broke():
    pool = WorkerPool.of(1)
    assert WorkerPool.of(1) is pool
    pool.close()
    assert WorkerPool.of(1) is not pool
    assert WorkerPool.of(1).call(total_of_ranks, 2) == [2.0]


def refuses(rank):
    raise OSError(f"no place for {rank}")


def test_a_worker_that_can_not_start_is_told_by_the_first_call(capfd):
    with (
        WorkerPool(1, entering=refuses) as pool,
        pytest.raises(WorkerDiedError, match="could not start: OSError"),
    ):
        pool.call(int)
    assert "Traceback" not in capfd.readouterr().err


def test_the_server_of_workers_may_be_ended_from_outside(monkeypatch):
    def gone(_):
        raise EOFError

    monkeypatch.setattr(context.ForkServerProcess, "_Popen", staticmethod(gone))
    with pytest.raises(WorkerDiedError, match="the process that starts the workers was ended"):
        WorkerPool(1)


STARTED_WHERE_SIGNALS_ARE_BLOCKED = """
import signal
from multiprocessing import resource_tracker
from gpu_impl.harness.worker_pool import WorkerPool

if __name__ == "__main__":
    resource_tracker.ensure_running()  # else its start unblocks SIGINT
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])  # as the network lab does
    with WorkerPool(1) as pool:
        print(pool.call(signal.pthread_sigmask, signal.SIG_BLOCK, ()))
"""


def test_workers_block_no_signals_though_their_server_was_started_where_some_are(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(STARTED_WHERE_SIGNALS_ARE_BLOCKED)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, timeout=1800,
                         env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert ran.stdout == "[set()]\n"
