"""Real processes: every step obeys the step relation, L1 is monitored, the warm-up is Adam, the wire is thin.

The oracle starts from the state that the optimizer itself had before the step, see docs/algorithm.md.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from optimizer_support import ONE_BUCKET, flat, gradients, model, new, pool, record, train
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpu_impl.kernels.layout import Layout
from theory import rounding
from verification.monitor import Monitor
from verification.protocol import Hyper, Snapshot, Traits
from verification.relation.step import StepRelation

HYPER = {"lr": 1e-3, "freeze_step": 12, "weight_decay": 0.01, "variance_floor": 1e-3}
STEPS = 200
SKIPPED = 40
DEAD_PARAMETER = 2


def change(t, grads):
    """A parameter whose gradient is 0 until late, and a NaN once."""
    if t < 100:
        grads[DEAD_PARAMETER].zero_()
    if t == SKIPPED and dist.get_rank() == dist.get_world_size() - 1:
        grads[0][1, 1] = float("nan")
    return grads


def run(backend, bucket_elements, steps, hyper):
    params = model()
    optimizer = new(params, backend=backend, bucket_elements=bucket_elements, **hyper)
    return *record(params, optimizer, range(1, steps + 1), change), optimizer.stats()


def snapshot(rows):
    return Snapshot(
        np.stack([row["params"] for row in rows]),
        rows[0]["momentum"],
        rows[0]["variance"],
        np.stack([row["worker_error"] for row in rows]),
        np.concatenate([row["server_error"] for row in rows]),
        rows[0]["step"],
    )


def findings_of(runs, hyper):
    """All that any step of any bucket violates: the relation, and the monitor of a live run."""
    n_buckets, found = len(runs[0][0][0]), []
    monitor = Monitor(hyper.beta1, every=1)
    for k in range(n_buckets):
        before = snapshot([states[0][k] for states, _, _ in runs])
        chunks = Layout(before.momentum_D.size, len(runs))
        for t in range(len(runs[0][1])):
            grads_ND = np.stack([grads[t][k] for _, grads, _ in runs])
            if not all(np.isfinite(grad_D).all() for _, grads, _ in runs for grad_D in grads[t]):
                grads_ND[0, 0] = np.nan  # in another bucket, perhaps: the step is skipped for all
            after = snapshot([states[t + 1][k] for states, _, _ in runs])
            found += StepRelation(before, grads_ND, after, hyper, Traits()).findings()
            if before.step >= hyper.freeze_step and np.isfinite(grads_ND).all():
                found += watch(monitor, t, before, np.where(before.variance_D > 0, grads_ND, 0), after, chunks)
            before = after
    return found


def watch(monitor, t, before, grads_ND, after, layout):
    reports = []
    for i in range(len(grads_ND)):
        part = layout.part(i)
        seen = monitor.before(
            t, before.momentum_D, grads_ND[i], before.worker_errors_ND[i], part, before.server_error_D[part]
        )
        reports.append(
            monitor.after(
                seen, after.params_ND[i], after.momentum_D, after.worker_errors_ND[i], after.server_error_D[part]
            )
        )
    return monitor.judge(np.stack(reports))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("bucket_elements", [ONE_BUCKET, 60])
def test_200_steps_obey_the_relation(n, bucket_elements):
    runs = pool(n).call(run, "cpu", bucket_elements, STEPS, HYPER)
    assert len(runs[0][0][0]) == (1 if bucket_elements == ONE_BUCKET else 3)
    assert findings_of(runs, Hyper(**HYPER)) == []
    for _, _, stats in runs:
        assert (stats.phase, stats.step, stats.skipped_steps, stats.frozen_at) == ("compressed", STEPS - 1, 1, 12)
        assert stats.dead_coordinates == 7
        assert stats.ignored_gradients == 7 * 101


@pytest.mark.parametrize("hyper", [{"bias_correction": True, "scale": "l1"}, {"variance_floor": 0.0, "freeze_step": 1}])
def test_the_torch_kernels_and_other_settings(hyper):
    runs = pool(2).call(run, "torch", 60, 50, {**HYPER, **hyper})
    assert findings_of(runs, Hyper(**{**HYPER, **hyper})) == []


def run_with_a_bug(bug):
    """A run in which one thing is wrong, on one rank."""
    params = model()
    optimizer = new(params, bucket_elements=60, **HYPER)
    optimizer.take_over()
    parcel, ((_, bucket), *_) = optimizer.run.parcels[0], optimizer.run.pairs()
    if dist.get_rank() == 1 and bug == "error lost":
        parcel.compress = lambda *args, original=parcel.compress: (bucket.momentum.mul_(0.999), original(*args))
    if dist.get_rank() == 1 and bug == "replica moves":
        parcel.apply = lambda original=parcel.apply: (original(), bucket.flat.master[3].add_(1e-3))
    if bug == "mean forgotten":
        optimizer.run.parcels[0]._n_workers.fill_(1)
    return *record(params, optimizer, range(1, 20)), optimizer.stats()


@pytest.mark.parametrize(
    ("bug", "clauses"),
    [
        ("error lost", {"L1", "C1", "L4", "C2"}),
        ("replica moves", {"L6"}),
        ("mean forgotten", {"L3"}),
    ],
)
def test_planted_bugs_are_found(bug, clauses):
    found = findings_of(pool(2).call(run_with_a_bug, bug), Hyper(**HYPER))
    assert {finding.law for finding in found} & clauses


# --- the warm-up is Adam ---


def warm_up_beside_adam(n_steps, wrong):
    """Our warm-up and AdamW under DDP, from equal states each step: what each of them made of it."""
    params, theirs = model(), model()
    optimizer = new(params, weight_decay=0.1, bias_correction=True, freeze_step=100, bucket_elements=60)
    module = Dot(theirs)
    ddp = DistributedDataParallel(module)
    adam = torch.optim.AdamW(theirs, lr=1e-2, weight_decay=0.1)
    rows = []
    for t in range(1, n_steps + 1):
        grads = gradients(params, dist.get_rank(), t)
        before = full_flat(params, optimizer)
        for p, q, g, m, v in zip(params, theirs, grads, *moments(optimizer), strict=True):
            q.data.copy_(p)
            adam.state[q] = {"step": torch.tensor(float(t - 1)), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
            p.grad = g.clone() * (1.001 if wrong else 1)
        adam.zero_grad()
        ddp(grads).backward()
        optimizer.step()
        adam.step()
        rows.append((before, full_flat(params, optimizer), flatten(theirs), flatten(grads)))
    return rows


class Dot(torch.nn.Module):
    """Its gradient is whatever it is called with."""

    def __init__(self, params):
        super().__init__()
        self.params = params

    def forward(self, grads):
        return sum((p * g).sum() for p, g in zip(self.params, grads, strict=True))


def flatten(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy().copy()


def moments(optimizer):
    """m and v of every parameter, in its shape."""
    optimizer.take_over()
    flat = [(bucket, bucket.flat) for _, bucket in optimizer.run.pairs()]
    return [
        [tensor for bucket, f in flat for tensor in f.views_of(getattr(bucket, name))]
        for name in ("momentum", "variance")
    ]


def full_flat(params, optimizer):
    m, v = moments(optimizer)
    return flatten(params), flatten(m), flatten(v)


def excess(rows_of_ranks):
    """Largest |ours - AdamW's| over the proved tolerance of the two, and the largest relative tolerance."""
    worst, loosest = 0.0, 0.0
    for t, rows in enumerate(zip(*rows_of_ranks, strict=True), start=1):
        (x, m, v), (ours, _, _), theirs, _ = rows[0]
        grads_ND = np.stack([row[3] for row in rows]).astype(np.float64)
        tolerance = rounding.adam_step_tolerance(
            x,
            m,
            v,
            grads_ND.mean(axis=0),
            lr=1e-2,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.1,
            step=t,
            grads_tolerance=rounding.average_tolerance(grads_ND, "float32"),
        ).params
        worst = max(worst, float((np.abs(ours.astype(np.float64) - theirs) / (2 * tolerance)).max()))
        loosest = max(loosest, float((tolerance / 1e-2).max()))  # next to a step of the size of lr
    return worst, loosest


def test_the_warm_up_is_adam_under_ddp():
    worst, loosest = excess(pool(3).call(warm_up_beside_adam, 30, False))
    assert 0 < worst <= 1
    assert loosest < 1e-3
    assert excess(pool(3).call(warm_up_beside_adam, 30, True))[0] > 1


# --- bytes ---


def wire(dim, bucket_elements):
    params = [torch.nn.Parameter(torch.ones(part)) for part in dim]
    optimizer = new(params, freeze_step=1, bucket_elements=bucket_elements)
    sent = []
    for t in (1, 2, 3):
        for p in params:
            p.grad = torch.full_like(p, float(t))
        optimizer.step()
        sent.append(optimizer.stats().bytes_last_step)
    assert optimizer.stats().bytes_sent == sum(sent)
    return sent


@pytest.mark.parametrize("n", [2, 3, 4])
def test_wire_bytes(n):
    """Within 1 % of 2 (N-1)/N D/8, and exactly the rows and the numbers of a step, on every worker."""
    dim = 2_000_000
    for parts, limit in (([dim], ONE_BUCKET), ([dim // 2, dim // 2], dim // 2)):
        for warm, *compressed in pool(n).call(wire, parts, limit):
            rows = sum(Layout(part, n).row_bytes for part in parts)
            numbers = (n - 1) * 3 * 8  # the norm, the settings' checksum, one bit a parameter
            assert compressed == [2 * (n - 1) * rows + numbers] * 2
            assert compressed[0] == pytest.approx(2 * (n - 1) / n * dim / 8, rel=0.01)
            assert abs(warm - numbers - 2 * (n - 1) * 4 * dim / n) <= len(parts)


def test_wire_bytes_of_a_tiny_buffer():
    """Rows are padded to 16 bytes: a buffer of 8 elements costs 16 bytes a row instead of 1 + 4."""
    assert pool(2).call(wire, [8], ONE_BUCKET)[0][1] == 2 * 16 + 24


@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_betas_may_be_a_list_that_a_schedule_writes_to(backend):
    """The kernels' calls are prepared once: they must not go on with the numbers of the first step."""
    ends = []
    for is_written in (True, False):
        params = model()
        optimizer = new(params, betas=[0.9, 0.99], backend=backend)
        for t in range(1, 9):
            betas = [0.9 - 0.05 * t, 0.99 - 0.02 * t]
            if is_written:
                optimizer.param_groups[0]["betas"][:] = betas
            else:
                optimizer.param_groups[0]["betas"] = betas
            train(params, optimizer, [t], rank=0)
        ends.append(flat(params))
    assert np.array_equal(*ends)
