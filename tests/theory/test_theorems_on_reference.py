"""T7, T9 and T10 met by the reference: the default floor, the freeze rule, resize, reset, wire bytes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from reference import OneBitAdam, compressed_allreduce, resize
from reference.problems import make
from theory import variance_floor
from theory.evaluate import bound
from theory.theorems.communication_volume import wire_bytes
from theory.theorems.compressed_stability import SAFE, stable_floor
from theory.theorems.freeze_rule import PUBLISHED, TWO_SIDED, fires_at, window_length
from theory.theorems.resize import RESET
from theory.theorems.variance_floor import FLOORED_STEP, worst_adam_step


def test_default_floor_is_one_gradient_of_average_size():
    """T7l: for l1 within the memory of v; for l2 more, the less flat the vectors are."""
    assert variance_floor(0.9, 0.999) == pytest.approx(1e-3, rel=0.005)
    assert variance_floor(0.9, 0.999, flatness=0.1) == pytest.approx(1.9e-2, rel=0.01)
    for beta1, beta2 in ((0.5, 0.9), (0.9, 0.95), (0.9, 0.999), (0.1, 0.99)):
        assert 0 < variance_floor(beta1, beta2) <= 1 - beta2
        assert variance_floor(beta1, beta2) < variance_floor(beta1, beta2, flatness=0.8)
        at_floor = bound(FLOORED_STEP, lr=1.0, beta1=beta1, variance_floor=variance_floor(beta1, beta2), n_steps=1)
        assert at_floor == pytest.approx(worst_adam_step(beta1, beta2))
    with pytest.raises(ValueError, match="it needs that beta1 squared is below beta2"):
        variance_floor(0.9, 0.8)
    with pytest.raises(ValueError, match="it needs that psi is above"):
        variance_floor(0.9, 0.999, flatness=0.04)


def test_unfloored_coordinate_jumps_beyond_any_adam_step():
    rng, dim = np.random.default_rng(0), 50
    strength = np.ones(dim)
    strength[0] = 1e-9
    optimizer = OneBitAdam(lr=1e-3, freeze_step=50, variance_floor=0.0)
    state = optimizer.init(np.zeros(dim), 1)
    for _ in range(51):
        before, state = state, optimizer.step(state, strength * rng.standard_normal((1, dim)))
    assert abs(state.params[0] - before.params[0]) > 1e3 * 1e-3 * worst_adam_step(0.9, 0.999)


@pytest.mark.parametrize("gain", [0.1, float(SAFE)])
def test_curved_coordinate_stays_bounded_where_t7f_says_so(gain):
    """One curved coordinate of low variance among 400 white ones: |x| <= 2 gamma P S with the largest S of the run."""
    rng, dim, lr = np.random.default_rng(1), 400, 1e-2
    optimizer = OneBitAdam(lr=lr, freeze_step=50, variance_floor=1e-4)
    state, strength = optimizer.init(np.zeros(dim), 1), np.ones(dim)
    strength[0] = 1e-5
    for _ in range(50):
        state = optimizer.step(state, strength * rng.standard_normal((1, dim)))
    p = 1 / np.sqrt(state.variance[0])
    curvature = gain / (lr * p)
    assert stable_floor(lr, curvature, float(state.variance.mean())) <= 1e-4 * (gain / float(SAFE)) ** 2 * 1.05
    state = replace(state, params=np.zeros(dim), momentum=np.concatenate([[0.0], state.momentum[1:]]))
    largest_scale = largest_x = 0.0
    for _ in range(2000):
        g = rng.standard_normal((1, dim))
        g[0, 0] = curvature * state.params[0]
        state = optimizer.step(state, g)
        largest_scale = max(largest_scale, float(np.abs(state.momentum).max()))
        largest_x = max(largest_x, abs(float(state.params[0])))
    assert largest_x <= 2 * lr * p * largest_scale


def test_published_freeze_rule_of_the_reference_fires_where_it_says():
    rng = np.random.default_rng(3)
    decay = np.exp(-np.arange(400) / 60)[:, None]  # v falls fast, then settles on a floor
    gradients = np.sqrt(decay + 0.05) * rng.standard_normal((400, 30))
    optimizer = OneBitAdam(lr=1e-4, beta2=0.95, freeze_step="paper")
    state = optimizer.init(np.zeros(30), 1)
    for row in gradients:
        state = optimizer.step(state, row[None])
    expected = fires_at(gradients**2, 0.95)
    assert state.frozen_at == expected
    assert expected is not None
    assert expected > window_length(0.95)


def test_what_the_freeze_rules_certify_holds_at_every_step_at_which_they_fire():
    """T7c and T7i on gradients that fall, settle and jump; each rule fires at some steps and not at others."""
    rng, beta2, window, tolerance = np.random.default_rng(5), 0.9, 10, 0.04
    level_T = np.concatenate([np.geomspace(4, 1, 60), np.ones(60), np.full(40, 3.0)])
    squares_TD = level_T[:, None] * rng.standard_normal((160, 40)) ** 2
    norms = [0.0]
    for squares_D in squares_TD:
        norms.append(beta2 * norms[-1] + (1 - beta2) * float(squares_D.sum()))
    weights = (1 - beta2) * beta2 ** np.arange(window)[::-1] / (1 - beta2**window)
    fired = {"published": 0, "two-sided": 0}
    for t in range(1, 160 - window):
        recent = float(weights @ squares_TD[t : t + window].sum(axis=1))
        if norms[t + window] >= 0.96 * norms[t]:
            fired["published"] += 1
            share = bound(PUBLISHED, beta2=beta2, window=window, threshold=0.96)
            assert recent / norms[t] >= share * (1 - 1e-12)
        before, after = norms[t] / (1 - beta2**t), norms[t + window] / (1 - beta2 ** (t + window))
        if abs(after - before) <= tolerance * before:
            fired["two-sided"] += 1
            apart = bound(TWO_SIDED, beta2=beta2, window=window, step=t, before=before, tolerance=tolerance)
            assert abs(recent - after) <= apart * (1 + 1e-9)
    assert all(0 < count < 149 for count in fired.values())
    assert fires_at(np.ones((60, 3)), beta2) == window + 1  # T7k: at its first chance


@pytest.mark.parametrize(("old", "new"), [(1, 4), (8, 3), (3, 5)])
def test_resize_conserves_delta_exactly_in_fractions(old, new):
    optimizer = OneBitAdam(lr=Fraction(1, 64), beta1=Fraction(1, 2), beta2=Fraction(3, 4), freeze_step=2, scale="l1")
    rng = np.random.default_rng(0)
    errors = np.vectorize(Fraction)(rng.integers(-50, 50, (old, 16)))
    state = optimizer.init(np.zeros(16), old)
    state = replace(state, worker_errors=errors, server_error=errors[0] / 3)
    after = resize(state, new)
    assert after.n_workers == new
    assert (after.total_error == state.total_error).all()


def test_reset_displaces_a_run_by_what_t9b_says():
    """Same gradients, one run loses its errors: its y stays gamma/(1-beta1) P Delta away for ever, up to rounding.

    Exactly, a step moves y by -gamma P gbar in both runs, so all that can part them more are the roundings of m, of
    the errors and of x. ``_rounding_of_a_step`` bounds those of one step; they add up, for nothing takes them back.
    """
    problem = make("quadratic", n_workers=4, dim=10, dtype="float64", noise=1.0)
    optimizer = OneBitAdam(lr=1e-3, freeze_step=20)
    state = optimizer.init(problem.initial_params(0), 4)
    for t in range(60):
        state = optimizer.step(state, problem.worker_gradients(state.params, 0, t))
    p = 1 / (np.sqrt(state.variance) + 1e-8)
    lost = state.total_error
    reset = replace(
        state, worker_errors=np.zeros_like(state.worker_errors), server_error=np.zeros_like(state.server_error)
    )
    before = state.params

    def virtual(s):  # y less the x at which the runs part: what remains is small, and so are its roundings
        return (s.params - before) - 1e-3 / 0.1 * p * (0.9 * s.momentum + s.total_error)

    rounding = np.zeros(10)
    for t in range(60, 400):
        g = problem.worker_gradients(np.zeros(10), 0, t)  # the same for both: drawn at a fixed point
        rounding += _rounding_of_a_step(state, g, p) + _rounding_of_a_step(reset, g, p)
        state, reset = optimizer.step(state, g), optimizer.step(reset, g)
    apart = virtual(reset) - virtual(state)
    expected = bound(RESET, lr=1e-3, beta1=0.9, p_coordinate=p, lost_error=lost)
    assert (np.abs(apart - expected) <= rounding).all()
    assert (rounding < 1e-9 * np.abs(expected).max()).all()  # a tolerance that lets nothing but roundings through


def _rounding_of_a_step(state, grads_ND, p_D):
    """How far the float64 roundings of the step from ``state`` can move y (D,): each is half a last place of a number.

    On y's scale, gamma/(1 - beta1) P: a worker's u, its message and its new error take 5 roundings, the server's as
    many, the mean of N messages N, the errors' and y's own sum N + 4. With L the largest of gradient, momentum and
    errors, u is at most 3 L, the server's 4 L and so is m, and an error 8 L. x takes 3: P m, gamma P m, the difference.
    """
    half_ulp, n = np.finfo(np.float64).eps / 2, len(grads_ND)
    largest = max(np.abs(a).max() for a in (grads_ND, state.momentum, state.worker_errors, state.server_error))
    moved = 1e-3 * p_D * 4 * largest
    return half_ulp * (1e-3 / 0.1 * p_D * (14 + 2 * n) * 8 * largest + np.abs(state.params) + 4 * moved)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_wire_bytes_of_the_reference_are_those_of_t10d(n):
    dim = 64 * n
    buffers = np.random.default_rng(0).standard_normal((n, dim))
    sent = compressed_allreduce(buffers, np.zeros_like(buffers), np.zeros(dim)).bytes_per_worker
    assert sent.mean() == wire_bytes(dim, n, n_blocks=n)
