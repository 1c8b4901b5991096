"""Beside the rest of torch: GradScaler, schedulers, closures, DDP, FSDP2, deepcopy, hooks."""

from __future__ import annotations

import copy
import gc
import io
import pickle

import pytest
import torch
from optimizer_support import flat, gradients, mesh_of, model, new, pool, train
from torch import distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import leave_gradients_local, load_checkpoint, save_checkpoint

STEPS = range(1, 12)


def net(seed=0):
    """Of sizes that two shards can't halve: the last layer lies on the first shard alone."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 15), nn.ReLU(), nn.Linear(15, 1))


def loss_of(module, t, part=0):
    generator = torch.Generator().manual_seed(1000 * t + 10 * dist.get_rank() + part)
    return module(torch.randn(5, 6, generator=generator)).square().mean()


# --- GradScaler ---


def scaled(unscale_first, overflow_at):
    """Under a GradScaler of 2^10 on rank 0 and 2^12 on rank 1, against no scaler: parameters, scales, steps."""
    ours, plain = net(), net()
    first, second = (new(one.parameters(), max_grad_norm=0.1) for one in (ours, plain))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** (10 + 2 * dist.get_rank()))
    for t in STEPS:
        first.zero_grad()
        second.zero_grad()
        scaler.scale(loss_of(ours, t)).backward()
        loss_of(plain, t).backward()
        if t in overflow_at and dist.get_rank() == 1:
            ours[0].weight.grad[0, 0] = float("inf")
        if t in overflow_at:
            plain[0].weight.grad[0, 0] = float("nan")
        if unscale_first:
            scaler.unscale_(first)
        scaler.step(first)
        scaler.update()
        second.step()
    assert not hasattr(first, "grad_scale")
    return torch.equal(ours[0].weight, plain[0].weight), first.skipped_steps, scaler.get_scale()


@pytest.mark.parametrize("unscale_first", [False, True])
def test_grad_scaler(unscale_first):
    """A power of two changes no bit; an overflow on one rank is a skipped step on all, and halves its scale only."""
    rows = pool(2).call(scaled, unscale_first, (3, 8))
    assert rows == [(True, 2, 2.0**10), (True, 2, 2.0**10)]


def idle_under_a_scaler(ranks):
    """What a step says in which these ranks have no gradient, and how the next one goes."""
    ours = net()
    optimizer, told = new(ours.parameters()), []
    for t in (1, 2, 3):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        optimizer.zero_grad()
        loss = scaler.scale(loss_of(ours, t))
        if t != 2 or dist.get_rank() not in ranks:
            loss.backward()
        try:
            scaler.step(optimizer)
        except (RuntimeError, ValueError) as error:
            told.append((t, type(error).__name__, str(error)))
    return told


@pytest.mark.parametrize("ranks", [(1,), (0, 1)])
def test_a_worker_without_any_gradient_under_a_scaler_is_an_error_on_all(ranks):
    """GradScaler's update() refuses that on the worker alone, and the others would wait for it."""
    for rank, told in enumerate(pool(2).call(idle_under_a_scaler, ranks)):
        ((t, kind, sentence),) = told
        assert (t, kind) == (2, "RuntimeError" if rank in ranks else "WorkersDisagreeError")
        assert "GradScaler has found no gradient on this worker" in sentence


# --- schedulers, closures, accumulation ---


def scheduled(tensor_lr):
    """OneCycleLR, which changes lr and beta1, against the same values set by hand."""
    ours, by_hand = net(), net()
    lr = torch.tensor(0.01) if tensor_lr else 0.01
    first, second = new(ours.parameters(), lr=lr), new(by_hand.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(first, max_lr=0.02, total_steps=20)
    for t in STEPS:
        group = second.param_groups[0]
        group["lr"], group["betas"] = float(first.param_groups[0]["lr"]), first.param_groups[0]["betas"]
        for module, optimizer in ((ours, first), (by_hand, second)):
            optimizer.zero_grad()
            loss_of(module, t).backward()
            optimizer.step()
        scheduler.step()
    return torch.equal(ours[0].weight, by_hand[0].weight), float(group["lr"]), group["betas"][0]


@pytest.mark.parametrize("tensor_lr", [False, True])
def test_schedulers(tensor_lr):
    for same, lr, beta1 in pool(2).call(scheduled, tensor_lr):
        assert same
        assert lr != 0.01
        assert beta1 != 0.9


def closure_and_accumulation():
    """A closure, two backward passes, and one on the sum of the losses are the same step."""
    nets = [net() for _ in range(3)]
    optimizers = [new(one.parameters()) for one in nets]
    for t in STEPS:
        for optimizer in optimizers:
            optimizer.zero_grad()

        def closure(t=t):
            optimizers[0].zero_grad()
            total = loss_of(nets[0], t)
            total.backward()
            loss_of(nets[0], t, 1).backward()
            return total

        loss = optimizers[0].step(closure)
        expected = loss_of(nets[1], t)
        expected.backward()
        loss_of(nets[1], t, 1).backward()
        optimizers[1].step()
        assert float(loss) == float(expected)
    return torch.equal(nets[0][0].weight, nets[1][0].weight)


def test_closures_and_accumulation():
    assert pool(2).call(closure_and_accumulation) == [True, True]


# --- DDP ---


def under_ddp(no_sync, bucket_view):
    """A prepared DDP module against a bare one; with no_sync in every other backward pass."""
    bare, inside = net(), net(seed=dist.get_rank())  # DDP sends rank 0's parameters to all
    ddp = leave_gradients_local(DistributedDataParallel(inside, gradient_as_bucket_view=bucket_view))
    first, second = new(ddp.parameters()), new(bare.parameters())
    for t in STEPS:
        first.zero_grad()
        second.zero_grad()
        if no_sync:
            with ddp.no_sync():
                loss_of(ddp, t, 1).backward()
            loss_of(bare, t, 1).backward()
        loss_of(ddp, t).backward()
        loss_of(bare, t).backward()
        first.step()
        second.step()
    return torch.equal(inside[0].weight, bare[0].weight), flat(inside.parameters()).tobytes()


@pytest.mark.parametrize(("no_sync", "bucket_view"), [(False, False), (True, True)])
def test_a_prepared_ddp_module_trains_as_the_bare_one(no_sync, bucket_view):
    rows = pool(2).call(under_ddp, no_sync, bucket_view)
    assert [row[0] for row in rows] == [True, True]
    assert rows[0][1] == rows[1][1]


def unprepared_ddp():
    gc.collect()
    ddp = DistributedDataParallel(net())
    optimizer = new(ddp.parameters())
    loss_of(ddp, 1).backward()
    try:
        optimizer.step()
    except RuntimeError as error:
        message = str(error)
    leave_gradients_local(ddp)
    optimizer.step()
    return message, optimizer.steps


def test_ddp_that_averages_is_refused():
    for message, steps in pool(2).call(unprepared_ddp):
        assert "call gpu_impl.leave_gradients_local(ddp_model)" in message
        assert steps == 1
    with pytest.raises(TypeError, match="takes a DistributedDataParallel module, got Sequential"):
        leave_gradients_local(net())


# --- process groups and shards ---


def in_a_subgroup(folder):
    """Ranks 1 and 2 of 3 train; a checkpoint of theirs resumes."""
    group = dist.new_group([1, 2])
    params = model()
    if dist.get_rank() == 0:
        return None
    optimizer = new(params, process_group=group)
    train(params, optimizer, range(1, 8))
    save_checkpoint(folder, optimizer, params)
    again = model(seed=3)
    resumed = new(again, process_group=group)
    load_checkpoint(folder, resumed, again)
    train(params, optimizer, range(8, 12))
    train(again, resumed, range(8, 12))
    return flat(params).tobytes(), flat(again).tobytes()


def test_a_process_group_of_some_ranks(tmp_path):
    outside, first, second = pool(3).call(in_a_subgroup, tmp_path)
    assert outside is None
    assert len({*first, *second}) == 1


def sharded(folder, dtype):
    """FSDP2 over two ranks, compressed over two replicas; beside it the same model in one piece, over two workers."""
    mesh = mesh_of()
    replica = mesh["replicate"].get_local_rank()
    module = net().to(dtype)
    fully_shard(module, mesh=mesh["shard"])
    hyper = {"process_group": mesh["replicate"].get_group(), "max_grad_norm": 0.5, "freeze_step": 4}
    optimizer = new(module.parameters(), **hyper)

    def step(t, which, optimizer):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(100 * t + replica)  # both shards of a replica see the same data
        x = torch.randn(5, 6, generator=generator).to(dtype)
        (which(x).square().mean() * (float("nan") if t == 6 and dist.get_rank() == 3 else 1)).backward()
        optimizer.step()

    for t in range(1, 9):
        step(t, module, optimizer)
    save_checkpoint(folder, optimizer, module, {"t": 8})
    again = net(seed=4).to(dtype)
    fully_shard(again, mesh=mesh["shard"])
    resumed = new(again.parameters(), **hyper)
    assert load_checkpoint(folder, resumed, again) == {"t": 8}
    for t in range(9, 12):
        step(t, module, optimizer)
        step(t, again, resumed)
    whole = [p.full_tensor().detach() for p in module.parameters()]
    same = all(torch.equal(p, q.full_tensor()) for p, q in zip(whole, again.parameters(), strict=True))
    return same, flat(whole).tobytes(), optimizer.stats().skipped_steps, optimizer.phase


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fsdp2_shards_inside_replicas_outside(dtype, tmp_path):
    rows = pool(4).call(sharded, tmp_path, dtype)
    assert all(same for same, *_ in rows)
    assert len({params for _, params, *_ in rows}) == 1
    assert {(skipped, phase) for _, _, skipped, phase in rows} == {(1, "compressed")}


def sharded_warm_up():
    """One clipped warm-up step of shards, and of plain parameters: the same, for the norms round to one float32."""
    mesh = mesh_of()
    replica = mesh["replicate"].get_local_rank()
    module, plain = net(), net()
    fully_shard(module, mesh=mesh["shard"])
    group = mesh["replicate"].get_group()
    first = new(module.parameters(), process_group=group, max_grad_norm=0.25)
    second = new(plain.parameters(), process_group=group, max_grad_norm=0.25)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(replica))
    for which, optimizer in ((module, first), (plain, second)):
        which(x).square().mean().backward()
        optimizer.step()
    for p, q in zip(module.parameters(), plain.parameters(), strict=True):
        assert torch.equal(p.full_tensor(), q)
    try:
        new(module.parameters()).step()
    except ValueError as error:
        return str(error)
    return "nothing"


def test_norms_are_summed_over_shards():
    for message in pool(4).call(sharded_warm_up):
        assert 'mesh["replicate"].get_group()' in message


# --- copies and hooks ---


def copies():
    params = model()
    optimizer = new(params)
    train(params, optimizer, range(1, 8))
    pair = copy.deepcopy((params, optimizer))
    third = pickle.loads(pickle.dumps((params, optimizer)))
    stored = io.BytesIO()
    torch.save(optimizer.state_dict(), stored)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append("step"))
    optimizer.register_state_dict_post_hook(lambda _, state: seen.append(sorted(state["state"])))
    optimizer.register_load_state_dict_pre_hook(lambda _, state: seen.append("load"))
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    for some, one in ((params, optimizer), pair, third):
        train(some, one, range(8, 12))
    assert seen == [list(range(len(params))), "load", "loaded", *["step"] * 4]
    return [flat(some).tobytes() for some in (params, pair[0], third[0])], len(optimizer.state)


def test_copies_train_on():
    for (one, two, three), n_states in pool(2).call(copies):
        assert one == two == three
        assert n_states == 5


def test_gradients_are_left_as_they_were():
    params = model()
    optimizer = new(params)
    for t in STEPS:
        grads = gradients(params, 0, t)
        for p, g in zip(params, grads, strict=True):
            p.grad = g.clone()
        optimizer.step()
        assert all(torch.equal(p.grad, g) for p, g in zip(params, grads, strict=True))
