"""What other code expects of an optimizer: a group, own storages, clipping that is told, copies, Join."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections import defaultdict

import pytest
import torch
from optimizer_support import flat, gradients, model, new, pool, train
from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import HookedOneBitAdam, OneBitAdam, load_checkpoint, save_checkpoint
from theory.rounding import gamma

# --- several processes without a group ---


@pytest.mark.parametrize("call", ["step", "stats", "state_dict"])
def test_several_processes_without_a_group_are_an_error(call, monkeypatch):
    """Each trained alone, and nobody said so."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    param = nn.Parameter(torch.ones(3))
    param.grad = torch.ones(3)
    optimizer = OneBitAdam([param], freeze_step=2)
    with pytest.raises(RuntimeError, match=r"call torch\.distributed\.init_process_group\(\) before the first step"):
        getattr(optimizer, call)()


def test_a_number_of_processes_that_is_none_is_an_error(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "abc")
    with pytest.raises(ValueError, match="the environment variable WORLD_SIZE is 'abc'"):
        OneBitAdam([nn.Parameter(torch.ones(3))], freeze_step=2).stats()


def before_and_after(folder):
    """An optimizer that was made, and looked at, where there was no group yet."""
    code = f"""
import os, torch
from torch import distributed as dist
from gpu_impl import OneBitAdam
os.environ.pop("WORLD_SIZE", None)
param = torch.nn.Parameter(torch.ones(3))
optimizer = OneBitAdam([param], freeze_step=2)
assert optimizer.stats().step == 0
dist.init_process_group("gloo", init_method="file://{folder}/store", rank=0, world_size=1)
param.grad = torch.ones(3)
optimizer.step()
assert optimizer.collectives.group is None and optimizer.collectives.is_of_group
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=1800)


def test_what_was_asked_before_the_group_existed_is_asked_again(tmp_path):
    done = before_and_after(tmp_path)
    assert done.returncode == 0, done.stderr


# --- storages ---


def test_every_parameter_has_a_storage_of_its_own(tmp_path):
    """safetensors refused the model, and a bias of 4 was saved with its whole bucket."""
    from safetensors.torch import save_model

    net = nn.Sequential(nn.Linear(100, 20), nn.Linear(20, 4))
    optimizer = new(net.parameters())
    for _ in range(7):
        net(torch.randn(3, 100)).square().mean().backward()
        optimizer.step()
    save_model(net, str(tmp_path / "model.safetensors"))
    torch.save(net[1].bias, tmp_path / "bias.pt")
    assert (tmp_path / "bias.pt").stat().st_size < 2500
    assert net[1].bias.untyped_storage().nbytes() == 16
    weights = optimizer.run.parcels[0].buckets[0][1].flat.weights
    del optimizer
    assert net[0].weight.data_ptr() == weights.data_ptr(), "it still lies in the flat buffer"


def test_a_parameter_outlives_its_optimizer():
    net = nn.Linear(5, 4)
    optimizer = new(net.parameters())
    net(torch.ones(5)).sum().backward()
    optimizer.step()
    before = net.weight.detach().clone()
    del optimizer
    fresh = [torch.zeros(1000) for _ in range(100)]
    assert torch.equal(net.weight, before), fresh


# --- a square that overflows ---


def huge_gradient(value, **hyper):
    """A finite gradient whose square float32 can't hold, in the warm-up; how the others move afterwards."""
    params = [nn.Parameter(torch.ones(40))]
    optimizer = new(params, freeze_step=4, **hyper)
    random = torch.Generator().manual_seed(0)
    before = None
    for t in range(1, 12):
        params[0].grad = 1 + torch.rand(40, generator=random)
        if t == 2:
            params[0].grad[7] = value
        if t == 6:
            before = params[0].detach().clone()
        optimizer.step()
    moved = (params[0].detach() - before).abs()
    return (
        bool(torch.isfinite(params[0]).all()),
        int((moved > 1e-4).sum()),
        optimizer.stats(),
        float(moved[7] / before[7]),
    )


@pytest.mark.parametrize("form", ["momentum", "update"])
@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_a_square_that_overflows_stops_its_own_coordinate_only(form, backend):
    finite, moving, stats, far = huge_gradient(1e21, compress=form, backend=backend)
    assert finite
    assert (moving, far) == (39, 0.0)
    assert (stats.dead_coordinates, stats.skipped_steps) == (0, 0), "it is not dead: its P is 0"
    assert huge_gradient(1.0, compress=form, backend=backend)[1] == 40


@pytest.mark.parametrize("form", ["momentum", "update"])
def test_where_a_square_has_overflowed_weight_decay_goes_on_as_in_adam(form):
    """It was taken for a dead coordinate, which gets none."""
    _, _, _, far = huge_gradient(1e21, weight_decay=0.1, compress=form)
    steps, relative = 6, 1e-2 * 0.1
    assert far == pytest.approx(1 - (1 - relative) ** steps, abs=gamma(3 * steps + 1, "float32"))


# --- clipping ---


def clip_by_hand(how):
    """What is said when gradients are changed before step(), on two workers with other gradients."""
    net = nn.Linear(8, 8)
    nn.init.ones_(net.weight)
    nn.init.zeros_(net.bias)
    optimizer = new(net.parameters(), freeze_step=30)
    for t in range(1, 12):
        optimizer.zero_grad()
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * t + dist.get_rank()))
        for part in x.split(2) if how == "accumulated" else (x,):
            net(part).square().mean().backward()
        if how == "clipped":
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        elif how == "scaled":
            for param in net.parameters():
                param.grad.div_(2)
        elif how == "clipped by nothing":
            nn.utils.clip_grad_norm_(net.parameters(), 1e6)
        try:
            optimizer.step()
        except RuntimeError as error:
            return t, str(error)
    return 0, "nothing"


@pytest.mark.parametrize("how", ["clipped", "scaled", "accumulated", "clipped by nothing"])
def test_clipping_before_the_step_is_told(how):
    for t, message in pool(2).call(clip_by_hand, how):
        if how == "clipped":
            assert t == 3, "the first step begins to watch, the next two see it"
            assert "each worker's by its own norm, which biases their mean" in message
            assert "max_grad_norm=0" in message
        else:
            assert message == "nothing"


# --- values that change ---


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lr", float("nan"), "lr must be a finite number >= 0"),
        ("lr", -1.0, "lr must be a finite number >= 0"),
        ("betas", (0.9, 1.0), "beta2 must lie in"),
        ("eps", 0.0, "eps must be a finite number > 0"),
        ("weight_decay", -1, "weight_decay must be"),
    ],
)
@pytest.mark.parametrize(("t", "freeze_step"), [(2, 5), (8, 5), (3, "auto")])
def test_a_bad_value_in_mid_run_is_refused_before_anything_is_written(name, value, message, t, freeze_step):
    params = model()
    optimizer = new(params, freeze_step=freeze_step)
    train(params, optimizer, range(1, t), rank=0)
    kept = optimizer.param_groups[0][name]
    before = flat(params).tobytes(), str(optimizer.stats())
    optimizer.param_groups[0][name] = value
    with pytest.raises(ValueError, match=message):
        train(params, optimizer, [t], rank=0)
    assert optimizer.stats().step == t - 1
    optimizer.param_groups[0][name] = kept
    assert (flat(params).tobytes(), str(optimizer.stats())) == before
    train(params, optimizer, [t], rank=0)
    assert optimizer.steps == t


def test_meta_parameters_are_one_sentence():
    with pytest.raises(TypeError, match=r"on the meta device and has no values: call model.to_empty"):
        new(nn.Linear(3, 3, device="meta").parameters())


def swapped(folder, by_names):
    """Two parameters of equal shape, in another order in the optimizer that loads."""
    first, second = (nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)}) for _ in range(2))
    optimizer = new(first.named_parameters() if by_names else first.parameters())
    first["b"](first["a"](torch.ones(4))).sum().backward()
    optimizer.step()
    named = list(second.named_parameters())[::-1]
    again = new(named if by_names else [param for _, param in named])
    save_checkpoint(folder, optimizer, first)
    try:
        again.load_state_dict(optimizer.state_dict()) if by_names else load_checkpoint(folder, again, second)
    except ValueError as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize("by_names", [True, False])
def test_parameters_in_another_order_are_refused_by_name(by_names, tmp_path):
    said = swapped(tmp_path, by_names)
    assert said == "parameter 0 is a.weight in the state and b.bias here: give the parameters in the same order"


# --- copies ---


def copied_hook():
    network = nn.Linear(6, 3)
    optimizer = HookedOneBitAdam(network.parameters(), lr=1e-2, freeze_step=3)
    optimizer.attach(ddp := DistributedDataParallel(network))
    for _ in range(5):
        optimizer.zero_grad()
        ddp(torch.ones(2, 6)).square().mean().backward()
        optimizer.step()
    optimizer.run.process_group = None
    twin, other = copy.deepcopy((network, optimizer))
    other.attach(second := DistributedDataParallel(twin))
    for module, one in ((ddp, optimizer), (second, other)):
        one.zero_grad()
        module(torch.ones(2, 6)).square().mean().backward()
        one.step()
    return torch.equal(network.weight, twin.weight), str(other.phase)


def test_a_hooked_optimizer_is_copied():
    assert pool(2).call(copied_hook) == [(True, "compressed")] * 2


# --- Join ---


def uneven(n_batches):
    """Workers with other numbers of batches, by Join; the same with zero gradients."""
    joined, padded = nn.Linear(6, 3), nn.Linear(6, 3)
    padded.load_state_dict(joined.state_dict())
    for param in joined.parameters():
        dist.broadcast(param.data, src=0)
    padded.load_state_dict(joined.state_dict())
    first, second = (new(one.parameters(), freeze_step=3) for one in (joined, padded))
    mine = n_batches[dist.get_rank()]
    xs = [torch.full((2, 6), float(1 + t + dist.get_rank())) for t in range(max(n_batches))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Join([first]):
            for x in xs[:mine]:
                first.zero_grad()
                joined(x).square().mean().backward()
                first.step()
    for t, x in enumerate(xs):
        second.zero_grad()
        (padded(x).square().mean() * (t < mine)).backward()
        second.step()
    return torch.equal(joined.weight, padded.weight), first.steps


def test_join_lets_workers_have_fewer_batches():
    assert pool(2).call(uneven, (5, 8)) == [(True, 8)] * 2


# --- what may change on resume ---


def other_settings(folder):
    params = model()
    optimizer = new(params, bucket_elements=60)
    train(params, optimizer, range(1, 9))
    save_checkpoint(folder, optimizer, params)
    fresh = model(seed=1)
    again = new(fresh, bucket_elements=2**20, scale="l1", freeze_step=99, max_grad_norm=5.0, variance_floor=0.5)
    load_checkpoint(folder, again, fresh)
    exact = {k: v.tolist() for k, v in again.state_dict()["state"][0].items() if k.startswith("exp")}
    train(fresh, again, range(9, 12))
    before = optimizer.state_dict()["state"][0]
    return all(before[k].tolist() == v for k, v in exact.items()), again.steps, flat(fresh).tobytes()


def test_settings_that_may_change_on_resume_may(tmp_path):
    rows = pool(2).call(other_settings, tmp_path)
    assert all(same and steps == 11 for same, steps, _ in rows)
    assert rows[0][2] == rows[1][2]


def test_the_gradients_of_the_test_differ_between_workers():
    """Or nothing here would find a worker that trains alone."""
    params = model()
    assert not torch.equal(gradients(params, 0, 1)[0], gradients(params, 1, 1)[0])
    assert isinstance(new(params), OneBitAdam)


def test_the_state_is_not_replaced_without_a_word():
    """A new defaultdict, which resets torch's Adam, was ignored; m and v went on."""
    param = nn.Parameter(torch.ones(3))
    optimizer = OneBitAdam([param], freeze_step=9)
    for _ in range(2):
        param.grad = torch.ones(3)
        optimizer.step()
    for value in (defaultdict(dict), {}, {param: {"step": torch.tensor(1.0)}}):
        with pytest.raises(AttributeError, match="use load_state_dict, or make a new optimizer"):
            optimizer.state = value
    assert optimizer.steps == 2
