"""The DDP hook with several parameter groups, and with what is changed between backward() and step()."""

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


@pytest.mark.one_in(4)
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


CHANGES = {
    "lr of group 1": ("lr", 0.5),
    "betas of group 0": ("betas", (0.5, 0.5)),
    "eps of group 1": ("eps", 1e-3),
    "weight_decay of group 0": ("weight_decay", 0.5),
}


def set_value(group, key, value):
    """Change a setting, where it stands if it is a list; what it was."""
    before = group[key]
    if isinstance(before, list):
        before, group[key][:] = tuple(before), value
    else:
        group[key] = value
    return before


def change_in_between(named, betas):
    """A setting changes between backward() and step(), is put back, and the step is taken; what is said, the states."""
    network, said, states = Network(), [], []
    optimizer = HookedOneBitAdam(groups_of(network, "decay"), **HYPER, betas=betas)
    model = DistributedDataParallel(network, **SMALL)
    optimizer.attach(model)
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        backward(model, t)
        for name in named:
            key, value = CHANGES[name]
            group = optimizer.param_groups[int(name[-1])]
            before = set_value(group, key, value)
            with pytest.raises(RuntimeError) as caught:
                optimizer.step()
            said.append(str(caught.value))
            set_value(group, key, before)
        optimizer.step()
        states.append(state_of(optimizer))
    return said, states


@pytest.mark.parametrize("betas", [(0.9, 0.99), [0.9, 0.99]])
def test_a_setting_that_changes_between_backward_and_step_is_refused(betas):
    """Momenta were formed with it, and its value compared; in every phase, before anything is lost."""
    pool = WorkerPool.of(2)
    changed, undisturbed = pool.call(change_in_between, list(CHANGES), betas), pool.call(change_in_between, [], betas)
    for (said, mine), (nothing, theirs) in zip(changed, undisturbed, strict=True):
        assert not nothing
        for sentence, name in zip(said, list(CHANGES) * STEPS, strict=True):
            assert sentence.startswith(f"{name} was changed between backward() and step()")
        assert all(equal(left, right) for left, right in zip(mine, theirs, strict=True))


def new_memory_in_between(kind, is_new):
    """The parameters after every step, which get new memory before it."""
    network, found = Network(), []
    optimizer = kind(groups_of(network, "decay"), **HYPER)
    model = network
    if kind is HookedOneBitAdam:
        model = DistributedDataParallel(network, **SMALL)
        optimizer.attach(model)
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        backward(model, t)
        for param in network.parameters():
            param.data = param.data.clone() if is_new else param.data
        optimizer.step()
        found.append([param.detach().clone() for param in network.parameters()])
    return found


@pytest.mark.parametrize("kind", [HookedOneBitAdam, OneBitAdam])
def test_a_parameter_that_gets_new_memory_between_backward_and_step_moves(kind):
    pool = WorkerPool.of(2)
    for mine, theirs in zip(*(pool.call(new_memory_in_between, kind, is_new) for is_new in (True, False)), strict=True):
        assert all(equal(left, right) for left, right in zip(mine, theirs, strict=True))
