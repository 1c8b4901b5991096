"""Probes read what they say, change nothing, and refuse what they cannot measure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reference.experiments import COLUMNS, RunConfig, RunStore, run, sweep
from reference.experiments.probes import PROBES
from theory.rounding import gamma

SUITED = {
    "layers": ("mlp", {"hidden_sizes": [4]}, "one_bit_adam"),
    "compression": ("quadratic", {"dim": 20}, "one_bit_adam"),
    "stationarity": ("quadratic", {"dim": 20}, "one_bit_adam"),
    "squares": ("quadratic", {"dim": 20}, "naive_adam"),
}


def config(suite, **more):
    problem, arguments, optimizer = SUITED[suite]
    hyper = {"lr": 1e-2, "beta1": 0.75} | ({"freeze_step": 5} if optimizer == "one_bit_adam" else {})
    settings = {"problem": problem, "problem_args": arguments, "optimizer": optimizer, "hyper": hyper, "n_workers": 3}
    return RunConfig(**(settings | {"steps": 12, "record_every": 4, "probe": suite} | more))


def walk(probe, steps=12):
    """(problem, optimizer, probe, [(before, gradients, after), ...]) of a run that the probe has seen."""
    problem, optimizer = config(probe).build()
    observer = PROBES[probe](problem, optimizer)
    state, seen = optimizer.init(problem.initial_params(0), 3), []
    for t in range(1, steps + 1):
        grads_ND = problem.worker_gradients(state.params, 0, t)
        after = optimizer.step(state, grads_ND)
        observer.observe(state, grads_ND, after)
        seen.append((state, grads_ND, after))
        state = after
    return problem, optimizer, observer, seen


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_adds_columns_and_changes_no_others(probe, tmp_path):
    with_probe, without = run(config(probe)), run(config(probe, probe=None))
    extra = with_probe.columns[len(without.columns) :]
    assert len(extra) >= 2
    clock = ["seconds"]
    pd.testing.assert_frame_equal(with_probe[without.columns].drop(columns=clock), without.drop(columns=clock))
    store = RunStore(tmp_path)
    store.put(config(probe), with_probe)
    pd.testing.assert_frame_equal(store.get(config(probe)), with_probe, check_exact=True)
    assert store.get(config(probe, probe=None)) is None, "a table without the columns is another run"


def test_tags_are_columns_and_no_part_of_the_key(tmp_path):
    tagged, plain = config("layers", tags={"kappa": 0.5}), config("layers")
    assert tagged.key() == plain.key()
    store = RunStore(tmp_path)
    table = sweep([tagged, plain], store, n_jobs=1)
    assert table["kappa"].dropna().tolist() == [0.5] * 4
    assert table.columns.tolist().index("kappa") < table.columns.tolist().index("step")
    assert len(list(tmp_path.iterdir())) == 1
    assert list(COLUMNS) == [name for name in table.columns if name in COLUMNS]


def test_layers_add_up():
    table = run(config("layers"))
    parts = table.filter(like="variance_l1[").to_numpy().sum(axis=1)
    assert table.filter(like="variance_l1[").columns.tolist() == [f"variance_l1[{n}]" for n in ("W1", "b1", "W2", "b2")]
    assert parts == pytest.approx(table["variance_l1"].to_numpy(), rel=gamma(400, "float64"))


def test_compression_by_hand():
    _, optimizer, observer, seen = walk("compression")
    row = observer.row(seen[-1][2])
    grads = [g.astype(float) for _, g, _ in seen]
    assert row["grad_norm_max"] == pytest.approx(
        max(np.sqrt((g**2).sum(axis=1).mean()) for g in grads), rel=gamma(70, "float64")
    )
    spreads = [np.sqrt(((g - g.mean(axis=0)) ** 2).sum(axis=1).mean()) for g in grads]
    assert row["heterogeneity_max"] == pytest.approx(max(spreads), rel=gamma(20, "float32"))
    factors = []
    for before, g, after in seen[5:]:
        u_ND = optimizer.beta1 * before.momentum + (1 - optimizer.beta1) * g + before.worker_errors
        factors += list(np.linalg.norm(after.worker_errors, axis=1) / np.linalg.norm(u_ND, axis=1))
        w_D = after.momentum + after.server_error
        factors.append(np.linalg.norm(after.server_error) / np.linalg.norm(w_D))
    assert row["contraction_max"] == pytest.approx(max(factors), rel=gamma(50, "float32"))
    last = np.abs(u_ND)
    by_hand = (last.sum(axis=1) ** 2 / (20 * (last**2).sum(axis=1))).mean()
    assert row["worker_phi"] == pytest.approx(by_hand, rel=gamma(50, "float32"))
    assert 0 < row["server_phi"] <= 1


def test_stationarity_by_hand():
    problem, optimizer, observer, seen = walk("stationarity")
    row = observer.row(seen[-1][2])
    frozen = seen[5][0]
    p_D = 1 / (np.sqrt(frozen.variance) + optimizer.eps)
    norms = [(p_D * problem.gradient(before.params).astype(float) ** 2).sum() for before, _, _ in seen[5:]]
    assert len(norms) == 7
    assert row["mean_grad_norm_sq_p"] == pytest.approx(np.mean(norms), rel=gamma(60, "float32"))
    assert row["p_max"] == pytest.approx(p_D.max(), rel=gamma(4, "float32"))
    errors = [np.linalg.norm(after.total_error) for _, _, after in seen[5:]]
    assert row["total_error_max"] == pytest.approx(max(errors), rel=gamma(40, "float32"))
    virtual_D = frozen.params - 1e-2 * 0.75 / 0.25 * p_D * frozen.momentum
    assert row["start_gap"] == pytest.approx(problem.loss(virtual_D), rel=gamma(400, "float32"))
    early = PROBES["stationarity"](problem, optimizer)
    assert np.isnan(early.row(seen[0][0])["mean_grad_norm_sq_p"])


def test_squares_add_up_to_the_variance():
    """T4a: exact + cross + square = v, at every step, to the rounding of v in float32."""
    _, optimizer, observer, seen = walk("squares")
    row = observer.row(seen[-1][2])
    total = row["exact_variance_l1"] + row["cross_variance"] + row["square_variance"]
    sizes = sum(
        optimizer.beta2 ** (len(seen) - 1 - k) * (1 - optimizer.beta2) * size
        for k, (before, g, after) in enumerate(seen)
        for size in [
            ((np.abs(g).mean(axis=0) + np.abs(before.worker_errors).mean(axis=0) + np.abs(before.server_error)
              + np.abs(after.worker_errors).mean(axis=0) + np.abs(after.server_error)) ** 2).sum()
        ]
    )  # fmt: skip
    assert abs(total - float(seen[-1][2].variance.sum())) <= gamma(40, "float32") * sizes
    assert row["square_variance"] > row["exact_variance_l1"] / 10
    assert row["exact_spread"] > row["spread"] >= 1


def test_squares_of_plain_adam_are_the_variance_alone():
    table = run(config("squares", optimizer="adam"))
    assert (table["square_variance"] == 0).all()
    assert (table["cross_variance"] == 0).all()
    assert table["exact_variance_l1"].to_numpy() == pytest.approx(
        table["variance_l1"].to_numpy(), rel=gamma(60, "float32")
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"probe": "oracle"}, "probe must be one of layers, .*, got 'oracle'"),
        ({"probe": "layers", "problem": "rosenbrock", "problem_args": {}}, "the probe 'layers' needs a problem with"),
        ({"probe": "compression", "optimizer": "adam", "hyper": {"lr": 1.0}}, "the probe 'compression' needs 1-bit"),
        ({"probe": "stationarity", "problem": "mlp", "problem_args": {}}, "the probe 'stationarity' needs 1-bit Adam"),
        ({"probe": "squares", "optimizer": "sgd", "hyper": {"lr": 1.0}}, "the probe 'squares' needs an optimizer"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_runs(change, says, tmp_path):
    base = config(change["probe"] if change["probe"] in SUITED else "layers").to_dict()
    with pytest.raises(ValueError, match=f"^{says}"):
        sweep([RunConfig(**(base | change))], RunStore(tmp_path), n_jobs=1)


def test_skipped_steps_are_not_observed():
    """Adam with an absurd step size: gradients overflow, their steps are skipped, and no NaN enters the averages."""
    hyper = {"lr": 1e30}
    table = run(RunConfig(problem="rosenbrock", optimizer="adam", hyper=hyper, steps=5, probe="squares"))
    assert table["skipped_steps"].iloc[-1] > 0
    assert np.isfinite(table["exact_variance_l1"]).all()
