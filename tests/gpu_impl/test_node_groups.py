"""Nodes [C15] on four gloo processes, 2 nodes of 2: the reference to the bit, L1, replicas, checkpoints, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_support import ONE_BUCKET, flat, full_state, mesh_of, model, pool, train
from torch import distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import reference
from gpu_impl import HookedOneBitAdam, OneBitAdam, load_checkpoint, save_checkpoint
from gpu_impl.harness.worker_pool import NoAnswerError, WorkerPool
from gpu_impl.netlab.collective import Collective

STEPS = 40
NODES = "between", "inside"


def groups(nodes, node_size) -> dict[str, Any]:
    """process_group and node_group; the same ones each time."""
    mesh = mesh_of((nodes, node_size), NODES)
    return {"process_group": mesh["between"].get_group(), "node_group": mesh["inside"].get_group()}


def made(params, shape, **hyper):
    return OneBitAdam(
        params, **{"lr": 1e-2, "freeze_step": 5, "bucket_elements": ONE_BUCKET, **groups(*shape), **hyper}
    )


# --- the reference, to the bit ---


def train_flat(shape, x_D, grads_TD, lrs, hyper, dtype=torch.float32):
    """One parameter from given gradients: x and the state after every step, and the statistics."""
    param = nn.Parameter(torch.from_numpy(x_D.copy()).to(dtype))
    optimizer = made([param], shape, **hyper)
    found = []
    for grad_D, lr in zip(grads_TD, lrs, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        param.grad = torch.from_numpy(grad_D.copy()).to(dtype)
        optimizer.step()
        (part,) = full_state(optimizer)
        found.append(part)
    return found, optimizer.stats()


def noise(n, steps, dim=77, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(dim) + 3 * rng.standard_normal((steps, n, dim))).astype(np.float32)


def beside_reference(shape, grads_TND, dtype=torch.float32, **hyper):
    """Trained here and by the reference: x, momentum and errors are bitwise the same after every step."""
    nodes, node_size = shape
    n = nodes * node_size
    backend = {"backend": hyper.pop("backend", "auto")}
    x_D = np.random.default_rng(5).standard_normal(grads_TND.shape[2]).astype(np.float32)
    if dtype != torch.float32:
        x_D = torch.from_numpy(x_D).to(dtype).float().numpy()
    lrs = [1e-2 / (1 + t) for t in range(len(grads_TND))]
    rows = [(shape, x_D, grads_TND[:, i], lrs, {**hyper, **backend}, dtype) for i in range(n)]
    results = pool(n).map(train_flat, rows)
    applied = [lr for lr, grads_ND in zip(lrs, grads_TND, strict=True) if np.isfinite(grads_ND).all()]
    optimizer = reference.OneBitAdam(lr=lambda t: applied[t - 1], node_size=node_size, **hyper)
    state = optimizer.init(x_D, n)
    for t, grads_ND in enumerate(grads_TND):
        state = optimizer.step(state, grads_ND)
        parts = [found[t] for found, _ in results]
        for i, part in enumerate(parts):
            for name, expected in (("params", state.params), ("momentum", state.momentum),
                                   ("worker_error", state.worker_errors[i // node_size])):  # fmt: skip
                got = part[name][: expected.size] + np.float32(0)
                assert got.tobytes() == (expected + np.float32(0)).tobytes(), f"{name} of worker {i} after step {t + 1}"
        server_D = np.concatenate([part["server_error"] for part in parts[::node_size]])[: x_D.size]
        assert (server_D + np.float32(0)).tobytes() == (state.server_error + np.float32(0)).tobytes()
    for _, stats in results:
        assert (stats.step, stats.skipped_steps, stats.frozen_at) == (state.step, state.skipped_steps, state.frozen_at)
    return state, results


@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("more", [
    {"weight_decay": 0.01},
    {"bias_correction": True, "scale": "l1", "variance_floor": 0.0},
    {"compress": "update", "scale_block": 8},
])  # fmt: skip
def test_two_nodes_of_two_are_the_reference_bitwise(more, backend):
    """A sum of two has one order, so the warm-up agrees as well. Dead coordinates, and a step that is skipped."""
    grads_TND = noise(4, STEPS)
    grads_TND[:, :, ::13] = 0
    grads_TND[30:, 0, ::13] = 1
    grads_TND[33, -1, 5] = np.inf
    state, results = beside_reference((2, 2), grads_TND, freeze_step=9, backend=backend, **more)
    assert state.skipped_steps == 1
    assert state.ignored_gradients > 0
    assert results[0][1].dead_coordinates == 6


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1)], ids=str)
def test_one_node_and_nodes_of_one_are_the_reference_bitwise(shape):
    beside_reference(shape, noise(math.prod(shape), STEPS), freeze_step=9)


def test_clipping_is_by_the_norms_of_all_workers():
    """The factor is a power of two; the two workers of a node cancel in part, so the nodes' norms are others [C9]."""
    signs = np.where(np.random.default_rng(0).random((20, 4, 64)) < 0.5, -1, 1)
    grads_TND = (2 * signs).astype(np.float32)  # norms 16
    clipped, _ = beside_reference((2, 2), grads_TND, freeze_step=5, max_grad_norm=4.0)
    free, _ = beside_reference((2, 2), grads_TND, freeze_step=5, max_grad_norm=17.0)
    assert clipped.params.tobytes() != free.params.tobytes()


def test_a_node_averages_16_bits_in_full_precision():
    """1 and 1/256 have no mean in bfloat16: half of it would be lost."""
    found = pool(4).call(average_of_bfloat16)
    assert found == [0.501953125] * 4


def average_of_bfloat16():
    param = nn.Parameter(torch.zeros(8, dtype=torch.bfloat16))
    optimizer = made([param], (2, 2), betas=(0.0, 0.5), freeze_step=1, scale="l1")
    for _ in range(2):
        param.grad = torch.full_like(param, 1.0 if dist.get_rank() % 2 else 1 / 256)
        optimizer.step()
    ((_, bucket),) = optimizer.run.pairs()
    return float(bucket.momentum_D()[0])


def scaled(scales):
    """Loss scaling as GradScaler leaves it, by another power of two on every worker."""
    params, scale = model(), scales[dist.get_rank()]
    optimizer: Any = made(list(params), (2, 2))
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(scale), torch.tensor(0.0)
    train(params, optimizer, range(1, 12), change=lambda _, grads: [grad * scale for grad in grads])
    return flat(params)


def test_each_worker_takes_its_own_loss_scale_off_before_its_node_averages():
    alike, apart = (pool(4).call(scaled, scales) for scales in ([1.0] * 4, [1.0, 2.0, 8.0, 64.0]))
    assert len({params_D.tobytes() for params_D in alike + apart}) == 1


# --- L1, replicas, bytes ---


def test_l1_on_the_live_run():
    """With dyadic numbers all of a step is exact, so L1 holds with `==`: an error for every node, everybody's mean."""
    grads_TND = np.random.default_rng(3).integers(-16, 17, (4, 4, 16)).astype(np.float32)
    grads_TND[0] = np.abs(grads_TND[0]) + 1  # every coordinate has a variance
    rows = [((2, 2), np.ones(16, np.float32), grads_TND[:, i], [0.5] * 4, L1_EXACT) for i in range(4)]
    results = pool(4).map(train_flat, rows)
    for t in range(1, 4):
        before, after = ([found[s] for found, _ in results] for s in (t - 1, t))
        left, right = (shared(parts) + pending(parts) for parts in (after, before))
        right += (grads_TND[t].astype(np.float64).mean(axis=0) - shared(before)) / 2
        assert (left == right).all()
        assert pending(after).any()


L1_EXACT = {"betas": (0.5, 0.5), "freeze_step": 1, "scale": "l1"}


def shared(parts):
    return parts[0]["momentum"].astype(np.float64)


def pending(parts):
    """Delta: the mean of the nodes' errors and the server's chunks."""
    server_D = np.concatenate([part["server_error"] for part in parts[::2]])
    return np.mean([part["worker_error"].astype(np.float64) for part in parts[::2]], axis=0) + server_D


def replicas(steps):
    params = model()
    optimizer = made(list(params), (2, 2), bucket_elements=64)
    train(params, optimizer, range(1, steps))
    return flat(params), full_state(optimizer)


def test_replicas_are_equal_and_a_node_holds_one_state():
    results = pool(4).call(replicas, 20)
    for params_D, parts in results:
        assert params_D.tobytes() == results[0][0].tobytes()
        assert all(
            a["momentum"].tobytes() == b["momentum"].tobytes() for a, b in zip(parts, results[0][1], strict=True)
        )
    for first, second in ((0, 1), (2, 3)):
        for a, b in zip(results[first][1], results[second][1], strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in a)
    assert any(
        (a["worker_error"] != b["worker_error"]).any() for a, b in zip(results[0][1], results[2][1], strict=True)
    )


def bytes_of_a_step(shape, dim):
    param = nn.Parameter(torch.ones(dim))
    optimizer = made([param], shape)
    found = []
    for t in range(1, 9):
        param.grad = torch.full((dim,), float(t))
        inside = optimizer.collectives.inside
        assert inside is not None
        before = inside.bytes_sent
        optimizer.step()
        found.append((optimizer.bytes_last_step, inside.bytes_sent - before))
    return found[1], found[-1]


def test_between_nodes_goes_one_bit_a_number_shared_by_the_workers_of_a_node():
    """A worker carries its n-th part of (M-1)/M D/8 there and back, with its scales, and the table of a step."""
    dim, nodes, node_size = 64_000, 2, 2
    for warm_up, compressed in pool(4).call(bytes_of_a_step, (nodes, node_size), dim):
        row = dim // 8 // nodes + 16  # the scale, padded
        table = Collective("all-gather", 24 * node_size * nodes).data(nodes)
        parts = [(nodes - 1) * math.ceil(row / node_size)] * 2
        assert compressed[0] == sum(parts) + table
        assert warm_up[0] == 2 * (nodes - 1) * 4 * dim // node_size // nodes + table
        assert compressed[1] > 4 * dim > 20 * compressed[0]  # full precision stays inside


# --- checkpoints ---


def first_half(folder, steps):
    params = model()
    optimizer = made(list(params), (2, 2), bucket_elements=64)
    module = nn.ParameterList(params)
    train(params, optimizer, range(1, steps))
    save_checkpoint(folder, optimizer, module, extra=dist.get_rank())
    saved = optimizer.state_dict()
    train(params, optimizer, range(steps, steps + 6))
    return flat(params), full_state(optimizer), saved


def second_half(folder, steps, saved):
    params = model(seed=1)
    optimizer = made(list(params), (2, 2), bucket_elements=64)
    extra = load_checkpoint(folder, optimizer, nn.ParameterList(params))
    if saved is not None:
        optimizer.load_state_dict(saved)
    train(params, optimizer, range(steps, steps + 6))
    return flat(params), full_state(optimizer), extra


@pytest.mark.parametrize("steps", [3, 6, 12], ids=["warm-up", "at the freeze", "compressed"])
def test_resume_is_exact(tmp_path, steps):
    ended = pool(4).call(first_half, tmp_path, steps)
    for with_state in (False, True):
        rows = [(tmp_path, steps, one[2] if with_state else None) for one in ended]
        for rank, (one, two) in enumerate(zip(ended, pool(4).map(second_half, rows), strict=True)):
            assert one[0].tobytes() == two[0].tobytes()
            for a, b in zip(one[1], two[1], strict=True):
                assert all(np.array_equal(a[name], b[name]) for name in a)
            assert two[2] == rank


def as_two_workers(folder):
    params = model(seed=1)
    optimizer = OneBitAdam(list(params), freeze_step=5, bucket_elements=64)
    load_checkpoint(folder, optimizer, nn.ParameterList(params))
    return flat(params), full_state(optimizer)


def test_two_nodes_go_on_as_two_workers(tmp_path):
    """A state of M nodes is one of M workers [C11]."""
    before = pool(4).call(kept, tmp_path)
    after = pool(2).call(as_two_workers, tmp_path)
    for node, (params_D, parts) in enumerate(after):
        assert params_D.tobytes() == before[2 * node][0].tobytes()
        for a, b in zip(parts, before[2 * node][1], strict=True):
            assert np.array_equal(a["worker_error"], b["worker_error"])


def kept(folder):
    params = model()
    optimizer = made(list(params), (2, 2), bucket_elements=64)
    train(params, optimizer, range(1, 12))
    save_checkpoint(folder, optimizer, nn.ParameterList(params))
    return flat(params), full_state(optimizer)


# --- gradients that are missing, and what is refused ---


def missing(who):
    params = model()
    optimizer = made(list(params), (2, 2))

    def change(t, grads):
        return [None if k == 1 and t > 8 and dist.get_rank() in who else grad for k, grad in enumerate(grads)]

    train(params, optimizer, range(1, 8), change=change)
    at = params[1].detach().clone()
    train(params, optimizer, range(9, 14), change=change)
    return flat(params), bool((params[1] == at).all())


@pytest.mark.parametrize("who", [[0], [0, 1], [1, 2], [0, 1, 2, 3]], ids=str)
def test_a_gradient_that_some_workers_lack_counts_as_0(who):
    results = pool(4).call(missing, who)
    assert len({params_D.tobytes() for params_D, _ in results}) == 1
    assert results[0][1] is (len(who) == 4)


NO_NODES = {
    "crossed": ([[0, 1], [2, 3]], [[0, 3], [1, 2]]),
    "uneven": ([[0, 1, 2], [3]], [[0, 3], [1], [2]]),
}
"""Groups that a program may make by hand: those of the nodes, and those between them."""


def group_among(partition):
    """Of these groups the one in which this worker is."""
    made = [(dist.new_group(ranks), ranks) for ranks in partition]
    return next(group for group, ranks in made if dist.get_rank() in ranks)


def refused(what):
    params = list(model())
    between_inside = groups(2, 2)
    try:
        if what == "alone":
            OneBitAdam(params, freeze_step=5, node_group=between_inside["node_group"])
        elif what == "hook":
            HookedOneBitAdam(params, freeze_step=5, **between_inside)
        elif what == "kind":
            OneBitAdam(params, freeze_step=5, **{**between_inside, "node_group": "node"})
        elif what == "shards":
            layer = nn.Linear(8, 8)
            fully_shard(layer, mesh=mesh_of((2, 2), NODES)["inside"])
            layer(torch.ones(1, 8)).sum().backward()
            OneBitAdam(layer.parameters(), freeze_step=5, **between_inside).step()
        elif what == "join":
            OneBitAdam(params, freeze_step=5, **between_inside).join_hook()
        elif what == "lr":
            train(
                params, OneBitAdam(params, lr=0.1 + 0.1 * (dist.get_rank() == 1), freeze_step=5, **between_inside), [1]
            )
        elif what == "not everywhere":
            if dist.get_rank() == 3:
                del between_inside["node_group"]
            train(params, OneBitAdam(params, freeze_step=5, **between_inside), [1])
        elif what in NO_NODES:
            node, between = map(group_among, NO_NODES[what])
            train(params, OneBitAdam(params, freeze_step=5, process_group=between, node_group=node), [1])
        else:
            node = between_inside["node_group"]
            train(params, OneBitAdam(params, freeze_step=5, process_group=node, node_group=node), [1])
    except (ValueError, TypeError, RuntimeError) as error:
        if what == "not everywhere":  # after an error nobody waits for long for the one that is not told
            raise
        return str(error)
    return ""


@pytest.mark.parametrize(("what", "message"), [
    ("alone", "needs process_group beside it"),
    ("hook", "node_group: the hook"),
    ("kind", "node_group must be a torch.distributed.ProcessGroup"),
    ("shards", "sharded parameters take no node_group"),
    ("join", "can't be used with node_group"),
    ("lr", "rank 0 has 0.1, rank 1 has 0.2"),
    ("one group twice", "the same place in all nodes"),
    ("crossed", "the same place in all nodes"),
    ("uneven", "the same place in all nodes"),
])  # fmt: skip
def test_refusals(what, message):
    """On all workers alike, in one sentence; also two workers of one node that differ."""
    for told in pool(4).call(refused, what):
        assert message in told


@pytest.mark.usefixtures("no_hurry")
def test_a_worker_without_node_group_is_told_and_so_are_the_others():
    """All but the one that shares a node with it: it waits for the group's timeout, or for that worker's end."""
    workers = WorkerPool(4)
    try:
        outcomes = workers.outcomes(refused, [("not everywhere",)] * 4)
    finally:
        workers.close()
    for one in outcomes[:2]:
        assert str(one) == "node_group is given on some workers only: give it on all, or on none"
    assert "called an optimizer with node_group for the first time and rank 1 called step()" in str(outcomes[3])
    assert isinstance(outcomes[2], NoAnswerError) or "another worker" in str(outcomes[2])
