"""Experiments: the table, the store, resuming after a crash, parallel and remote runs, determinism."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from onebit_files import write_atomically
from reference.experiments import COLUMNS, RunConfig, RunStore, run, sweep
from reference.experiments.run import measure
from reference.problems import PROBLEMS
from theory.rounding import gamma

QUIET = Console(quiet=True)
SWEEP, CONFIG = (importlib.import_module(f"reference.experiments.{name}") for name in ("sweep", "config"))
TIMING = ["seconds"]


def config(seed=0, optimizer="one_bit_adam", steps=12, **more):
    hyper = {"lr": 1e-2} | ({"freeze_step": 5} if optimizer == "one_bit_adam" else {})
    return RunConfig(
        problem="quadratic", problem_args={"dim": 20}, optimizer=optimizer, hyper=hyper, n_workers=3, steps=steps,
        seed=seed, **({"record_every": 5} | more),
    )  # fmt: skip


def assert_equal(a, b):
    """Equal to the last bit but for the clock."""
    pd.testing.assert_frame_equal(a.drop(columns=TIMING), b.drop(columns=TIMING), check_exact=True)


def test_a_table_is_tidy_and_says_what_the_run_was():
    table = run(config(seed=3, label="mine"))
    assert list(table.columns) == ["problem", "optimizer", "label", "n_workers", "seed", *COLUMNS]
    assert table["step"].tolist() == [0, 5, 10, 12]
    assert table["frozen"].tolist() == [0, 1, 1, 1]
    assert set(table["label"]) == {"mine"}
    assert set(table["seed"]) == {3}
    assert table["variance_l1"].iloc[1:].nunique() == 1, "frozen after step 5"
    assert (table["worker_error_norm"].iloc[:2] == 0).all()
    assert (table["worker_error_norm"].iloc[2:] > 0).all()
    assert table["loss"].iloc[-1] < table["loss"].iloc[0]
    warm_up, compressed = table["bytes_per_worker"].diff().iloc[1] / 5, table["bytes_per_worker"].diff().iloc[2] / 5
    assert warm_up == 2 * 2 * 20 * 4 / 3
    assert compressed < warm_up
    assert (table["excess_loss"] == table["loss"] - config().build()[0].optimal_loss).all()


def test_a_row_by_hand():
    problem, optimizer = config().build()
    state = optimizer.init(problem.optimum_D.copy(), 3)
    errors_ND = np.zeros((3, 20), np.float32)
    errors_ND[0, 0], errors_ND[1, 1] = 3, 4
    state = replace(
        state, worker_errors=errors_ND, server_error=np.full(20, 0.5, np.float32), variance=np.full(20, 2, np.float32),
        bytes_on_wire=30, skipped_steps=2,
    )  # fmt: skip
    row = measure(problem, state, 7, 1.5, kept=60.0)
    assert row["step"] == 7
    assert row["seconds"] == 1.5
    assert row["worker_error_norm"] == (25 / 3) ** 0.5
    assert row["server_error_norm"] == (20 / 4) ** 0.5
    assert row["total_error_norm"] ** 2 == pytest.approx(1.5**2 + (0.5 + 4 / 3) ** 2 + 18 / 4, rel=gamma(6, "float32"))
    assert row["variance_l1"] == 40
    assert row["bytes_per_worker"] == 10
    assert row["kept_per_parameter"] == 3
    assert row["skipped_steps"] == 2
    assert row["frozen"] == 0
    assert row["loss"] == problem.loss(state.params)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_runs_under_one_bit_adam(problem):
    table = run(RunConfig(problem=problem, optimizer="one_bit_adam", hyper={"lr": 1e-3, "freeze_step": 3}, steps=6))
    assert np.isfinite(table["loss"]).all()
    assert table["frozen"].iloc[-1] == 1
    assert np.isnan(table["excess_loss"]).all() or (table["excess_loss"] >= 0).all()


def test_runs_are_reproducible_and_seeds_differ():
    assert_equal(run(config(seed=1)), run(config(seed=1)))
    assert run(config(seed=1))["loss"].iloc[-1] != run(config(seed=2))["loss"].iloc[-1]


def test_two_optimizers_with_one_seed_start_at_one_point():
    a, b = run(config(seed=4)), run(config(seed=4, optimizer="adam"))
    assert a["loss"].iloc[0] == b["loss"].iloc[0]


def test_a_run_that_diverges_ends_with_a_table():
    wild = RunConfig(problem="rosenbrock", optimizer="sgd", hyper={"lr": 1e3}, steps=300, record_every=100)
    table = run(wild)
    assert table["step"].tolist() == [0, 100, 200, 300]
    assert table["loss"].iloc[-1] > 1e30, "float32 gradients overflow and are skipped, the float64 loss is what it is"
    assert table["skipped_steps"].iloc[-1] > 0


def test_what_is_stored_comes_back_bit_for_bit(tmp_path):
    store = RunStore(tmp_path)
    table = run(config(seed=5))
    assert store.get(config(seed=5)) is None
    store.put(config(seed=5), table)
    pd.testing.assert_frame_equal(store.get(config(seed=5)), table, check_exact=True, check_dtype=True)
    manifest = json.loads((tmp_path / f"{config(seed=5).key()}.json").read_text())
    assert RunConfig(**manifest["config"]) == config(seed=5)
    assert manifest["versions"]["numpy"] == np.__version__
    assert store.get(config(seed=6)) is None
    assert set(store.get(config(seed=5, label="other name"))["label"]) == {"other name"}


def test_a_sweep_says_what_its_runs_took(tmp_path):
    store, configs = RunStore(tmp_path), [config(seed=1), config(seed=2, steps=24), config(seed=1, label="again")]
    began = time.process_time()
    sweep(configs, store, n_jobs=1)
    took = time.process_time() - began
    assert 0 < store.cpu_seconds(configs[:1]) < store.cpu_seconds(configs) < took
    assert store.cpu_seconds(configs) == store.cpu_seconds(configs[:2]), "equal runs are computed once"
    assert store.cpu_seconds([config(seed=3)]) is None
    store.put(config(seed=3), run(config(seed=3)))
    assert store.cpu_seconds([config(seed=3)]) is None, "kept without its time"


def test_the_key_changes_with_everything_that_matters(monkeypatch):
    base = config()
    others = [config(seed=1), config(optimizer="adam"), config(steps=13), config(record_every=4)]
    assert len({c.key() for c in [base, *others]}) == 5
    assert config(label="renamed").key() == base.key()
    monkeypatch.setattr(CONFIG, "source_digest", lambda: "other source")
    assert base.key() != others[0].key()
    assert config().key() not in {c.key() for c in others}


def test_damaged_files_count_as_nothing(tmp_path):
    store = RunStore(tmp_path)
    store.put(config(), run(config()))
    store.put(config(seed=1), run(config(seed=1)))
    whole, of_another = (store.file(config(seed=seed)).read_text() for seed in (0, 1))
    table = json.loads(whole)["table"]
    last = json.dumps(table["loss"][-1])
    broken = [
        whole[: len(whole) // 2],
        "",
        "{}",
        "[1]",
        "[" * 200_000,
        "\0",
        whole.replace('"held_out_loss"', '"kept"'),
    ]
    changed = [whole.replace(last, other) for other in ("null", "true", '"x"', "0.25", f"{last}, {last}")]
    assert whole not in changed
    for damaged in (*broken, *changed, of_another):
        store.file(config()).write_text(damaged)
        assert store.get(config()) is None
        assert store.cpu_seconds([config()]) is None
    store.file(config()).write_text(whole)
    assert store.get(config()) is not None


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_in_the_place_of_a_run_is_named(tmp_path, make):
    store = RunStore(tmp_path)
    make(store.file(config()))
    with pytest.raises(OSError, match=f"{store.file(config())} is not a file: remove it"):
        store.get(config())


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_a_sweep_computes_each_run_once_and_resumes(tmp_path, monkeypatch):
    store, computed = RunStore(tmp_path), []

    def spy(configs, *rest):
        computed.append(len(configs))
        return ((c, run(c), 0.0) for c in configs)

    monkeypatch.setattr(SWEEP, "_compute", spy)
    configs = [config(seed) for seed in range(3)]
    first = sweep([*configs, configs[0]], store, console=QUIET)
    second = sweep(configs, store, console=QUIET)
    third = sweep([*configs, config(7)], store, console=QUIET)
    assert computed == [3, 0, 1]
    assert len(first) == 4 * 4
    pd.testing.assert_frame_equal(first.iloc[: len(second)], second, check_exact=True)
    assert set(third["seed"]) == {0, 1, 2, 7}


def test_a_bad_configuration_is_found_before_anything_runs(tmp_path):
    bad = RunConfig(problem="quadratic", optimizer="adam", hyper={"lr": -1})
    with pytest.raises(ValueError, match="lr must be"):
        sweep([config(), bad], RunStore(tmp_path), console=QUIET)
    assert list(tmp_path.iterdir()) == []


def test_parallel_runs_are_the_serial_ones(tmp_path):
    configs = [config(seed) for seed in range(4)]
    serial = sweep(configs, RunStore(tmp_path / "a"), n_jobs=1, console=QUIET)
    parallel = sweep(configs, RunStore(tmp_path / "b"), n_jobs=2, console=QUIET)
    assert_equal(serial, parallel)


STOPPED = """
import importlib, signal, sys
from pathlib import Path

signal.signal(signal.SIGINT, {sigint})  # whatever the shell that runs the tests has set

from reference.experiments import RunConfig, RunStore, sweep

module = importlib.import_module("reference.experiments.sweep")
compute = module.run


def run(config):
    print("begun", flush=True)
    return compute(config)


if {jobs} == 1:
    module.run = run


class Told(RunStore):
    def put(self, config, table, cpu_seconds):
        super().put(config, table, cpu_seconds)
        print("kept", flush=True)


def config(seed, steps):
    return RunConfig(
        problem="quadratic", optimizer="adam", hyper={{"lr": 1e-3}}, steps=steps, seed=seed, record_every=steps
    )


sweep([{endless}, *(config(seed, 20) for seed in range(1, 4))], Told(Path(sys.argv[1])), n_jobs={jobs})
"""
ENDLESS = "config(0, 10**12)"


def test_a_store_that_can_not_be_written_is_told_before_anything_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        sweep([config()], RunStore(tmp_path / "file"), console=QUIET)


@pytest.mark.parametrize(
    ("sigint", "sent", "status", "jobs"),
    [
        ("signal.default_int_handler", signal.SIGINT, -signal.SIGINT, 2),
        ("signal.SIG_IGN", signal.SIGTERM, 128 + signal.SIGTERM, 1),  # nohup, or a background job of a script
        pytest.param("signal.default_int_handler", signal.SIGINT, -signal.SIGINT, 1, marks=pytest.mark.soak),
        pytest.param("signal.SIG_IGN", signal.SIGTERM, 128 + signal.SIGTERM, 2, marks=pytest.mark.soak),
    ],
)
def test_a_stopped_sweep_keeps_finished_runs_and_leaves_no_half_of_one(tmp_path, jobs, sigint, sent, status):
    """One run never ends, so the signal always comes in the middle of one; long runs are begun first."""
    store = tmp_path / "runs"
    if jobs == 1:  # the endless one alone, for it goes first; what is kept was kept before
        RunStore(store).put(config(seed=1), run(config(seed=1)))
    code = STOPPED.format(sigint=sigint, endless=ENDLESS, jobs=jobs)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout.readline() == (b"begun\n" if jobs == 1 else b"kept\n")
        process.send_signal(sent)
        # returns when the last process that has its standard error has ended; one that hangs fails in two minutes
        _, complaints = process.communicate(timeout=1800)
        assert process.returncode == status, complaints.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    kept = sorted(path.stem for path in store.glob("*.json"))
    assert len(kept) >= 1
    assert not list(store.glob(".*"))
    for stem in kept:
        stored = RunConfig(**json.loads((store / f"{stem}.json").read_text())["config"])
        assert len(RunStore(store).get(stored)) > 1


def test_a_handler_of_the_program_stays(tmp_path):
    """Whoever handles SIGTERM goes on doing so, during a sweep and after it; otherwise nothing is left behind."""
    seen = []

    def spy(*_):
        seen.append(signal.getsignal(signal.SIGTERM))
        return iter(())

    mine = signal.signal(signal.SIGTERM, handler := lambda *_: None)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SWEEP, "_compute", spy)
            patch.setattr(RunStore, "table", lambda *_: None)
            sweep([config()], RunStore(tmp_path), console=QUIET)
            assert seen == [handler]
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sweep([config()], RunStore(tmp_path), console=QUIET)
        assert seen[1] not in {handler, signal.SIG_DFL}
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, mine)


def test_a_sweep_on_a_dask_scheduler(tmp_path):
    """Workers in processes of their own; the tables come back here, and are the ones computed here."""
    distributed = pytest.importorskip("distributed")
    configs = [config(seed) for seed in range(3)]
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        remote = sweep(configs, RunStore(tmp_path / "a"), scheduler=cluster.scheduler_address, console=QUIET)
    assert_equal(remote, sweep(configs, RunStore(tmp_path / "b"), n_jobs=1, console=QUIET))


def test_a_scheduler_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(SWEEP, "DASK_TIMEOUT", "1s")
    with pytest.raises(ValueError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'"):
        sweep([config()], RunStore(tmp_path), scheduler="tcp://127.0.0.1:1", console=QUIET)


def test_a_file_written_through_a_link_leaves_the_link_and_a_device_stays_one(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    write_atomically(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    read: list[str] = []
    reader.start()
    write_atomically(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()
    write_atomically(Path(os.devnull), "away")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(("optimizer", "kept"), [("local_sgd", 1), ("local_adam", 5), ("diloco", 4)])
def test_what_is_kept_between_two_meetings_counts(optimizer, kept):
    """Every row of this table is at a meeting, where nobody has walked."""
    run_is = RunConfig(
        problem="quadratic",
        optimizer=optimizer,
        hyper={"lr": 0.01, "sync_every": 5},
        n_workers=3,
        steps=20,
        record_every=5,
    )
    assert run(run_is)["kept_per_parameter"].iloc[-1] == kept
