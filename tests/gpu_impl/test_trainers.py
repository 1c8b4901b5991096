"""Hugging Face's Trainer, Accelerate, Lightning, FSDP2: a killed run resumes to the bits of one that was not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gpu_impl import HookedOneBitAdam

pytestmark = pytest.mark.xdist_group("torchrun")
PROGRAM = Path(__file__).parent / "trainer_programs.py"
PACKAGES = {"hugging_face": "transformers", "accelerate": "accelerate", "lightning": "lightning", "fsdp2": "torch"}


@pytest.fixture
def run(trainers_launcher, tmp_path):
    """Runs a program by two processes; its exit status, the line of rank 0 if it came to the end, what went wrong."""

    def run(name, folder, kill_at=0):
        arguments = (name, str(tmp_path / folder), str(kill_at))
        done = trainers_launcher.run(PROGRAM, *arguments, n=2, folder=tmp_path)
        ends = [line for line in done.stdout.splitlines() if line.startswith("END")]
        return done.returncode, ends, done.stderr[-3000:]

    return run


@pytest.mark.parametrize("name", PACKAGES)
def test_a_killed_run_resumes_to_the_same_bits(name, run):
    """Killed in the compression, two steps after a save; two real processes."""
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    status, straight, said = run(name, "straight")
    assert (status, len(straight)) == (0, 1), said
    assert "(12, 'compressed')" not in straight[0]
    assert straight[0].count(", 12, 'compressed')") == 2
    status, nothing, _ = run(name, "killed", kill_at=8)
    assert (status, nothing) == (1, [])
    status, resumed, said = run(name, "killed")
    assert (status, resumed) == (0, straight), said


@pytest.mark.parametrize("kill_at", [-9, 6])
def test_the_only_checkpoint_of_hugging_face_is_whole(kill_at, run):
    """Killed where the Trainer has deleted the older ones, before callbacks are told; after a save they asked for."""
    if find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    status, straight, said = run("hugging_face", "straight")
    assert (status, len(straight)) == (0, 1), said
    status, nothing, _ = run("hugging_face", "killed", kill_at=kill_at)
    assert (status, nothing) == (1, [])
    status, resumed, said = run("hugging_face", "killed")
    assert (status, resumed) == (0, straight), said


@pytest.mark.parametrize("kind", [HookedOneBitAdam, torch.optim.AdamW])
def test_what_a_trainer_can_not_use_is_refused_by_its_name(kind):
    """The hook's was taken, left without its exchange, and told in its first step to call backward() first."""
    net = torch.nn.Linear(2, 2)
    optimizer = kind(net.parameters(), **({"freeze_step": 3} if kind is HookedOneBitAdam else {}))
    if find_spec("accelerate") is not None:
        from gpu_impl.trainers.accelerate import prepare

        with pytest.raises(
            TypeError, match=f"^prepare is for a OneBitAdam and its model, got Linear, {kind.__name__}$"
        ):
            prepare(None, net, optimizer)
    if find_spec("transformers") is not None:
        from gpu_impl.trainers.hugging_face import OneBitAdamCallback

        with pytest.raises(TypeError, match=f"^OneBitAdamCallback is for OneBitAdam, got {kind.__name__}: pass one"):
            OneBitAdamCallback().on_train_begin(
                SimpleNamespace(world_size=1, max_grad_norm=0), None, None, optimizer=optimizer
            )
