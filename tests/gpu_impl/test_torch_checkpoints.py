"""torch's own tools: torch.distributed.checkpoint as torchtitan and FSDP2 programs use it, flat or not, resharded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from optimizer_support import flat, mesh_of, model, new, pool, train
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from gpu_impl import gather_on_save, gathered_state_dict
from theory import rounding

HYPER = {"bucket_elements": 60, "weight_decay": 0.01}
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def through_dcp(folder, at, is_flat):
    """Saved after step ``at``, loaded into fresh objects, trained on beside the run that was not stopped."""
    options = FLAT if is_flat else StateDictOptions()
    params = model()
    optimizer = new(params, **HYPER)
    train(params, optimizer, range(1, at + 1))
    before = optimizer.steps, str(optimizer.phase), flat(params).tobytes()
    weights, state = get_state_dict(params, optimizer, options=options)
    assert (optimizer.steps, str(optimizer.phase), flat(params).tobytes()) == before, "no hidden step"
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)

    fresh = model(seed=5)
    again = new(fresh, **HYPER)
    weights, state = get_state_dict(fresh, again, options=options)
    loaded = {"model": weights, "optimizer": state}
    dcp.load(loaded, checkpoint_id=folder)
    set_state_dict(
        fresh, again, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"], options=options
    )
    assert again.stats() == again.stats()
    for some, one in ((params, optimizer), (fresh, again)):
        train(some, one, range(at + 1, 13))
    return flat(params).tobytes(), flat(fresh).tobytes(), optimizer.stats() == again.stats()


@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("at", [0, 2, 5, 8])
def test_dcp_saves_and_loads_a_run_to_the_bit(at, is_flat, tmp_path):
    """It took a hidden step, moved the phase and failed with KeyError: 'onebit'."""
    for straight, resumed, same_stats in pool(2).call(through_dcp, tmp_path, at, is_flat):
        assert straight == resumed
        assert same_stats


def looks_like_adam():
    params = model()
    optimizer = new(params, **HYPER)
    train(params, optimizer, range(1, 9))
    adam = torch.optim.AdamW(model())
    for param in adam.param_groups[0]["params"]:
        param.grad = torch.ones_like(param)
    adam.step()
    ours, theirs = get_optimizer_state_dict(params, optimizer)["state"], adam.state_dict()["state"]
    rank = dist.get_rank()
    own = {f"worker_error_of_{rank}", f"server_error_of_{rank}", f"ignored_of_{rank}", "frozen"}
    for name, one in theirs.items():
        mine = ours[str(name)]
        assert set(mine) == set(one) | own
        for key, value in one.items():
            assert mine[key].shape == value.shape
            assert mine[key].dtype == value.dtype
    return [float(one["step"]) for one in ours.values()], bool((ours["0"]["exp_avg_sq"] > 0).all())


def test_the_state_looks_as_that_of_adam():
    assert pool(2).call(looks_like_adam) == [([8.0] * 5, True)] * 2


# --- FSDP2, as torchtitan does it ---


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 15), nn.ReLU(), nn.Linear(15, 2))


def sharded(shape, seed=0, freeze_step=3):
    mesh = mesh_of(shape)
    net = network(seed)
    for layer in net[::2]:
        fully_shard(layer, mesh=mesh["shard"])
    fully_shard(net, mesh=mesh["shard"])
    optimizer = new(net.parameters(), process_group=mesh["replicate"].get_group(), freeze_step=freeze_step)
    return net, optimizer, mesh["replicate"].get_local_rank()


def step(net, optimizer, replica, t):
    optimizer.zero_grad()
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * t + replica))
    net(x).square().mean().backward()
    optimizer.step()


def whole(net, optimizer):
    """Every tensor of the state, gathered over the shards; and what this replica owes."""
    state = optimizer.state_dict()["state"]
    return {
        (number, name): unsharded(value)
        for number, one in state.items()
        for name, value in one.items()
        if not name.startswith("ignored")
    } | {("model", k): unsharded(p.detach()).copy() for k, p in enumerate(net.parameters())}


def unsharded(value):
    return np.asarray(value.full_tensor() if isinstance(value, DTensor) else value)


def save_sharded(folder, at, freeze_step):
    net, optimizer, replica = sharded((2, 2), freeze_step=freeze_step)
    for t in range(1, at + 1):
        step(net, optimizer, replica, t)
    state = {"model": get_model_state_dict(net), "optimizer": get_optimizer_state_dict(net, optimizer, options=FLAT)}
    dcp.save(state, checkpoint_id=folder)
    before = whole(net, optimizer)
    for t in range(at + 1, at + 4):
        step(net, optimizer, replica, t)
    return before, whole(net, optimizer), replica


def load_sharded(folder, at, freeze_step, shape):
    net, optimizer, replica = sharded(shape, 3, freeze_step)
    state = {"model": get_model_state_dict(net), "optimizer": get_optimizer_state_dict(net, optimizer, options=FLAT)}
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(net, state["model"])
    set_optimizer_state_dict(net, optimizer, state["optimizer"], options=FLAT)
    before = whole(net, optimizer)
    for t in range(at + 1, at + 4):
        step(net, optimizer, replica, t)
    return before, whole(net, optimizer), replica


@pytest.mark.parametrize(("at", "freeze_step"), [(2, 3), (5, 3), (4, "auto")])
def test_fsdp2_resumes_to_the_bit_and_reshards(at, freeze_step, tmp_path):
    saved = pool(4).call(save_sharded, tmp_path, at, freeze_step)
    again = pool(4).call(load_sharded, tmp_path, at, freeze_step, (2, 2))
    for (_, after, _), (_, resumed, _) in zip(saved, again, strict=True):
        assert after.keys() == resumed.keys()
        assert [key for key in after if after[key].tobytes() != resumed[key].tobytes()] == []
    by_replica = {replica: before for before, _, replica in saved}
    fewer = pool(2).call(load_sharded, tmp_path, at, freeze_step, (2, 1))
    resharded = {replica: before for before, _, replica in fewer}
    for replica, kept in by_replica.items():
        errors = [key for key in kept if "error" in str(key[1])]
        found = resharded[replica]
        assert [key for key in kept if key not in errors and kept[key].tobytes() != found[key].tobytes()] == []
    for number in range(4):  # the chunks are cut in another way: what is owed in all is conserved [L9]
        (before, size), (after, _) = (owed(rows, number) for rows in (by_replica, resharded))
        assert (np.abs(after - before) <= 2 * rounding.gamma(4, "float32") * size).all()
        assert at != 5 or np.abs(before).max() > 1e-3


def owed(rows, number):
    """Delta of one parameter in float64, and the sum of all magnitudes in it."""
    parts = [rows[i][number, f"worker_error_of_{i}"].astype(np.float64) / 2 for i in range(2)]
    parts += [rows[i][number, f"server_error_of_{i}"].astype(np.float64) for i in range(2)]
    return sum(parts), sum(map(np.abs, parts))


def cut_in_another_way():
    """Delta before and after a state is loaded into buckets of another size."""
    params = model()
    optimizer = new(params, **HYPER)
    train(params, optimizer, range(1, 9))
    again = new(params, **HYPER | {"bucket_elements": 2**20})
    again.load_state_dict(optimizer.state_dict())
    rank = dist.get_rank()
    names = (f"worker_error_of_{rank}", f"server_error_of_{rank}")
    return [
        {(k, name): one[name].numpy() for k, one in opt.state_dict()["state"].items() for name in names}
        for opt in (optimizer, again)
    ]


def test_other_buckets_conserve_what_is_owed():
    before, after = (dict(enumerate(rows)) for rows in zip(*pool(2).call(cut_in_another_way), strict=True))
    moved = 0.0
    for number in range(5):
        (old, size), (now, _) = owed(before, number), owed(after, number)
        assert (np.abs(now - old) <= 2 * rounding.gamma(4, "float32") * size).all()
        key = number, "server_error_of_0"
        moved = max(moved, float(np.abs(before[0][key] - after[0][key]).max()))
    assert moved > 1e-3, "some chunk is another worker's now"


def from_rank_0(gathers, freeze_step=5):
    """``full_state_dict`` and ``broadcast_from_rank0``: to the bit, or refused."""
    params = model()
    hyper = HYPER | {"freeze_step": freeze_step}
    optimizer = new(params, **hyper)
    train(params, optimizer, range(1, 9))
    if gathers:
        gather_on_save(optimizer)
    full = StateDictOptions(full_state_dict=True)
    state = get_optimizer_state_dict(params, optimizer, options=full)
    fresh = model(seed=2)
    fresh.load_state_dict(params.state_dict())
    again = new(fresh, **hyper)
    from_first = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    try:
        set_optimizer_state_dict(fresh, again, state, options=from_first)
    except ValueError as error:
        return str(error), again.steps
    if not gathers:  # this rank's own were in it; another's were not, and that rank refuses
        return "nothing", True
    for some, one in ((params, optimizer), (fresh, again)):
        train(some, one, range(9, 13))
    same_norms = all(map(torch.equal, optimizer.run.freeze_rule.norms[-12:], again.run.freeze_rule.norms[-12:]))
    return "nothing", flat(params).tobytes() == flat(fresh).tobytes() and same_norms


def test_a_full_state_dict_of_rank_0_needs_the_errors_of_all():
    """It held rank 0's errors only, and was called damaged: variance_norms is None."""
    assert pool(2).call(from_rank_0, True) == [("nothing", True)] * 2
    assert pool(2).call(from_rank_0, True, "auto") == [("nothing", True)] * 2
    _, second = pool(2).call(from_rank_0, False)
    assert "lacks the errors of rank 1" in second[0]
    assert "call gpu_impl.gather_on_save(optimizer)" in second[0]
    assert second[1] == 0


@pytest.mark.parametrize("call", [gather_on_save, gathered_state_dict])
def test_what_can_not_be_gathered_is_named(call):
    """It was an AttributeError, or with another optimizer of torch's an AssertionError in the first save."""
    with pytest.raises(ValueError, match=rf"^{call.__name__}\(optimizer\) takes a OneBitAdam, got AdamW$"):
        call(torch.optim.AdamW(model()))
