"""Local SGD: its workers walk alone, their mean obeys SGD, and every H steps they meet. Exact arithmetic, ``==``."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from reference_support import fractions, same, same_state

from reference import SGD, LocalSGD, load, resize, save
from reference.experiments import RunConfig, run
from reference.problems import make
from theory.rounding import gamma

HALF = Fraction(1, 2)


def steps(optimizer, n_workers=3, dim=7, count=9):
    rng = np.random.default_rng(5)
    state = optimizer.init(fractions(rng, dim), n_workers)
    for _ in range(count):
        grads_ND = fractions(rng, n_workers, dim)
        after = optimizer.step(state, grads_ND)
        yield state, grads_ND, after
        state = after


@pytest.mark.parametrize("weight_decay", [0, Fraction(1, 4)])
@pytest.mark.parametrize("sync_every", [1, 3, 4])
def test_workers_step_alone_and_meet_at_their_mean(sync_every, weight_decay):
    optimizer = LocalSGD(lr=HALF, sync_every=sync_every, weight_decay=weight_decay)
    for before, grads_ND, after in steps(optimizer):
        x_ND = optimizer.local_params(before)
        alone_ND = x_ND - HALF * (grads_ND + weight_decay * x_ND)
        if after.step % sync_every:
            assert same(optimizer.local_params(after), alone_ND)
            assert same(after.params, before.params)
            assert after.bytes_on_wire == before.bytes_on_wire
        else:
            assert same(after.params, alone_ND.sum(axis=0) / 3)
            assert not after.worker_errors.any()
            assert after.bytes_on_wire == before.bytes_on_wire + 2 * 2 * 4 * 7


def test_the_mean_of_the_workers_obeys_sgd():
    for before, grads_ND, after in steps(LocalSGD(lr=HALF, sync_every=4)):
        mean_before, mean_after = before.params - before.total_error, after.params - after.total_error
        assert same(mean_after, mean_before - HALF * grads_ND.sum(axis=0) / 3)


def test_meeting_every_step_is_sgd():
    local, sgd = LocalSGD(lr=HALF, sync_every=1), SGD(lr=HALF)
    for before, grads_ND, after in steps(local):
        assert same(after.params, sgd.step(before, grads_ND).params)


def test_a_resumed_run_goes_on_bit_for_bit_between_two_meetings():
    optimizer = LocalSGD(lr=0.5, sync_every=4)
    rng = np.random.default_rng(0)
    state = optimizer.init(np.ones(5, np.float32), 2)
    for _ in range(2):
        state = optimizer.step(state, rng.standard_normal((2, 5)).astype(np.float32))
    grads_ND = rng.standard_normal((2, 5)).astype(np.float32)
    assert same_state(optimizer.step(load(save(state)), grads_ND), optimizer.step(state, grads_ND))
    resized = resize(state, 5)
    assert resized.total_error == pytest.approx(state.total_error, rel=gamma(8, "float32"))


@pytest.mark.parametrize("sync_every", [0, 1.5, "often"])
def test_bad_interval(sync_every):
    with pytest.raises(ValueError, match=f"^sync_every must be an integer >= 1, got {sync_every!r}"):
        LocalSGD(lr=0.1, sync_every=sync_every)


@pytest.mark.parametrize("name", ["quadratic", "mlp", "char_transformer", "gan"])
def test_local_gradients_are_each_workers_own(name):
    """At one common point they are ``worker_gradients``, to rounding; at different points each is taken at its own."""
    problem = make(name, n_workers=3, dtype="float64")
    x = problem.initial_params(0)
    together = problem.worker_gradients(x, 4, 7)
    apart = problem.local_gradients(np.stack([x] * 3), 4, 7)
    assert np.abs(together - apart).max() <= gamma(problem.dim, "float64") * np.abs(together).max()
    moved_ND = np.stack([x, x + 0.1, x])
    moved = problem.local_gradients(moved_ND, 4, 7)
    assert np.array_equal(moved[[0, 2]], apart[[0, 2]])
    assert not np.array_equal(moved[1], apart[1])
    assert np.array_equal(moved[1], problem.local_gradients(np.stack([x + 0.1] * 3), 4, 7)[1])


def test_a_run_evaluates_each_worker_where_it_stands():
    """One noiseless quadratic a worker sees the same gradient field: two local steps are two steps of descent."""
    exact = {"problem": "quadratic", "problem_args": {"dim": 5, "noise": 0.0, "dtype": "float64"}, "steps": 4}
    local = run(RunConfig(optimizer="local_sgd", hyper={"lr": 0.5, "sync_every": 2}, record_every=2, **exact))
    plain = run(RunConfig(optimizer="sgd", hyper={"lr": 0.5}, record_every=2, **exact))
    assert local["loss"].to_numpy() == pytest.approx(plain["loss"].to_numpy(), rel=gamma(64, "float64"))
    frozen_point = plain["loss"].iloc[0]
    assert local["loss"].iloc[-1] < frozen_point
    assert local["bytes_per_worker"].iloc[-1] == plain["bytes_per_worker"].iloc[-1] / 2
