"""A run is the reference's, bit by bit: schedules, skips, dead coordinates, clipping."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from optimizer_support import ONE_BUCKET, pool
from torch import nn

from gpu_impl import OneBitAdam
from reference import OneBitAdam as Reference


def train_flat(x_D, grads_TD, hyper, backend):
    """One parameter from given gradients; ``lr`` may be a list, one a step."""
    param = nn.Parameter(torch.from_numpy(x_D.copy()))
    lrs = hyper.pop("lr")
    optimizer = OneBitAdam([param], lr=1.0, backend=backend, bucket_elements=ONE_BUCKET, **hyper)
    for t, grad_D in enumerate(grads_TD):
        optimizer.param_groups[0]["lr"] = lrs[t]
        param.grad = torch.from_numpy(grad_D.copy())
        optimizer.step()
    return param.detach().numpy().copy(), optimizer.stats()


def beside_reference(n, backend, grads_TND, **hyper):
    """Trained here and by the reference: bitwise the same; the reference's last state."""
    x_D = np.random.default_rng(5).standard_normal(grads_TND.shape[2]).astype(np.float32)
    lrs = [1e-2 / (1 + t) for t in range(len(grads_TND))]
    rows = [(x_D, grads_TND[:, i], {**hyper, "lr": lrs}, backend) for i in range(n)]
    results = pool(n).map(train_flat, rows)
    reference = Reference(lr=lambda t: lrs[t - 1 + state.skipped_steps], **hyper)
    state = reference.init(x_D, n)
    for grads_ND in grads_TND:
        state = reference.step(state, grads_ND)
    for params_D, stats in results:
        assert params_D.tobytes() == state.params.tobytes()
        assert (stats.step, stats.skipped_steps, stats.frozen_at) == (state.step, state.skipped_steps, state.frozen_at)
    assert sum(stats.ignored_gradients for _, stats in results) >= state.ignored_gradients
    return state, results


def noise(n, steps, dim=77, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(dim) + 3 * rng.standard_normal((steps, n, dim))).astype(np.float32)


@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("n", [1, 2])
def test_a_run_is_the_reference_bitwise(n, backend):
    """Two summands have one order, so with N <= 2 the warm-up agrees, too. A schedule, a skip, dead coordinates."""
    grads_TND = noise(n, 60)
    grads_TND[:, :, ::13] = 0
    grads_TND[30:, 0, ::13] = 1
    grads_TND[33, -1, 5] = np.inf
    for more in ({"weight_decay": 0.01}, {"bias_correction": True, "scale": "l1", "variance_floor": 0.0}):
        state, results = beside_reference(n, backend, grads_TND, freeze_step=9, **more)
        assert state.ignored_gradients > 0
        assert results[0][1].dead_coordinates == 6


def test_clipping_by_one_factor():
    """From the root mean square of the norms [C9]; the factor is a power of two, so the reference agrees bitwise."""
    signs = np.where(np.random.default_rng(0).random((20, 2, 64)) < 0.5, -1, 1)
    grads_TND = (2 * signs).astype(np.float32)  # norms 16 and 16, four times what is allowed
    state, _ = beside_reference(2, "cpu", grads_TND, freeze_step=5, max_grad_norm=4.0)
    free, _ = beside_reference(2, "cpu", grads_TND, freeze_step=5, max_grad_norm=17.0)
    assert state.params.tobytes() != free.params.tobytes()
    uneven = grads_TND.copy()
    uneven[:, 0] /= 8  # norms 2 and 16: clipped by one factor on both, which local norms would not do
    for params_D, _ in beside_factor(uneven, max_grad_norm=4.0):
        assert params_D.tobytes() == beside_factor(uneven * np.float32(4.0 / math.sqrt(130.0)))[0][0].tobytes()


def beside_factor(grads_TND, **hyper):
    x_D = np.ones(64, np.float32)
    ours = {"freeze_step": 30, "lr": [1e-2] * len(grads_TND), **hyper}
    return pool(2).map(train_flat, [(x_D, grads_TND[:, i], dict(ours), "cpu") for i in range(2)])
