"""Hybrid sharding, 2 x 2 processes: a process does with its shards what OneBitAdam does with plain tensors."""

from __future__ import annotations

import pytest
import torch
import torch.distributed.checkpoint as dcp
from family_optimizers import LOCAL
from optimizer_support import mesh_of
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import gpu_impl
from gpu_impl import OneBitAdam, gathered_state_dict, load_checkpoint, save_checkpoint
from gpu_impl.harness.worker_pool import WorkerPool
from theory.rounding import gamma

FREEZE_STEP, STEPS = 3, 8
HYPER = {"lr": 1e-2, "freeze_step": FREEZE_STEP, "weight_decay": 0.1, "bucket_elements": 80}


class Hybrid:
    """A small network, sharded over two processes, in two copies; its parts don't divide by two."""

    def __init__(self, mesh, kind="OneBitAdam", seed=0, **options):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(5, 13), nn.Tanh(), nn.Linear(13, 7), nn.Tanh(), nn.Linear(7, 1))
        for layer in self.model[::2]:
            fully_shard(layer, mesh=mesh["shard"])
        fully_shard(self.model, mesh=mesh["shard"])
        self.optimizer = getattr(gpu_impl, kind)(
            self.model.parameters(), **HYPER | options, process_group=mesh["replicate"].get_group()
        )

    def backward(self, t):
        self.optimizer.zero_grad()
        random = torch.Generator().manual_seed(1000 * t + dist.get_rank())
        self.model(torch.randn(4, 5, generator=random)).square().mean().backward()

    def locals(self, of=lambda param: param):
        return [of(param).to_local().detach().clone() for param in self.model.parameters()]


def beside_plain_tensors(nan_on_rank, bucket_elements):
    """Whether the shards equal plain tensors with the same gradients, bit for bit, after each step; and the shards."""
    mesh = mesh_of()
    hyper = HYPER | {"bucket_elements": bucket_elements}
    hybrid = Hybrid(mesh, **hyper)
    plain = [nn.Parameter(shard) for shard in hybrid.locals()]
    optimizer = OneBitAdam(plain, **hyper, process_group=mesh["replicate"].get_group())
    same = []
    for t in range(1, STEPS + 1):
        is_nan = t in (2, FREEZE_STEP + 3)
        hybrid.backward(t)
        if is_nan and dist.get_rank() == nan_on_rank:
            hybrid.model[0].weight.grad.to_local()[0, 0] = float("nan")
        for param, grad in zip(plain, hybrid.locals(lambda param: param.grad), strict=True):
            param.grad = torch.full_like(grad, float("nan")) if is_nan else grad
        hybrid.optimizer.step()
        optimizer.step()
        same.append(all(map(torch.equal, hybrid.locals(), plain)))
    assert hybrid.optimizer.phase == "compressed"
    return same, hybrid.locals(), hybrid.optimizer.skipped_steps


@pytest.mark.parametrize("bucket_elements", [1, 2**20])
def test_shards_move_as_plain_tensors_do_and_replicas_stay_equal(bucket_elements):
    """A NaN is in the shard of one process only; those that hold the other shard skip the step too [C8, L6].

    In between the buffers may differ: a sharded model is cut by its largest shard, alike on all ranks.
    """
    results = WorkerPool.of(4).call(beside_plain_tensors, 3, bucket_elements)
    for same, _, skipped in results:
        assert same == [True] * STEPS
        assert skipped == 2
    for first, second in ((0, 2), (1, 3)):
        assert all(map(torch.equal, results[first][1], results[second][1]))


def clipped_step():
    """The momentum after one clipped warm-up step, and what it must be by C9."""
    mesh = mesh_of()
    limit = 1e-3
    hybrid = Hybrid(mesh, max_grad_norm=limit)
    hybrid.backward(1)
    grads = hybrid.locals(lambda param: param.grad)
    squares = [torch.zeros((), dtype=torch.float64) for _ in range(4)]
    dist.all_gather(squares, sum(grad.double().square().sum() for grad in grads))
    norm = torch.stack(squares).view(2, 2).sum(dim=1).mean().sqrt()  # root mean square over the copies of whole norms
    hybrid.optimizer.step()
    assert norm > limit
    for grad in grads:
        dist.all_reduce(grad, group=mesh["replicate"].get_group())
    factor, rest = (limit / norm).float(), torch.tensor(1 - 0.9)
    expected = torch.cat([(rest * (grad / 2 * factor)).flatten() for grad in grads])
    slots = [(bucket, slot) for _, bucket in hybrid.optimizer.run.pairs() for slot in bucket.flat.slots]
    return torch.cat([bucket.momentum[slot] for bucket, slot in slots]), expected


def test_the_norm_that_clips_is_that_of_all_shards():
    for momentum, expected in WorkerPool.of(4).call(clipped_step):
        # three float32 roundings on each side, of the factor and of two products; the two norms, in float64, differ by
        # far less than a seventh
        assert torch.allclose(momentum, expected, rtol=gamma(7, "float32"), atol=0)


def resumed(folder, way, stop, kind, hyper):
    """Whether a run that is saved after step ``stop`` and goes on in new objects ends as one that is not."""
    mesh = mesh_of()
    straight, hybrid = (Hybrid(mesh, kind, **hyper) for _ in range(2))
    for t in range(1, stop + 6):
        for run in (straight, hybrid):
            run.backward(t)
            run.optimizer.step()
        if t == stop:
            hybrid = SAVED_AND_LOADED[way](folder, t, hybrid, Hybrid(mesh, kind, seed=1, **hyper))
    return all(map(torch.equal, straight.locals(), hybrid.locals()))


def by_ours(folder, t, old, new):
    save_checkpoint(folder, old.optimizer, old.model, t)
    assert load_checkpoint(folder, new.optimizer, new.model) == t
    return new


def by_torchs(folder, _, old, new):
    weights, state = get_state_dict(old.model, old.optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    weights, state = get_state_dict(new.model, new.optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(new.model, new.optimizer, model_state_dict=weights, optim_state_dict=state)
    return new


SAVED_AND_LOADED = {"by ours": by_ours, "by torch's": by_torchs}


@pytest.mark.parametrize("way", SAVED_AND_LOADED)
@pytest.mark.parametrize(
    ("stop", "kind", "hyper"),
    [(2, "OneBitAdam", HYPER), (FREEZE_STEP + 2, "OneBitAdam", HYPER), (22, LOCAL[0], LOCAL[1])],
    ids=["warm-up", "compressed", "0/1 Adam between two meetings"],
)
def test_a_resumed_run_continues_to_the_same_bits(tmp_path, way, stop, kind, hyper):
    assert WorkerPool.of(4).call(resumed, tmp_path / "saved", way, stop, kind, hyper) == [True] * 4


def on_the_whole_mesh():
    mesh = mesh_of()
    model = nn.Linear(4, 4)
    fully_shard(model, mesh=mesh)
    assert isinstance(model.weight, DTensor)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2, process_group=mesh["replicate"].get_group())
    model(torch.ones(1, 4)).sum().backward()
    with pytest.raises(ValueError, match="replicated over a dimension of its own mesh") as caught:
        optimizer.step()
    return str(caught.value)


def test_a_model_on_the_whole_mesh_is_refused():
    """FSDP2 would average between the nodes itself, in full precision."""
    for message in WorkerPool.of(4).call(on_the_whole_mesh):
        assert 'mesh["shard"]' in message


def gathered_anyway():
    hybrid = Hybrid(mesh_of(), **HYPER)
    hybrid.backward(1)
    hybrid.optimizer.step()
    with pytest.raises(
        ValueError, match=r"can't be gathered on rank 0 where parameters are sharded: use gpu_impl\.save"
    ):
        gathered_state_dict(hybrid.optimizer)


def test_what_is_sharded_is_not_gathered():
    """It was pickled with its mesh, which other ranks don't have: half of the workers failed, the others waited."""
    WorkerPool.of(4).call(gathered_anyway)
