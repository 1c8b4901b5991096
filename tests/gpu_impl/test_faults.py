"""Workers that die, hang or leave: the others end with a sentence, and a restarted run ends in the same bits.

The trials that take minutes are ``python -m gpu_impl.harness.survive`` and ``python -m gpu_impl.harness.start_stop``;
here are a few of each.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict_saver

from gpu_impl import HookedOneBitAdam, OneBitAdam, save_checkpoint
from gpu_impl.checkpoints.together import Together
from gpu_impl.harness import start_stop, survive
from gpu_impl.harness.worker_pool import WorkerDiedError, WorkerPool
from gpu_impl.optimizer.collectives import CollectiveFailedError

ROOT = Path(__file__).parents[2]
FREEZE_STEP = 4
TIMEOUT = 10.0


def die_soon():
    """From outside, so at any instruction."""
    subprocess.Popen(["sh", "-c", f"sleep 0.005; kill -9 {os.getpid()}"])


def train(kind, step, end, group, folder):
    """Train until the last rank ends itself by ``end`` in step ``step``, or while it saves if that is negative."""
    try:
        _train(kind, step, end, group, folder)
    finally:  # a process that ends closes its connections, and so tells whoever waits for it; a pool's worker stays
        dist.destroy_process_group()


def _train(kind, step, end, group, folder):
    torch.manual_seed(0)
    network = nn.Linear(64, 64)
    optimizer = kind(network.parameters(), freeze_step=FREEZE_STEP, process_group=group)
    model = network
    if kind is HookedOneBitAdam:
        model = nn.parallel.DistributedDataParallel(network, process_group=group)
        optimizer.attach(model)
    is_last = dist.get_rank() == dist.get_world_size() - 1
    for t in range(1, 10**6):
        if is_last and t == abs(step):
            end()
        optimizer.zero_grad()
        model(torch.randn(4, 64)).square().mean().backward()
        optimizer.step()
        if step < 0 and t >= -step:
            save_checkpoint(folder, optimizer, network, t)


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (OneBitAdam, 2),
        (OneBitAdam, FREEZE_STEP + 3),
        (OneBitAdam, -2),
        (OneBitAdam, -FREEZE_STEP - 3),
        (HookedOneBitAdam, FREEZE_STEP + 3),
    ],
)
@pytest.mark.usefixtures("no_hurry")
def test_the_others_end_with_a_sentence_when_one_is_killed(kind, step, tmp_path):
    with WorkerPool(3) as pool:
        *others, killed = pool.outcomes(train, [(kind, step, die_soon, None, tmp_path)] * 3)
    assert isinstance(killed, WorkerDiedError)
    assert "exit code -9" in str(killed)
    for outcome in others:
        assert isinstance(outcome, CollectiveFailedError), outcome
        assert "restart all workers from the last checkpoint" in str(outcome)
        assert "\n" not in str(outcome)
        cause = outcome.__notes__[0]
        assert "RuntimeError" in cause, f"the cause is told: {cause}"
        assert "Timed out" not in cause, f"they did not wait for the timeout: {cause}"


class Gone:
    """Workers, one of which has died."""

    def objects(self, value):
        raise CollectiveFailedError("one sentence") from RuntimeError("Connection reset by peer")


def test_a_death_during_a_save_keeps_its_cause():
    """The cause was dropped, so that a death while saving looked as if it had none."""
    met = Together(Gone)  # pyright: ignore[reportArgumentType]
    met.everyone = Gone()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(CollectiveFailedError, match="one sentence") as caught:
        met.call(lambda: 1)
    assert str(caught.value.__cause__) == "Connection reset by peer"

    def fail():
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        met.call(fail)


def hang():
    os.kill(os.getpid(), signal.SIGSTOP)


def train_in_an_impatient_group(step):
    dist.barrier()
    train(OneBitAdam, step, hang, dist.new_group(timeout=timedelta(seconds=TIMEOUT)), None)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("step", [FREEZE_STEP + 3, 2])
def test_a_worker_that_hangs_is_waited_for_as_long_as_the_group_says(step):
    with WorkerPool(2) as pool:
        outcome, hung = pool.outcomes(train_in_an_impatient_group, [(step,)] * 2)
    assert isinstance(outcome, CollectiveFailedError)
    assert f"Timed out waiting {round(1000 * TIMEOUT)}ms" in outcome.__notes__[0]
    assert re.search("all-gather|all-reduce|all-to-all", str(outcome))
    assert isinstance(hung, WorkerDiedError)


@pytest.mark.usefixtures("no_hurry")
@pytest.mark.parametrize(("ending", "moment"), [("done", 0), ("leave", 1), ("raise", 5), ("leave", 6)])
def test_a_group_that_ends_somehow_hangs_nobody(ending, moment):
    assert start_stop.trial(3, ending, 1, moment, 0.0) == ""


def test_a_trial_that_ends_wrongly_is_told():
    hung, killed = WorkerDiedError("worker 1 did not answer in time"), WorkerDiedError("worker 0 died (exit code -9)")
    failed, raw = CollectiveFailedError("one sentence"), RuntimeError("Connection closed by peer")
    assert start_stop.is_right("kill", killed, is_the_one=True)
    assert start_stop.is_right("kill", failed, is_the_one=False)
    for ending in ("done", "leave", "raise", "kill"):
        for is_the_one in (True, False):
            assert not start_stop.is_right(ending, hung, is_the_one=is_the_one)
            assert not start_stop.is_right(ending, raw, is_the_one=is_the_one)
    assert not start_stop.is_right("leave", None, is_the_one=False), "it never noticed"
    assert not survive.is_same({"error": "no end within 300 s"}, {"params": 1, "states": [2, 3]})
    assert not survive.is_same({"params": 1, "states": [2, 4], "starts": 2}, {"params": 1, "states": [2, 3]})
    assert survive.is_same({"params": 1, "states": [2, 3], "starts": 2}, {"params": 1, "states": [2, 3]})


def test_a_killed_run_is_restarted_and_ends_in_the_same_bits(tmp_path):
    """In the compression stage, and while a checkpoint is saved."""
    done = subprocess.run(
        [sys.executable, "-m", "gpu_impl.harness.survive", "--trials", "2", "--seed", "1"],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 trials: 2 in which a worker was killed and all restarted, 2 ended in the same bits" in done.stdout


def save_while_another_dies(folder):
    """What a worker says whose partner's connection breaks in the middle of a save."""

    def broken(*_, **__):
        raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection reset by peer")

    torch.manual_seed(0)  # the same network on both
    network = nn.Linear(4, 4)
    optimizer = OneBitAdam(network.parameters(), freeze_step=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_dict_saver, "save", broken)
        try:
            save_checkpoint(folder, optimizer, network)
        except CollectiveFailedError as error:
            return str(error)
    return None


def test_a_worker_that_dies_in_a_save_is_no_error_of_the_folder(tmp_path):
    for said in WorkerPool.of(2).call(save_while_another_dies, tmp_path):
        assert "another worker has probably died" in said
