"""L3: the reference's Adam is ``torch.optim.Adam``/``AdamW`` to rounding, by the derived tolerance of one step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from reference_support import floats

from reference import SGD, Adam, MomentumSGD, OneBitAdam
from theory import rounding

HYPER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("make", [Adam, partial(OneBitAdam, freeze_step=10**6)], ids=["adam", "L3"])
def test_one_step_equals_torch_resynchronised(make, weight_decay, dtype):
    """After every step torch gets our state back, so that only the rounding of one step can differ."""
    optimizer = make(**HYPER, weight_decay=weight_decay, bias_correction=True)
    rng = np.random.default_rng(0)
    x = torch.nn.Parameter(torch.tensor(floats(rng, 500, dtype=dtype)))
    peer = torch.optim.AdamW([x], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=weight_decay)
    state = optimizer.init(x.detach().numpy().copy(), 4)
    for t in range(1, 40):
        grads_ND = floats(rng, 4, 500, dtype=dtype) * dtype_of(dtype)(10.0 ** rng.integers(-4, 3))
        mean_D = grads_ND.sum(axis=0) / 4
        tolerance = rounding.adam_step_tolerance(
            state.params,
            state.momentum,
            state.variance,
            mean_D,
            weight_decay=weight_decay,
            step=t,
            dtype=dtype,
            **HYPER,
        )
        state = optimizer.step(state, grads_ND)
        x.grad = torch.tensor(mean_D)
        peer.step()
        kept = peer.state[x]
        for ours, theirs, bound in (
            (state.params, x.detach(), tolerance.params),
            (state.momentum, kept["exp_avg"], tolerance.momentum),
            (state.variance, kept["exp_avg_sq"], tolerance.variance),
        ):
            gap = np.abs(ours.astype(np.longdouble) - theirs.numpy())
            assert (gap <= 2 * bound).all(), "two correct results are each within the bound of the exact one"
        with torch.no_grad():
            x.copy_(torch.tensor(state.params))
            kept["exp_avg"].copy_(torch.tensor(state.momentum))
            kept["exp_avg_sq"].copy_(torch.tensor(state.variance))


def dtype_of(name):
    return {"float32": np.float32, "float64": np.float64}[name]


def test_momentum_sgd_is_torch_sgd_with_dampening():
    """The exponential mean is the heavy ball with dampening beta; torch's first buffer is g, so it is set to ours."""
    rng = np.random.default_rng(1)
    x = torch.nn.Parameter(torch.tensor(floats(rng, 50, dtype=np.float64)))
    peer = torch.optim.SGD([x], lr=0.1, momentum=0.75, dampening=0.75)
    ours = MomentumSGD(lr=0.1, beta1=0.75)
    state = ours.init(x.detach().numpy().copy(), 1)
    peer.state[x]["momentum_buffer"] = torch.zeros(50, dtype=torch.float64)
    for _ in range(20):
        grad_D = floats(rng, 50, dtype=np.float64)
        before = state
        state = ours.step(state, grad_D[None])
        x.grad = torch.tensor(grad_D)
        peer.step()
        bound_m = rounding.momentum_tolerance(before.momentum, grad_D, 0.0, 0.75, "float64")
        bound_x = rounding.gamma(4, "float64") * (np.abs(before.params) + 0.1 * np.abs(state.momentum)) + 0.1 * bound_m
        buffer = peer.state[x]["momentum_buffer"]
        assert (np.abs(state.momentum - buffer.numpy()) <= 2 * bound_m).all()
        assert (np.abs(state.params - x.detach().numpy()) <= 2 * bound_x).all()
        with torch.no_grad():
            x.copy_(torch.tensor(state.params))
            buffer.copy_(torch.tensor(state.momentum))


def test_sgd_by_hand():
    optimizer = SGD(lr=0.5, weight_decay=0.25)
    state = optimizer.init(np.array([4.0, 8.0]), 2)
    state = optimizer.step(state, np.array([[1.0, 0.0], [3.0, 0.0]]))
    assert state.params.tolist() == [4 - 0.5 * (2 + 1), 8 - 0.5 * 2]
    assert replace(state, step=0).bytes_on_wire == 2 * 1 * 4 * 2
