"""Step sizes: tuned on one grid for all, by the lowest loss, on seeds that no figure shows."""

from __future__ import annotations

import json

import numpy as np
from figures_support import (
    made_up,
)

from paper_figures.algorithms import ADAM, DIGITS, SGD_FAMILY, TUNED, TUNED_FILE, seeds
from paper_figures.figure import Scale
from paper_figures.tuning import ALGORITHMS, SEEDS, best_first, beyond, grid, record
from paper_figures.tuning import PROBLEMS as TUNED_ON
from paper_figures.tuning import config as tuned_config
from reference.experiments import RunStore


def test_tuned_step_sizes_are_on_the_grid_for_every_problem():
    assert set(TUNED) == {experiment.problem for experiment, _ in TUNED_ON}
    for problem, chosen in TUNED.items():
        assert list(chosen) == [algorithm.label for algorithm in ALGORITHMS]
        for algorithm in ALGORITHMS:
            lr = chosen[algorithm.label]
            assert f"{lr:.0e}"[0] in "13", f"{problem}, {algorithm.label}: half decades"
            outside = not grid(algorithm)[0] < lr < grid(algorithm)[-1]
            assert not outside or beyond(algorithm, [lr, lr / 3, lr * 3]) is None
    assert len({len(grid(algorithm)) for algorithm in ALGORITHMS}) == 1, "one budget for all"
    assert not {seed for scale in Scale for seed in seeds(scale)} & set(SEEDS)


def test_the_grid_goes_on_where_its_end_wins():
    assert beyond(ADAM, [1e-4, 3e-4, 1e-3]) == 3e-5
    assert beyond(ADAM, [3e-5, 1e-4]) == 1e-5
    assert beyond(ADAM, [3e-2, 1e-2]) == 1e-1
    assert beyond(ADAM, [1e-3, 3e-3]) is None
    assert beyond(SGD_FAMILY[0], [3.0, 1.0]) == 10.0


def test_the_best_step_size_has_the_lowest_loss_and_a_diverged_run_is_the_worst(tmp_path):
    store = RunStore(tmp_path)
    configs = [tuned_config(DIGITS, ADAM, lr, seed) for lr in (1e-4, 1e-3, 1e-2) for seed in (1000, 1001)]
    ends = {1e-4: (0.5, 0.4), 1e-3: (0.1, 0.2), 1e-2: (0.001, np.nan)}
    for one in configs:
        table = made_up(one).assign(loss=2.0)
        table.loc[table["step"] > 0, "loss"] = ends[one.tags["lr"]][one.seed - 1000]
        store.put(one, table)
    assert best_first(DIGITS, "loss", configs, store) == {ADAM.label: [1e-3, 1e-4, 1e-2]}


def test_what_was_found_is_written_beside_what_stays(tmp_path):
    kept = tmp_path / TUNED_FILE.name
    kept.write_bytes(TUNED_FILE.read_bytes())
    assert record({DIGITS.problem: {ADAM.label: TUNED[DIGITS.problem][ADAM.label]}}, kept) == []
    assert kept.read_bytes() == TUNED_FILE.read_bytes()
    assert record({DIGITS.problem: {ADAM.label: 0.5}}, kept) == ["mlp, Adam: 0.5, was 0.01"]
    expected = TUNED | {"mlp": TUNED["mlp"] | {"Adam": 0.5}}
    assert json.loads(kept.read_text(encoding="utf-8")) == expected
