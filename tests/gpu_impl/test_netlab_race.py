"""The race to Adam's loss and the soak: who takes part, what is counted, and what bad weather does."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from netlab_support import needs_lab
from torch import distributed as dist
from typer import Exit

import onebit_command
from gpu_impl.harness.worker_pool import WorkerDiedError
from gpu_impl.netlab import entrants, weather
from gpu_impl.netlab.entrants import ENTRANTS, LAP
from gpu_impl.netlab.race import Run
from gpu_impl.netlab.silent_group import NAME
from paper_figures.claims.claim import EvidenceError
from paper_figures.claims.statements import time_to_loss as claim
from paper_figures.netlab import time_to_loss
from paper_figures.netlab.arrivals import arrivals, tidy
from paper_figures.netlab.cli import told

pytestmark = pytest.mark.xdist_group("netlab")
RING = 2 * 1 / 2
"""Of N = 2: parts of the buffer that a worker sends in an all-reduce."""


# --- who takes part ---


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ENTRANTS)
def test_every_entrant_learns(name):
    """On a group that sends nothing, past its warm-up: the loss falls."""
    dist.init_process_group(NAME, store=dist.HashStore(), rank=0, world_size=2)
    try:
        entrants.enter(name, seed=0, n_steps=60)
        before = entrants.look()
        entrants.lap(1, 2 * LAP)
        assert entrants.look() < 0.9 * before
    finally:
        dist.destroy_process_group()


def test_all_start_at_the_same_point_and_see_the_same_batches():
    assert all((one == two).all() for one, two in zip(entrants.batch(3, 7, 1), entrants.batch(3, 7, 1), strict=True))
    assert not (entrants.batch(3, 7, 1)[0] == entrants.batch(3, 7, 0)[0]).all()
    recipes = {name: one.recipe(400) for name, one in ENTRANTS.items()}
    assert {name: recipe.freeze_step for name, recipe in recipes.items() if ENTRANTS[name].short} == dict.fromkeys(
        ["powersgd", "1-bit-short", "1-bit-update-short", "1-bit-hook-short"], 30
    )
    assert recipes["1-bit"].freeze_step == 60


# --- when they are there ---


def run_of(entrant, seed, seconds, losses, bandwidth=1e8):
    n = len(losses)
    return Run(
        entrant=entrant, title=ENTRANTS[entrant].title, seed=seed, lr=1e-2, n_workers=4, dim=100, bandwidth=bandwidth,
        load=1.0, step=list(range(0, LAP * n, LAP)), seconds=seconds, loss=losses,
        payload_bytes=[1e6 * s for s in seconds],
    )  # fmt: skip


def two(ours, seeds=5):
    """DDP is there after 2 s of 3, ours after as many seconds as are given, or never."""
    runs = []
    for seed in range(seeds):
        runs.append(run_of("ddp", seed, [0.0, 1.0, 2.0, 3.0], [4.0, 2.0, 1.04, 1.0]))
        losses = [4.0, 3.0, 2.0, 1.5] if ours is None else [4.0, 3.0, 1.05, 1.02]
        step = 1.0 if ours is None else ours / 2 * (1 + 0.01 * seed)
        runs.append(run_of("1-bit-short", seed, [0.0, step, 2 * step, 3 * step], losses))
    return runs


def test_there_is_the_first_look_within_five_hundredths_of_adams_last_loss():
    table = arrivals(tidy(two(1.0, seeds=1))).set_index("entrant")
    assert table.loc["ddp", ["step", "seconds", "payload_bytes", "ratio"]].tolist() == [40, 2.0, 2e6, 1.0]
    assert table.loc["1-bit-short", ["step", "seconds", "ratio"]].tolist() == [40, 1.0, 1.02]
    never = arrivals(tidy(two(None, seeds=1))).set_index("entrant").loc["1-bit-short"]
    assert np.isinf(never["seconds"])


@pytest.mark.parametrize(("ours", "holds"), [(0.5, True), (8.0, False), (None, False)])
def test_the_claim_is_decided_by_the_seconds(ours, holds):
    (check,) = claim.measure({"time_to_loss": tidy(two(ours))})
    assert check.required
    assert (check.p_value < 0.05) is holds
    assert (check.value < 1) is holds


def test_too_few_seeds_decide_nothing():
    with pytest.raises(EvidenceError, match="has 2 seeds, at least 5 are needed"):
        claim.measure({"time_to_loss": tidy(two(0.5, seeds=2))})


# --- on links ---


@needs_lab
def test_a_short_race(tmp_path, capsys):
    file = tmp_path / "race.json"
    chosen = ["--entrants", "ddp", "--entrants", "1-bit-short", "--workers", "2", "--seeds", "1", "--steps", "60"]
    rates = ["--bandwidth", "100Mbit", "--bandwidth", "1Gbit"]
    assert onebit_command.run(["netlab", "race", *chosen, *rates, "--json", str(file)]) == 0
    assert "100Mbit, N = 2" in capsys.readouterr().out
    runs = [Run(**row) for row in json.loads(file.read_text())["runs"]]
    assert [(run.entrant, run.bandwidth) for run in runs] == [
        (name, rate) for name in ("ddp", "1-bit-short") for rate in (1e8, 1e9)
    ]
    for slow, fast in (runs[:2], runs[2:]):
        assert slow.loss == fast.loss  # links don't change what is computed
        assert slow.step == [0, 20, 40, 60]
        assert slow.loss[-1] < 0.9 * slow.loss[0]
    ddp, ours = runs[0], runs[2]
    whole = RING * 4 * ddp.dim * 60
    assert ddp.payload_bytes[-1] == pytest.approx(whole, rel=0.03)
    assert ddp.seconds[-1] >= 8 * whole / 1e8  # no link carries more than its bandwidth
    dense, compressed = RING * 4 * ours.dim * 30, RING * (ours.dim / 8 + 8) * 30
    assert ours.payload_bytes[-1] == pytest.approx(dense + compressed, rel=0.03)


@needs_lab
def test_a_short_soak(tmp_path, capsys):
    file = tmp_path / "soak.json"
    assert onebit_command.run(["netlab", "soak", "--minutes", "0.25", "--workers", "2", "--json", str(file)]) == 0
    output = capsys.readouterr().out
    assert "0 findings" in output
    assert "the same bits" in output
    found = json.loads(file.read_text())
    assert found["disturbed"]["looks"] > 0
    assert found["disturbed"]["checksums"] == found["calm"]["checksums"]
    assert found["disturbed"]["loss"][1] < found["disturbed"]["loss"][0]


@needs_lab
def test_the_shortest_soak_looks_once(capsys):
    assert onebit_command.run(["netlab", "soak", "--minutes", "0.05", "--workers", "2"]) == 0
    assert "L1 and L6 at 1 steps: 0 findings" in capsys.readouterr().out


def fallen(*_, **__):
    raise WorkerDiedError("worker 1 died (exit code -9)\nand more")


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("raises", "status", "says"), [
    (fallen, 3, "worker 1 died (exit code -9)"), (interrupted, 130, "interrupted; the lab is removed"),
])  # fmt: skip
def test_a_program_that_ends_early_says_so_in_one_line(capsys, raises, status, says):
    with pytest.raises(Exit) as ended:
        told(raises)()
    assert ended.value.exit_code == status
    assert capsys.readouterr().err == f"onebit netlab: {says}\n"


def test_an_interrupted_race_removes_its_lab_at_once(monkeypatch, tmp_path):
    """Ctrl-C between two runs, when the program and not the race is at work."""
    removed = []

    def race(*_):
        try:
            yield from two(1.0)
        finally:
            removed.append(True)

    monkeypatch.setattr(time_to_loss, "race", race)
    monkeypatch.setattr(time_to_loss, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        time_to_loss.main(entrants=None, bandwidth=None, seeds=1, steps=40, quick=True, json_file=tmp_path / "a")
    assert removed == [True]
    assert caught.value.__traceback__ is not None  # it still holds the frames, and these the race


@pytest.mark.parametrize("arguments", [
    ("race", "--entrants", "sgd"),
    ("race", "--entrants", "1-bit"),
    ("race", "--bandwidth", "fast"),
    ("race", "--json", "/tmp"),
    ("soak", "--bandwidth", "fast"),
    ("tiers", "--bandwidth", "nan"),
    ("tiers", "--nodes", "100", "--node-size", "100"),
    ("--quick", "soak"),
    ("sooak",),
])  # fmt: skip
def test_wrong_calls_are_one_line(capsys, arguments):
    assert onebit_command.run(["netlab", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_after_bad_weather_it_clears_up():
    random_, kind, seen = random.Random(1), weather.CLEAR, []
    for _ in range(60):
        spell = weather.forecast(random_, 4, kind)
        low, high = weather.SECONDS[spell.kind]
        assert low <= spell.seconds <= high
        assert spell.host in range(4)
        assert (spell.kind == weather.CLEAR) == (kind != weather.CLEAR)
        kind = spell.kind
        seen.append(kind)
    assert set(seen) == {weather.CLEAR, weather.LOSS, weather.DELAY, weather.DOWN}
