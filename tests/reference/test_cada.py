"""CADA: whose gradient the server uses and how old it is, the limit AMSGrad, bytes and rounds; bugs that are caught."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from family_support import float_steps, learns, mean, resumes_exactly, train
from reference_support import floats, same

from reference import CADA, load, resize, save
from reference.allreduce import chunk_slices, dense_allreduce_bytes

GRADUAL = {"lr": 0.01, "threshold": 3.0, "memory": 3, "max_age": 4}


def slow_steps(optimizer, n_workers=4, dim=17, steps=25):
    """Gradients that change slowly, at a different pace for each worker, so that some are uploaded and some are not."""
    rng = np.random.default_rng(0)
    grads_ND = floats(rng, n_workers, dim, dtype=np.float64)
    pace_N1 = 0.003 * 4.0 ** np.arange(n_workers)[:, None]
    state = optimizer.init(floats(rng, dim, dtype=np.float64), n_workers)
    for _ in range(steps):
        grads_ND = grads_ND + pace_N1 * floats(rng, n_workers, dim, dtype=np.float64)
        after = optimizer.step(state, grads_ND)
        yield state, grads_ND, after
        state = after


def obeys_the_rule(optimizer):
    """Each worker uploads if and only if its gradient changed by more than (c/d) of the last d steps, or is too old."""
    history, iterates, skipped = {}, [], 0
    for before, grads_ND, after in slow_steps(optimizer):
        t = after.step
        iterates.append(before.params)
        steps = [((a - b) ** 2).sum() for a, b in zip(iterates[1:], iterates[:-1], strict=True)][-optimizer.memory :]
        bound = optimizer.threshold / optimizer.memory * sum(steps)
        for i, grad_D in enumerate(grads_ND):
            last, uploaded_D = history.get(i, (-(10**9), np.zeros_like(grad_D)))
            due = t - last >= optimizer.max_age or ((grad_D - uploaded_D) ** 2).sum() > bound
            if due:
                history[i] = (t, grad_D)
            skipped += not due
            if not same(after.slots["uploaded_ND"][i], history[i][1]):
                return False
        # the mean of what was uploaded is what the server uses
        expected_D = 0.9 * before.momentum + (1 - 0.9) * mean(np.stack([history[i][1] for i in range(4)]))
        if not same(after.momentum, expected_D):
            return False
    assert 0 < skipped < 100
    return True


@dataclass(frozen=True, kw_only=True)
class NeverTooOld(CADA):
    """Bug: the age is not looked at."""

    def uploads(self, state, grads_ND):
        return super().uploads(state.with_slots(age_N=state.slots["age_N"] * 0), grads_ND)


@dataclass(frozen=True, kw_only=True)
class OneStepOnly(CADA):
    """Bug: the bound looks at the last step alone."""

    def uploads(self, state, grads_ND):
        last_K = state.slots["moved_K"] * (np.arange(self.memory) == self.memory - 1)
        return super().uploads(state.with_slots(moved_K=last_K), grads_ND)


def test_who_uploads():
    assert obeys_the_rule(CADA(**GRADUAL))


@pytest.mark.parametrize("bug", [NeverTooOld, OneStepOnly])
def test_planted_bugs_break_the_rule(bug):
    assert not obeys_the_rule(bug(**GRADUAL))


def test_with_the_threshold_0_it_is_amsgrad():
    """Against the formulas of the paper's server, with eps under the root, step by step and to the last bit."""
    optimizer = CADA(lr=0.01, threshold=0.0, weight_decay=0.1)
    v = m = 0.0
    for before, grads_ND, after in float_steps(optimizer, dtype=np.float64):
        grad_D = mean(grads_ND)
        m, v = 0.9 * m + (1 - 0.9) * grad_D, np.maximum(v, 0.999 * v + (1 - 0.999) * (grad_D * grad_D))
        assert same(after.params, before.params - 0.01 * (m / np.sqrt(1e-8 + v) + 0.1 * before.params))
        assert after.bytes_on_wire == after.step * dense_allreduce_bytes(37, 3)


def test_a_gradient_that_has_not_changed_is_not_uploaded():
    """Not even where the bound is 0."""
    optimizer, grads_ND = CADA(lr=0.01, threshold=0.0), floats(np.random.default_rng(0), 3, 9)
    first = optimizer.step(optimizer.init(grads_ND[0], 3), grads_ND)
    second = optimizer.step(first, grads_ND)
    assert first.slots["age_N"].tolist() == [1, 1, 1]
    assert second.slots["age_N"].tolist() == [2, 2, 2]
    assert second.bytes_on_wire - first.bytes_on_wire == 4 * 2 * 9


def test_bytes_and_rounds():
    """An upload is all but the worker's own chunk; the new x goes to all others in every step, one round each."""
    chunks = [chunk.stop - chunk.start for chunk in chunk_slices(17, 4)]
    for before, _, after in slow_steps(CADA(**GRADUAL)):
        uploads_N = after.slots["age_N"] == 1
        expected = 4 * (sum(17 - chunks[i] for i in range(4) if uploads_N[i]) + 3 * 17)
        assert after.bytes_on_wire - before.bytes_on_wire == expected
        assert after.rounds == after.step


def test_a_resumed_run_goes_on_bit_for_bit():
    assert resumes_exactly(CADA(**GRADUAL))
    for before, grads_ND, after in slow_steps(CADA(**GRADUAL)):
        assert same(CADA(**GRADUAL).step(load(save(before)), grads_ND).params, after.params)


def test_it_learns_and_does_so_again():
    assert learns(CADA(lr=3e-3, threshold=1.0))
    dense = train(CADA(lr=3e-3, threshold=0.0))[2].bytes_on_wire
    assert train(CADA(lr=3e-3, threshold=1e4))[2].bytes_on_wire < dense


def test_no_gradient_grows_older_than_it_may_by_a_resize():
    """The mean of gradients of several ages is as old as the oldest."""
    optimizer = CADA(lr=1e-3, threshold=1e9, max_age=10)
    state, row_D = optimizer.init(np.zeros(4), 2), np.ones(4)
    state = optimizer.step(state, np.array([row_D, row_D]))
    for _ in range(4):
        state = optimizer.step(state, np.array([row_D, row_D]))
    state = state.with_slots(age_N=np.array([1, 5]))
    one = resize(state, 1)
    assert one.slots["age_N"].tolist() == [5]
    assert resize(one, 3).slots["age_N"].tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threshold": -1}, "threshold must be a finite number >= 0, got -1"),
        ({"memory": 0}, "memory must be an integer >= 1, got 0"),
        ({"max_age": 0}, "max_age must be an integer >= 1, got 0"),
    ],
)
def test_bad_settings(change, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        CADA(**({"lr": 1.0} | change))
