"""The examples run, go on where they stopped, and save the bytes that they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_impl.examples import ddp_hook, hybrid_sharding
from gpu_impl.examples import train_char_transformer as example
from gpu_impl.examples.tasks import TASKS
from gpu_impl.harness.worker_pool import WorkerPool

ROOT = Path(__file__).parents[2]
STEPS, FREEZE_STEP = 40, 15
SETTINGS = {"model": "char", "steps": STEPS, "lr": 3e-3, "freeze_step": FREEZE_STEP, "workers": 2, "seed": 1}


class InterruptedRunError(Exception):
    pass


def train(algorithm, folder, stop):
    """A run; with ``stop``, one that is interrupted after as many steps."""
    done = []

    def advance():
        done.append(1)
        if len(done) == stop:
            raise InterruptedRunError

    settings = SETTINGS | {"algorithm": algorithm}
    try:
        return example.train(settings, torch.device("cpu"), folder, 10, advance), len(done)
    except InterruptedRunError:
        return None


def test_seed_step_and_rank_each_give_another_batch():
    batches = [TASKS["char"].batch(*key)[0] for key in ((0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1), (0, 1, 0))]
    equal = {(i, j) for i in range(5) for j in range(i) if torch.equal(batches[i], batches[j])}
    assert equal == {(4, 0)}


@pytest.mark.parametrize(("algorithm", "steps_again"), [("1-bit Adam", STEPS - 20), ("Adam", STEPS)])
def test_an_interrupted_run_goes_on_to_the_same_curve(tmp_path, algorithm, steps_again):
    pool = WorkerPool.of(2)
    straight, _ = pool.call(train, algorithm, tmp_path / "straight", None)[0]
    assert pool.call(train, algorithm, tmp_path / "stopped", 27) == [None, None]
    again, steps = pool.call(train, algorithm, tmp_path / "stopped", None)[0]
    assert again == straight
    assert steps == steps_again
    finished, steps = pool.call(train, algorithm, tmp_path / "stopped", None)[1]
    assert finished == straight
    assert steps == 0


def train_with_another_lr(folder):
    settings = SETTINGS | {"algorithm": "Adam", "lr": 1.0}
    with pytest.raises(SystemExit, match=r"has lr = 0.003, not 1.0: use another folder"):
        example.train(settings, torch.device("cpu"), folder, 10, lambda: None)


def test_a_run_with_other_settings_is_not_continued(tmp_path):
    WorkerPool.of(2).call(train, "Adam", tmp_path, None)
    WorkerPool.of(2).call(train_with_another_lr, tmp_path)


@pytest.mark.xdist_group("torchrun")
def test_the_comparison_from_the_command_line(launcher, tmp_path):
    arguments = ["--steps", "40", "--seeds", "2", "--model", "mlp"]
    arguments += ["--json", tmp_path / "runs.json", "--picture", tmp_path / "curves.png"]
    done = launcher.run(Path(example.__file__), *arguments, n=2, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert [(run["settings"]["algorithm"], run["settings"]["seed"]) for run in runs] == [
        (name, seed) for seed in (0, 1) for name in ("Adam", "1-bit Adam")
    ]
    dim = sum(param.numel() for param in TASKS["mlp"].model(0).parameters())
    for adam, one_bit in (runs[:2], runs[2:]):
        assert adam["step_bytes"] == 4 * dim, "2 (N-1)/N of four bytes a number"
        assert adam["step_bytes"] > 20 * one_bit["step_bytes"] > 20 * dim / 8
        assert adam["loss"][0] == one_bit["loss"][0] > max(adam["loss"][-1], one_bit["loss"][-1])
        assert f"{adam['step_bytes'] / one_bit['step_bytes']:.1f} x less" in done.stdout
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("run", "options", "n"), [(hybrid_sharding.main, (2,), 4), (ddp_hook.main, (2,), 2)])
def test_sharding_and_hook_train_with_fewer_bytes(tmp_path, run, options, n):
    with WorkerPool(n) as pool:
        pool.call(run, STEPS, FREEZE_STEP, *options, tmp_path / "facts.json")
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["phase"] == "compressed"
    assert facts["loss"][1] < facts["loss"][0]
    assert facts["bytes_uncompressed"] > 20 * facts["bytes_last_step"] > 0


def test_an_example_without_torchrun_says_what_to_do():
    done = subprocess.run(
        [sys.executable, "-m", "gpu_impl.examples.ddp_hook"],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"start this by torchrun: .*\n", done.stderr)
