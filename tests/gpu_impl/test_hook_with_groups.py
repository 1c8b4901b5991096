"""The DDP hook with several parameter groups: their buckets share messages and calls, and the bits are OneBitAdam's."""

from __future__ import annotations

import pytest
import torch
from test_ddp_hook import HYPER, SMALL, STEPS, Network, backward, equal, state_of
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import OneBitAdam
from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam


def groups_of(network, how):
    """Parameter groups as programs make them: by kind of parameter, by layer, with a part that stays with Adam."""
    matrices = [param for param in network.parameters() if param.ndim > 1]
    others = [param for param in network.parameters() if param.ndim < 2]
    layers = [list(layer.parameters()) for layer in network.children()]
    return {
        "decay": [{"params": matrices}, {"params": others, "weight_decay": 0.0}],
        "layers": [{"params": layer, "lr": 1e-2 / k} for k, layer in enumerate(layers, start=1)]
        + [{"params": [network.empty]}],
        "betas": [{"params": others, "betas": (0.5, 0.9)}, {"params": matrices, "betas": (0.8, 0.99), "eps": 1e-4}],
        "some with Adam": [
            {"params": layers[0], "non_freeze": True},
            {"params": layers[1]},
            {"params": [network.empty, *others[2:]], "non_freeze": True, "lr": 1e-3},
            {"params": [*layers[2][:1], *layers[3][:1]]},
        ],
    }[how]


def train_groups(kind, how, dtype, options):
    """The state after every step."""
    network = Network(dtype)
    optimizer = kind(groups_of(network, how), **HYPER | options)
    model = network
    if kind is HookedOneBitAdam:
        model = DistributedDataParallel(network, **SMALL)
        optimizer.attach(model)
    states = []
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        backward(model, t, nan_steps=(6,))
        optimizer.step()
        states.append(state_of(optimizer))
    return states


ALL_FORMS = {"compress": "update", "scale_block": 16, "frozen_dtype": "bfloat16"}


@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize(
    ("how", "dtype", "options"),
    [
        ("decay", torch.float32, {}),
        ("decay", torch.float32, ALL_FORMS),
        ("layers", torch.float32, {"scale_block": 8}),
        ("layers", torch.bfloat16, {"compress": "update"}),
        ("betas", torch.float32, {"compress": "update"}),
        ("betas", torch.float16, {"frozen_dtype": "bfloat16"}),
        ("some with Adam", torch.float32, {}),
        ("some with Adam", torch.bfloat16, ALL_FORMS),
    ],
)
def test_several_groups_share_a_message(how, dtype, options, backend):
    """The kernels make one call for each of them."""
    pool = WorkerPool.of(2)
    options = options | {"backend": backend}
    hooked = pool.call(train_groups, HookedOneBitAdam, how, dtype, options)
    plain = pool.call(train_groups, OneBitAdam, how, dtype, options)
    for mine, theirs in zip(hooked, plain, strict=True):
        for t, (left, right) in enumerate(zip(mine, theirs, strict=True), start=1):
            assert equal(left, right), f"step {t}"
