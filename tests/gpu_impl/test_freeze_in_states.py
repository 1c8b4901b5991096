"""The rules C10 over a checkpoint: a resumed run freezes where it would have; states of format 4."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from freeze_support import BETA2, DELTA, flat, gradients, params_and_optimizer, stopped_at, train
from optimizer_support import mesh_of, pool
from state_format_4.make import RUNS, param_and_optimizer
from state_format_4.make import __file__ as made_by
from state_format_4.make import train as train_as_made
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from gpu_impl import OneBitAdam, load_checkpoint, resize_state_dicts, save_checkpoint
from gpu_impl.optimizer.freeze import norms_of
from theory import rounding


def resumed(at, rule, kind, way, folder, grads_TND):
    """Saved after step ``at``, and trained on beside a run that was resumed from it in new objects."""
    params, optimizer = stopped_at(at, rule, {}, grads_TND)
    fresh, again = params_and_optimizer(rule)
    if way == "state_dict":
        again.load_state_dict(optimizer.state_dict())
        fresh.load_state_dict(params.state_dict())
    elif way == "folder":
        save_checkpoint(folder, optimizer, params)
        load_checkpoint(folder, again, fresh)
    else:
        options = StateDictOptions(flatten_optimizer_state_dict=way == "flat dcp")
        weights, state = get_state_dict(params, optimizer, options=options)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
        weights, state = get_state_dict(fresh, again, options=options)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
        set_state_dict(fresh, again, model_state_dict=weights, optim_state_dict=state, options=options)
    ends = []
    for some, one in ((params, optimizer), (fresh, again)):
        train(some, one, grads_TND[:, dist.get_rank()], first=at)
        ends.append((flat(some).tobytes(), one.stats()))
    return ends


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", ["state_dict", "folder", "dcp", "flat dcp"])
@pytest.mark.parametrize("at", [0, 7, 50, 70])
def test_a_resumed_run_freezes_where_it_would_have(way, at, tmp_path):
    """Before there are norms, while they are compared, and after the freeze, where the state still has the key."""
    for straight, again in pool(2).call(resumed, at, "auto", "growing", way, tmp_path, gradients("growing")):
        assert straight == again
        assert 50 < straight[1].frozen_at <= 50 + DELTA, "so that norms from before step 50 decide"


def state_at(at, grads_TND):
    _, optimizer = stopped_at(at, "auto", {}, grads_TND)
    return optimizer.state_dict()


def from_state(state, at, grads_TND):
    params, optimizer = params_and_optimizer("auto")
    optimizer.load_state_dict(state)
    kept = [row.tolist() for row in optimizer.run.freeze_rule.norms]
    train(params, optimizer, grads_TND[:, dist.get_rank()], first=at)
    return kept, optimizer.stats().frozen_at


def test_another_number_of_workers_goes_on_with_the_norms():
    """In the warm-up nothing is owed, and the mean of equal gradients is the same for any number of workers."""
    grads_TND = np.repeat(gradients("growing", n=1), 3, axis=1)
    states = pool(2).call(state_at, 50, grads_TND)
    wanted = states[0]["state"][0]["variance_norms"].tolist()
    three = resize_state_dicts(states, 3)
    rows = pool(3).map(from_state, [(state, 50, grads_TND) for state in three])
    ((kept, frozen_at),) = pool(1).call(from_state, resize_state_dicts(states, 1)[0], 50, grads_TND)
    assert [row[0] for row in kept] == wanted
    assert rows == [(kept, frozen_at)] * 3
    assert 50 < frozen_at <= 50 + DELTA


def keys_of(rule, at):
    _, optimizer = stopped_at(at, rule, {}, gradients("growing", n=1))
    return {name: tuple(value.shape) for name, value in optimizer.state_dict()["state"][0].items() if name != "frozen"}


def test_only_a_rule_has_norms_in_the_state_and_in_every_phase():
    for at in (0, 7, 70):
        ((with_rule, without),) = [(pool(1).call(keys_of, "auto", at)[0], pool(1).call(keys_of, 5, at)[0])]
        assert set(with_rule) - set(without) == {"variance_norms"}
        assert with_rule["variance_norms"] == (DELTA + 1,)


def sharded_norms():
    """Of a model that is sharded over two ranks, on two replicas; and of the full tensors."""
    mesh = mesh_of()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 1))
    for layer in net:
        fully_shard(layer, mesh=mesh["shard"])
    fully_shard(net, mesh=mesh["shard"])
    group = mesh["replicate"].get_group()
    optimizer = OneBitAdam(net.parameters(), freeze_step="auto", betas=(0.9, BETA2), lr=1e-3, process_group=group)
    for t in range(1, 30):
        optimizer.zero_grad()
        net(torch.full((2, 7), 1.0 + t % 2)).square().mean().backward()
        optimizer.step()
        if t == 4:
            states = optimizer.state_dict()["state"]
            whole = [states[k]["exp_avg_sq"].full_tensor().double().sum().item() for k in range(4)]
            found = norms_of(optimizer.run).tolist()
            assert not any(isinstance(states[k]["variance_norms"], DTensor) for k in range(4))
    return found, whole, optimizer.stats().frozen_at


def test_norms_of_a_sharded_model_are_those_of_whole_parameters():
    rows = pool(4).call(sharded_norms)
    for found, whole, frozen_at in rows:
        assert (np.abs(np.subtract(found, whole)) <= 2 * rounding.gamma(21, "float64") * np.array(whole)).all()
        assert min(whole) > 0
        assert (found, frozen_at) == (rows[0][0], rows[0][2])


# --- states of format 4, which had one norm for all of v ---


def of_format_4(name, **hyper):
    saved = torch.load(made_by.replace("make.py", f"{name}.pt"), weights_only=True)
    param, optimizer = param_and_optimizer({**RUNS[name][1], **hyper})
    optimizer.load_state_dict(saved["state"])
    with torch.no_grad():
        param.copy_(saved["param"])
    train_as_made(param, optimizer, range(RUNS[name][0] + 1, RUNS[name][0] + 7))
    return param, optimizer, saved


def test_a_state_of_format_4_goes_on_to_the_bit():
    param, optimizer, saved = of_format_4("compressed")
    assert saved["state"]["param_groups"][0]["onebit"]["format"] == "onebit-adam-state-4"
    assert torch.equal(param, saved["later"])
    assert optimizer.state_dict()["param_groups"][0]["onebit"]["format"] == "onebit-adam-state-5"


def test_a_rule_begins_to_compare_anew_after_a_state_of_format_4():
    """The window is 5 steps: the published rule, which was "auto" then, would have fired in step 6."""
    _, optimizer, saved = of_format_4("warm-up", freeze_step="paper")
    assert len(saved["state"]["param_groups"][0]["onebit"]["variance_norms"]) > 2
    assert optimizer.steps == 10
    assert optimizer.stats().frozen_at in (None, 10)
    assert torch.equal(of_format_4("warm-up", freeze_step=100)[1].state_dict()["state"][0]["step"], torch.tensor(10.0))
