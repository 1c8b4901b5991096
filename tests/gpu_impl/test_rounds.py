"""Collectives in rounds: what gloo's own bring, however they are waited for; and how they end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import nn

from gpu_impl import OneBitAdam
from gpu_impl.harness.worker_pool import WorkerDiedError, WorkerPool
from gpu_impl.optimizer import rounds
from gpu_impl.optimizer.collectives import CollectiveFailedError, Collectives

ROOT = Path(__file__).parents[2]
LONG = rounds.SHORTEST


def both_ways(width):
    """The same collectives in rounds and by gloo: six under way at once, waited for from the last to the first."""
    group = Collectives()
    generator = torch.Generator().manual_seed(dist.get_rank())
    sent = torch.randint(256, (3, group.size, width), generator=generator, dtype=torch.uint8)
    brought = []
    for shortest in (0, 2**62):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rounds, "SHORTEST", shortest)
            swapped, gathered = torch.zeros_like(sent), torch.zeros_like(sent)
            pending = [group.all_to_all(into, rows) for into, rows in zip(swapped, sent, strict=True)]
            pending += [group.all_gather(into, rows[0]) for into, rows in zip(gathered, sent, strict=True)]
            for one in reversed(pending):
                one.wait()
        brought.append((swapped, gathered))
    in_rounds, by_gloo = brought
    return sent, in_rounds, all(torch.equal(one, other) for one, other in zip(in_rounds, by_gloo, strict=True))


@pytest.mark.parametrize("n_workers", [2, 3, 4])
@pytest.mark.parametrize("width", [1, 1000])
def test_rounds_bring_what_gloo_brings(n_workers, width):
    found = WorkerPool.of(n_workers).call(both_ways, width)
    sent = torch.stack([one for one, _, _ in found])  # (sender, collective, receiver, width)
    for rank, (_, (swapped, gathered), is_same) in enumerate(found):
        assert is_same
        assert torch.equal(swapped, sent[:, :, rank].transpose(0, 1))
        assert torch.equal(gathered, sent[:, :, 0].transpose(0, 1))


def trained():
    """Parameters and errors after some steps whose messages are long."""
    torch.manual_seed(0)
    network = nn.Linear(1000, 8 * LONG * dist.get_world_size() // 1000 + 1)
    optimizer = OneBitAdam(network.parameters(), freeze_step=1)
    messages = [parcel.message for parcel in optimizer.run.parcels]
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        network(torch.randn(2, 1000)).square().mean().backward()
        optimizer.step()
    return messages, [param.detach().clone() for param in network.parameters()]


def trained_both_ways():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "SHORTEST", 2**62)
        _, by_gloo = trained()
    _, in_rounds = trained()
    return rounds_are_used(), all(torch.equal(one, other) for one, other in zip(in_rounds, by_gloo, strict=True))


def rounds_are_used():
    return any(thread.name == rounds.THREAD for thread in threading.enumerate())


@pytest.mark.parametrize("n_workers", [2, 3])
def test_a_step_with_long_messages_takes_rounds_and_has_the_same_bits(n_workers):
    assert WorkerPool.of(n_workers).call(trained_both_ways) == [(True, True)] * n_workers


def threads_of_a_group():
    """How many threads of ours there are before a group has rounds, with it, and once it is gone."""

    def count():
        return sum(thread.name == rounds.THREAD for thread in threading.enumerate())

    before = count()
    group = dist.new_group()
    buffer = torch.zeros(dist.get_world_size(), LONG, dtype=torch.uint8)
    Collectives(group).all_gather(buffer, buffer[0].clone()).wait()
    with_it = count()
    dist.destroy_process_group(group)
    del group
    gc.collect()
    end = time.monotonic() + 1800
    while count() > before and time.monotonic() < end:
        time.sleep(0.01)
    return before, with_it, count()


def test_the_thread_ends_with_its_group():
    for before, with_it, after in WorkerPool.of(2).call(threads_of_a_group):
        assert (with_it, after) == (before + 1, before)


def wait_for_one_that(ends):
    """Worker 1 never takes part; what worker 0 is told."""
    group = dist.new_group(timeout=timedelta(seconds=10 if ends == signal.SIGSTOP else 1800))
    if dist.get_rank() == 1:
        os.kill(os.getpid(), ends)
    buffer = torch.zeros(dist.get_world_size(), LONG, dtype=torch.uint8)
    Collectives(group).all_to_all(buffer, buffer.clone()).wait()


@pytest.mark.parametrize(("ends", "reason"), [(signal.SIGKILL, "closed|reset"), (signal.SIGSTOP, "Timed out")])
def test_a_worker_that_dies_or_hangs_is_told_of(ends, reason):
    with WorkerPool(2) as pool:
        outcome, gone = pool.outcomes(wait_for_one_that, [(ends,)] * 2)
    assert isinstance(outcome, CollectiveFailedError)
    assert isinstance(gone, WorkerDiedError)
    assert "the all-to-all failed, so another worker has probably died or stopped" in str(outcome)
    assert any(word in str(outcome).lower() for word in reason.lower().split("|")), outcome


ALONE = f"""
import sys, torch
from torch import distributed as dist
from gpu_impl.optimizer.collectives import Collectives

dist.init_process_group("gloo", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
buffer = torch.zeros(2, {LONG}, dtype=torch.uint8)
Collectives().all_to_all(buffer, buffer.clone()).wait()
print("ready", flush=True)
if sys.argv[2] == "0":
    try:
        Collectives().all_to_all(buffer, buffer.clone()).wait()
    except KeyboardInterrupt:
        sys.exit("stopped")
else:
    input()
"""


def test_ctrl_c_ends_a_program_that_waits_for_another(tmp_path):
    """gloo's own wait hears of Ctrl-C only when it is over."""
    program = tmp_path / "program.py"
    program.write_text("import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + ALONE)
    first, second = (
        subprocess.Popen(
            [sys.executable, str(program), f"file://{tmp_path}/store", str(rank)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for rank in range(2)
    )  # fmt: skip
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        time.sleep(0.2)  # for it to wait; if it doesn't yet, it is stopped before
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=1800)
        assert (first.returncode, said.strip()) == (1, "stopped")
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def test_the_thread_lets_go_of_the_group_before_anybody_hears_that_the_rounds_are_over():
    """The program may end then; a group that is taken apart by a thread at that moment ends it by a signal."""

    class Group:
        pass

    def when_released():
        released.wait(1800)
        yield from ()

    released, alive, told = threading.Event(), [], threading.Event()
    group = Group()
    kept = weakref.ref(group)
    under_way = rounds.Rounds(group, when_released())
    under_way._over.add_done_callback(lambda _: (alive.append(kept() is not None), told.set()))
    del group
    released.set()
    assert told.wait(1800)
    assert alive == [False]
