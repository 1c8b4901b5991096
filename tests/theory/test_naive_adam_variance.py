"""The reference's naive error-compensated Adam shows what T4 proves."""

from __future__ import annotations

import numpy as np
import pytest

from reference import NaiveAdam
from theory.theorems.naive_adam_variance import variance_floor_bound


@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_variance_is_one_number_above_the_floor(scale):
    rng = np.random.default_rng(0)
    mean = np.array([1.0, 0.1, -0.2, 0.0, 0.5, 0.02, -0.6, 0.3])
    grads = mean + np.array([[1.0], [-1.0]]) * rng.standard_normal(8)
    optimizer = NaiveAdam(lr=1e-3, beta1=0.9, beta2=0.99, scale=scale, server_chunks=1)
    state, error, floors, variances = optimizer.init(np.zeros(8), 2), 0.0, [], []
    for step in range(1, 1500):
        state = optimizer.step(state, grads)
        assert np.ptp(state.variance) == 0
        error = max(error, float(np.abs(state.worker_errors.mean(0) + state.server_error).max()))
        floors.append(step)
        variances.append(float(state.variance[0]))
    floors = [variance_floor_bound(1.0, error, 0.99, step) for step in floors]
    assert np.all(np.array(variances) >= floors)
    assert floors[-1] >= variances[-1] / 10
    assert variances[-1] > 100 * 0.05**2  # wrong by more than a factor of 100 where the gradient is 0.02 or 0
