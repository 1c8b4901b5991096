"""The training benchmark runs; small groups share their messages: a step has as many collectives as with one."""

from __future__ import annotations

import json
import platform
import resource

import pytest
import torch
from optimizer_support import new, pool
from torch import nn
from typer.testing import CliRunner

from gpu_impl.benchmarks import training
from gpu_impl.benchmarks.form import Form
from gpu_impl.harness.worker_pool import WorkerPool


def test_the_benchmark_from_the_command_line(tmp_path):
    import typer

    app = typer.Typer()
    app.command()(training.training)
    file = tmp_path / "training.json"
    layout = "one tensor of 1,000"
    arguments = ["--workers", "2", "--layout", layout, "--rounds", "3", "--json", str(file)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())["rows"]
    assert [row["contestant"] for row in rows] == list(training.CONTESTANTS)
    assert rows[0]["ratio"] == rows[0]["step_ratio"] == 1
    assert all(row["low"] <= row["seconds"] <= row["high"] and row["step_seconds"] < row["seconds"] for row in rows)
    for wrong in (["--workers", "0"], ["--layout", "huge"], ["--scale-block", "7"], ["--compress", "all"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2


def test_another_form_is_told_beside_its_floor():
    """24.5 + 8.125/N, less two bytes of P, and 4 for the gradient's norm; the hook's step is half of it."""
    form = Form("update", 64, "bfloat16")
    rows = {row.contestant: row for row in training.measure("one tensor of 1,000", 1, 3, form=form)}
    scales = (16 + 4 + 4) / 64 + 12 / 64
    assert rows["OneBitAdam"].floor_bytes == 4 + 22.5 + 8.125 + scales == rows["DDP, OneBitAdam"].floor_bytes
    assert rows[training.BASE].floor_bytes == 28
    assert rows[training.HOOKED].floor_bytes is None
    assert all(row.spent_bytes > 0 and row.compress == "update" for row in rows.values())


def fresh_pages(n_blocks):
    """Page faults of gradients' life: blocks of 10 MB are allocated, written and freed, again and again."""
    training.keep_freed_memory()
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [torch.zeros(2_500_000).add_(1) for _ in range(n_blocks)]
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        del blocks
    return faults


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_no_contestant_pays_for_the_end_of_the_heap():
    """glibc gave it back: whoever's gradients lay there had up to 9,800 page faults an iteration, 3 to 5 ms of 17."""
    with WorkerPool(1) as own:
        assert own.call(fresh_pages, 4)[0] < 10_000_000 / resource.getpagesize()  # those of one block


def settings_of_the_contestants(form):
    """What the optimizers are made with."""
    made = []
    for kind in ("OneBitAdam", "HookedOneBitAdam"):
        original = getattr(training, kind)

        def noting(*arguments, original=original, **keywords):
            made.append(original(*arguments, **keywords))
            return made[-1]

        setattr(training, kind, noting)
        training.contestant(kind, (1, 1, 100), form=form)
        setattr(training, kind, original)
    return [one.run.settings.extensions for one in made]


def test_the_optimizers_have_the_form():
    form = Form("update", 64, "bfloat16")
    assert pool(1).call(settings_of_the_contestants, form) == [[form.as_dict()] * 2]


def collectives_of_a_step(n_groups, bucket_elements):
    """How many collectives a warm-up step and a compressed one start."""
    params = [nn.Parameter(torch.ones(100)) for _ in range(n_groups)]
    optimizer = new([{"params": [param]} for param in params], freeze_step=2, bucket_elements=bucket_elements)
    started, counts = [], []
    for t in range(1, 6):
        for param in params:
            param.grad = torch.full_like(param, float(t))
        if t == 2:
            for name in ("all_reduce", "all_to_all", "all_gather"):
                original = getattr(optimizer.collectives, name)
                setattr(
                    optimizer.collectives,
                    name,
                    lambda *args, original=original, name=name: (started.append(name), original(*args))[1],
                )
        started.clear()
        optimizer.step()
        counts.append(list(started))
    return counts[1], counts[-1]


@pytest.mark.parametrize("n_groups", [1, 20])
def test_small_groups_share_one_message(n_groups):
    for warm, compressed in pool(2).call(collectives_of_a_step, n_groups, 2**24):
        assert warm == ["all_gather", "all_reduce"]  # the numbers, the gradients
        assert compressed == ["all_gather", "all_to_all", "all_gather"]


def test_large_buckets_travel_apart():
    """Or nothing would be under way while the next is compressed."""
    for _, compressed in pool(2).call(collectives_of_a_step, 3, 100):
        assert compressed.count("all_to_all") == 3
