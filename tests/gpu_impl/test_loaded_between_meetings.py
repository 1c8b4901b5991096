"""ZeroOneAdam resumed between two meetings: exact in whatever order, and whatever of the model was loaded."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
from family_optimizers import LOCAL
from optimizer_support import flat, pool
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

import gpu_impl
from gpu_impl import gather_on_save

END, MET, WALKING = 26, 15, 22
MODELS = ("own", "rank 0's", "where they met", "nothing")


def begun(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
    name, hyper = LOCAL
    optimizer = getattr(gpu_impl, name)(net.parameters(), lr=1e-2, weight_decay=0.01, bucket_elements=30, **hyper)
    return net, optimizer


def train(net, optimizer, steps):
    """Gradients of the values that the model has: where it stands counts."""
    for t in steps:
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * t + dist.get_rank()))
        optimizer.zero_grad()
        net(x.to(net[0].weight.dtype)).float().square().mean().backward()
        optimizer.step()


def weights_of(net, optimizer):
    """What somebody may load into the model, by the names in ``MODELS``."""
    own = copy.deepcopy(net.state_dict())
    with optimizer.at_last_meeting():
        met = copy.deepcopy(net.state_dict())
    of_rank_0 = [own]
    dist.broadcast_object_list(of_rank_0, 0)
    return {**dict(zip(MODELS, (own, of_rank_0[0], met), strict=False)), "nothing": None}


def resume(at, dtype):
    """The parameters at the end: of the run itself, and resumed after step ``at`` in every way."""
    net, optimizer = begun(dtype=dtype)
    train(net, optimizer, range(1, at + 1))
    state, weights = copy.deepcopy(optimizer.state_dict()), weights_of(net, optimizer)
    train(net, optimizer, range(at + 1, END))
    ends = {}
    for name, values in weights.items():
        for order in ("model first", "optimizer first", "optimizer first, then looked at"):
            if values is None and at == MET:  # where they met the parameters are no part of a state
                continue
            fresh, again = begun(3, dtype)
            if order == "model first" and values is not None:
                fresh.load_state_dict(values)
            again.load_state_dict(copy.deepcopy(state))
            if "looked" in order:
                again.state_dict()
            if order != "model first" and values is not None:
                fresh.load_state_dict(values)
            train(fresh, again, range(at + 1, END))
            ends[name, order] = flat(fresh.parameters()).tobytes()
    return flat(net.parameters()).tobytes(), ends


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("at", [MET, WALKING])
def test_a_resume_is_exact_in_every_order(at, dtype):
    """The first gradients were those at what had been loaded into the model after the optimizer."""
    for end, ends in pool(2).call(resume, at, dtype):
        assert [name for name, other in ends.items() if other != end] == []


def through_torch(is_full):
    """By torch's own function, which loads the optimizer first; saved as ``torch.distributed.checkpoint`` saves it."""
    options = StateDictOptions(full_state_dict=is_full, broadcast_from_rank0=is_full)
    net, optimizer = begun()
    train(net, optimizer, range(1, WALKING + 1))
    if is_full:
        gather_on_save(optimizer)
    weights, state = get_state_dict(net, optimizer, options=StateDictOptions(full_state_dict=is_full))
    weights = weights_of(net, optimizer)["rank 0's"]
    train(net, optimizer, range(WALKING + 1, END))
    fresh, again = begun(3)
    set_state_dict(fresh, again, model_state_dict=weights, optim_state_dict=state, options=options)
    train(fresh, again, range(WALKING + 1, END))
    return flat(net.parameters()).tobytes() == flat(fresh.parameters()).tobytes()


@pytest.mark.parametrize("is_full", [False, True])
def test_by_torchs_own_function(is_full):
    assert pool(2).call(through_torch, is_full) == [True, True]


def change_after_load(at, steps_before, by, new_value):
    """Parameter 0 becomes ``new_value`` some steps after a load; all of them after the next step, and what was told."""
    net, optimizer = begun()
    train(net, optimizer, range(1, at + 1))
    optimizer.load_state_dict(optimizer.state_dict())
    train(net, optimizer, range(at + 1, at + 1 + steps_before))
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("onebit").addHandler(handler)
    if new_value is not None:
        net[0].weight.data.fill_(new_value)
    if by == "training":
        train(net, optimizer, [at + 1 + steps_before])
    else:
        for param in net.parameters():
            param.grad = torch.ones_like(param)
        optimizer.step()
    logging.getLogger("onebit").removeHandler(handler)
    hooks = len(torch.nn.modules.module._global_forward_pre_hooks)
    return net[0].weight.detach().numpy().copy(), flat(net.parameters()).tobytes(), told, hooks


def changed_and_not(*arguments):
    """What :func:`change_after_load` gives with the value 1000, and without a change."""
    return [pool(1).call(change_after_load, *arguments, value)[0] for value in (1000.0, None)]


@pytest.mark.parametrize(("at", "steps_before"), [(MET, 0), (WALKING, 1)])
def test_changed_weights_count_where_the_workers_met_and_after_a_step(at, steps_before):
    """The next step goes on from them, as with OneBitAdam."""
    (changed, *_, told, hooks), _ = changed_and_not(at, steps_before, "training")
    assert (changed > 900).all()
    assert (told, hooks) == ([], 0)


def test_between_a_load_and_the_first_step_the_state_counts():
    """Where no module was called, nobody can put its values back before the gradients: that is told."""
    for by, n_told in (("training", 0), ("gradients alone", 1)):
        (_, changed, told, hooks), (_, unchanged, nothing, _) = changed_and_not(WALKING, 0, by)
        assert changed == unchanged
        assert (len(told), nothing, hooks) == (n_told, [], 0)
