"""What is drawn is what the table says, figure by figure."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from figures_support import (
    FIGURES,
    LOSSES,
    TABLES,
    drawn,
    every_convergence,
    lines_of,
)

from paper_figures.algorithms import ADAM, ADAM_FAMILY, DIGITS, ONE_BIT, SGD_FAMILY
from paper_figures.figures import (
    byte_roofline,
    error_bounds,
    freeze_rule,
    linear_speedup,
    step_time_against_bandwidth,
    volume,
)
from theory.evaluate import bound
from theory.profile import TABLE_1
from theory.rounding import gamma
from theory.theorems.communication_volume import volume_ratio
from theory.theorems.convergence_nonconvex import THEOREM as T6A
from theory.theorems.error_bounds import SERVER_ERROR, TOTAL_ERROR, WORKER_ERRORS
from theory.theorems.time_model import compressed_speedup, fit


@every_convergence
def test_lines_are_geometric_means_and_bands_are_ranges(figure):
    canvas = drawn(figure, TABLES[figure.name])
    family, against_sgd = canvas.axes
    assert list(lines_of(family)) == [a.label for a in ADAM_FAMILY]
    assert list(lines_of(against_sgd)) == [a.label for a in (ADAM, ONE_BIT, *SGD_FAMILY)]
    for axes in canvas.axes:
        y = lines_of(axes)["Adam"].get_ydata()
        mean = 10 * math.prod(1 + seed / 10 for seed in range(5)) ** (1 / 5)
        assert y[0] == pytest.approx(mean, rel=gamma(30, "float64")), "of 10 (1 + seed/10) over seeds 0 ... 4"
        band = axes.collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx(14, rel=gamma(2, "float64"))
        assert axes.get_yscale() == "log"


@every_convergence
def test_a_diverging_run_is_said_and_cut(figure):
    table = TABLES[figure.name].copy()
    gone = (table["label"] == ONE_BIT.label) & (table["seed"] == 1) & (table["step"] > 500)
    for value in (np.nan, np.inf, 1e9):
        table.loc[gone, LOSSES] = value
        line = lines_of(drawn(figure, table).axes[0])["1-bit Adam (1 of 5 diverge)"]
        assert line.get_xdata().max() <= 500


@every_convergence
def test_swapping_two_labels_swaps_their_lines(figure):
    table = TABLES[figure.name].copy()
    table.loc[table["label"] == "Adam", LOSSES] /= 3
    swapped = table.replace({"label": {"Adam": ONE_BIT.label, ONE_BIT.label: "Adam"}})
    one, two = (lines_of(drawn(figure, t).axes[0]) for t in (table, swapped))
    assert np.array_equal(one["Adam"].get_ydata(), two[ONE_BIT.label].get_ydata())
    assert not np.array_equal(one["Adam"].get_ydata(), two["Adam"].get_ydata())


def test_swept_values_are_medians_and_diverged_seeds_lie_on_the_ceiling():
    table = TABLES["variance_floor"].copy()
    for kappa, n_gone in ((0.0, 5), (1e-12, 3), (1e-10, 2)):
        table.loc[(table["kappa"] == kappa) & (table["seed"] < n_gone) & (table["step"] > 0), "loss"] = np.nan
    axes = drawn(FIGURES["variance_floor"], table).axes[0]
    y = lines_of(axes)["1-bit Adam"].get_ydata()
    last = table.loc[(table["kappa"] == 1e-3) & (table["step"] == table["step"].max()), "loss"]
    assert y[0] == y[1] == table.loc[table["step"] == 0, "loss"].max(), "most seeds diverge"
    assert y[2] == sorted(last)[4], "two infinities and three numbers: the median is the largest number"
    assert y[-1] == np.median(last)
    crosses = sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() == "x")
    assert crosses == 10


def test_bytes_are_on_the_x_axis():
    axes = drawn(FIGURES["loss_against_bytes"], TABLES["loss_against_bytes"]).axes[0]
    assert lines_of(axes)["Adam"].get_xdata()[-1] == 100 * DIGITS.steps
    assert lines_of(axes)["1-bit Adam"].get_xdata()[-1] == 25 * DIGITS.steps


def test_the_freeze_rule_by_hand():
    """v falls by 10 % a window; of runs that are recorded every 50 steps, one is frozen at 150, the other at 200."""
    rows = []
    for step in range(0, 1001, 50):
        norm = 0.0 if step == 0 else 0.9 ** (step / 100)
        rows.append({"problem": "mlp", "label": "Adam", "beta2": 0.99, "seed": 0, "step": step, "variance_l1": norm})
    falling = pd.DataFrame(rows)
    ratio = freeze_rule.ratios(falling)
    assert ratio["step"].min() == 150, "t - Delta = 50 is the first with a norm"
    assert ratio["ratio"].to_numpy() == pytest.approx(0.9, rel=gamma(4, "float64"))
    own = pd.concat(
        [falling.assign(seed=seed, frozen=falling["step"] >= since) for seed, since in ((1, 200), (0, 150))]
    )
    step, at_once_S = freeze_rule.frozen_at_once(own, beta2=0.99)
    assert (step, at_once_S.tolist()) == (150, [True, False]), "Δ = 100: the first chance is step 101"


def test_error_bounds_are_the_theorems():
    table = pd.DataFrame({"grad_norm_max": [2.0, 1.0], "contraction_max": [0.5, 0.0], "heterogeneity_max": [1.5, 1.0]})
    (row,) = error_bounds.bounds(table).to_dict("records")
    given = {"gradient_bound": 2.0, "contraction": 0.5, "beta1": 0.9, "heterogeneity": 1.5}
    assert row["worker_bound"] == bound(WORKER_ERRORS, **given)
    assert row["server_bound"] == bound(SERVER_ERROR, **given)
    assert row["total_bound"] == bound(TOTAL_ERROR, **given)


def test_the_speed_up_is_measured_over_p_max_and_bounded_by_t6a():
    common = {"lr": 1e-3, "n_workers": 4, "horizon": 300, "start_gap": 2.0, "start_momentum": 0.5, "step": 320}
    runs = [
        common | {"p_max": 2.0, "mean_grad_norm_sq_p": 3.0, "total_error_max": 1.0, "seed": 0},
        common | {"p_max": 4.0, "mean_grad_norm_sq_p": 3.0, "total_error_max": 5.0, "seed": 1},
    ]
    points = linear_speedup.points(pd.DataFrame(runs))
    assert points["grad_norm_sq_mean"].tolist() == [1.5, 0.75]
    given = {"lr": 1e-3, "beta1": 0.9, "n_workers": 4, "n_steps": 300, "smoothness": 1.0, "start_momentum": 0.5}
    given |= {"noise": linear_speedup.NOISE, "error_bound": 5.0, "start_gap": 2.0}
    expected = [bound(T6A, p_max=p, **given) / p for p in (2.0, 4.0)]
    assert points["bound"].tolist() == expected, "E_Delta is the largest of all seeds"


def test_more_workers_may_take_larger_steps_and_longer_runs_smaller_ones():
    assert linear_speedup.step_size(1, 300) > linear_speedup.step_size(1, 1000)


def test_volume_counts_against_adam_of_the_same_size():
    table = TABLES["volume"].copy()
    table["bytes_per_worker"] *= table["dim"]
    ratio = volume.measured_ratio(table)
    assert set(ratio.loc[ratio["optimizer"] == "adam", "ratio"]) == {1.0}
    assert set(ratio.loc[ratio["optimizer"] != "adam", "ratio"]) == {4.0}
    axes = drawn(FIGURES["volume"], TABLES["volume"]).axes[0]
    fp32 = lines_of(axes)["1/(w + (1−w)/32), against fp32"]
    assert fp32.get_ydata().tolist() == [volume_ratio(w, 32) for w in fp32.get_xdata()]


def test_step_times_are_the_models():
    table = TABLES["step_time_against_bandwidth"]
    for network, row in step_time_against_bandwidth.LARGEST.items():
        here = table[table["network"] == network]
        model = fit(network)
        at = here[(here["kind"] == "model") & (here["gigabits"] == model.gigabits)].set_index("bits")["milliseconds"]
        for bits in (16, 1):
            expected = row.compute + model.allreduce(row, bits)
            assert at[bits] == pytest.approx(expected, rel=gamma(16, "float64"))
        assert here.loc[here["kind"] == "published", "milliseconds"].tolist() == [row.step]
        assert row.step / at[1] == pytest.approx(compressed_speedup(network, row), rel=gamma(20, "float64"))


def test_throughput_is_table_1():
    table = TABLES["throughput_against_gpus"]
    published = table[table["kind"] == "published"]
    rows = [r for r in TABLE_1 if r.nodes > 1 and (r.batch, r.accumulation) == (16, 1)]
    assert len(published) == len(rows) == 7
    for row in rows:
        here = published[(published["network"] == row.network) & (published["gpus"] == row.gpus)]
        assert here["samples_per_second"].tolist() == [1000 * 16 * row.gpus / row.step]
        assert here["fitted"].tolist() == [row in fit(row.network).fitted]
    model = table[(table["kind"] == "model") & (table["gpus"] == 64) & (table["network"] == "Ethernet")]
    expected = {bits: 1000 * 16 * 64 / fit("Ethernet").step(rows[0], bits) for bits in (16, 1)}
    assert model.set_index("bits")["samples_per_second"].to_dict() == expected


def test_the_roofline_shows_every_results_file_and_theorys_floor():
    table = TABLES["byte_roofline"]
    assert set(table["file"]) == {file.stem for file in byte_roofline.RESULTS.glob("*.csv")}
    assert table["theory_bytes"].to_numpy() == pytest.approx(table["floor_bytes"].to_numpy(), rel=gamma(8, "float64"))
    assert set(table.loc[table["kernel"] == "step", "theory_bytes"]) == {24.5 + 8.125 / 8}
    canvas = drawn(FIGURES["byte_roofline"], table)
    titles = [axes.get_title(loc="left") for axes in canvas.axes]
    assert [title.split(",")[0] for title in titles] == list(table.drop_duplicates("file")["device"])
