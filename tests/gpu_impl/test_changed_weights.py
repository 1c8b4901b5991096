"""Parameters that somebody changes between two steps, in any way that torch has: the next step goes on from there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from optimizer_support import flat, model, new, pool, train
from torch import distributed as dist
from torch import nn


def in_numpy(param):
    values = param.detach()
    (values.numpy() if values.dtype != torch.bfloat16 else values.view(torch.int16).numpy())[...] = 0


def in_inference(param):
    with torch.inference_mode():
        param.data.fill_(0.0)


def from_rank_1(param):
    if dist.get_rank() == 1:
        param.data.zero_()
    dist.broadcast(param.data, src=1)


WAYS = {
    "data": lambda param: param.data.zero_(),
    "detach": lambda param: param.detach().zero_(),
    "no_grad": torch.no_grad()(lambda param: param.zero_()),
    "init": lambda param: nn.init.constant_(param.data, 0.0),
    "NumPy": in_numpy,
    "inference": in_inference,
    "new memory": lambda param: setattr(param, "data", torch.zeros_like(param)),
    "broadcast": from_rank_1,
}


def change_and_go_on(way, dtype, at, backend, is_resumed):
    """Parameter 3 becomes 0 after step ``at``; the parameters after the next step, and how far that one moved."""
    params = model(dtype)
    optimizer = new(params, lr=1e-3, bucket_elements=60, backend=backend)
    train(params, optimizer, range(1, at + 1))
    WAYS[way](params[3])
    before = params[3].detach().clone()
    if is_resumed:
        state, weights = optimizer.state_dict(), {k: v.clone() for k, v in params.state_dict().items()}
        params = model(dtype, seed=1)
        params.load_state_dict(weights)
        optimizer = new(params, lr=1e-3, bucket_elements=60, backend=backend)
        optimizer.load_state_dict(state)
    train(params, optimizer, [at + 1])
    return bool((before == 0).all()), float(params[3].detach().abs().max()), flat(params)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_next_step_goes_on_from_what_the_model_holds(dtype, backend):
    """In every phase; a run that is resumed from there does the same, and so do all workers."""
    for at in (2, 5, 6, 8):
        expected = None
        for way in WAYS:
            for is_resumed in (False, True):
                results = pool(2).call(change_and_go_on, way, dtype, at, backend, is_resumed)
                for was_changed, size, values in results:
                    assert was_changed
                    assert 0 < size < 0.1, (way, at)  # one step from 0
                    expected = values if expected is None else expected
                    assert np.array_equal(values, expected), (way, at, is_resumed)
