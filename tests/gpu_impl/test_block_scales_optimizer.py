"""scale_block [C13] in the optimizer and through the verification suite: laws, checkpoints, resize, hook, the wire."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from optimizer_support import ONE_BUCKET, flat, full_state, model, new, pool, total_error, train
from test_ddp_hook import SMALL, equal
from test_ddp_hook import train as train_network
from test_optimizer_steps import snapshot
from test_update_form_kernels import findings, recorded, resumed_on_each, saved_with

from gpu_impl import OneBitAdam, resize_state_dicts
from gpu_impl.kernels.cpu.backend import CpuBackend
from gpu_impl.kernels.layout import Layout, scales_of
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from theory import rounding
from verification.adapters.kernels import Kernels, TorchKernels
from verification.adapters.optimizer import Optimizer
from verification.protocol import Hyper, Traits
from verification.relation.step import StepRelation

HYPER = {"scale_block": 16, "weight_decay": 0.01, "variance_floor": 1e-3}


@pytest.mark.parametrize("kernels", [Kernels, TorchKernels])
@pytest.mark.parametrize("compress", ["momentum", "update"])
def test_the_kernels_hold(kernels, compress):
    for scale_block in (8, 40, 1024):
        assert findings(kernels, 3, scale_block=scale_block, compress=compress) == []
    assert findings(kernels, 3, scale_block=8, compress=compress, dead="some with a later gradient") == []


@pytest.mark.parametrize("checkpoint", ["none", "reload", "reload used", "resize"])
def test_the_optimizer_holds(checkpoint):
    assert findings(Optimizer, 3, scale_block=8, compress="momentum", checkpoint=checkpoint, exact=False) == []


class Wrong(CpuBackend):
    """Sends, or remembers, another scale than that of the block."""

    def __init__(self, bug):
        super().__init__()
        self.bug = bug

    def compress(self, grad, worker, exchange, *arguments, **options):
        super().compress(grad, worker, exchange, *arguments, **options)
        if self.bug == "worker remembers the scale of the block before":
            worker.u_scale.copy_(worker.u_scale.roll(1))
        if self.bug == "worker has one scale":
            worker.u_scale.fill_(worker.u_scale.mean())
            self.send(exchange.message, exchange.layout, worker.u_scale.view(exchange.layout.n_chunks, -1))

    def server(self, server, exchange, *arguments, **options):
        super().server(server, exchange, *arguments, **options)
        if self.bug == "server has one scale":
            server.w_scale.fill_(server.w_scale[0])
            self.send(exchange.reply, exchange.layout, server.w_scale)

    @staticmethod
    def send(rows, layout, scales):
        scales_of(rows, layout.n_blocks).copy_(scales)

    def apply(self, params, preconditioner, exchange, *arguments, **options):
        if self.bug == "apply takes the scale of the block before":
            kept = exchange.shared.clone()
            scales = scales_of(exchange.shared, exchange.layout.n_blocks)
            scales.copy_(scales.roll(1, dims=1))
        super().apply(params, preconditioner, exchange, *arguments, **options)
        if self.bug == "apply takes the scale of the block before":
            exchange.shared.copy_(kept)


@pytest.mark.parametrize(
    ("bug", "clause"),
    [
        ("worker remembers the scale of the block before", "conservation"),
        ("worker has one scale", "worker_scale"),
        ("server has one scale", "server_scale"),
        ("apply takes the scale of the block before", "apply"),
    ],
)
def test_a_bug_in_the_kernels_is_found(bug, clause, monkeypatch):
    monkeypatch.setattr("verification.adapters.kernels.get_backend", lambda *_: Wrong(bug))
    found = findings(
        Kernels, 4, scale_block=8, compress="momentum", dead="none", snapshots="every step", workers=(2, 2), exact=False
    )
    assert clause in {one.clause for one in found}


@pytest.mark.parametrize("bucket_elements", [ONE_BUCKET, 60])
def test_steps_of_real_processes_obey_the_relation(bucket_elements):
    runs = pool(2).call(recorded, {**HYPER, "bucket_elements": bucket_elements})
    hyper = Hyper(lr=1e-2, freeze_step=12, **HYPER)
    for k in range(len(runs[0][0][0])):
        before = snapshot([states[0][k] for states, _ in runs])
        for t in range(60):
            grads_ND = np.stack([grads[t][k] for _, grads in runs])
            if not all(np.isfinite(grad_D).all() for _, grads in runs for grad_D in grads[t]):
                grads_ND[0, 0] = np.nan
            after = snapshot([states[t + 1][k] for states, _ in runs])
            assert StepRelation(before, grads_ND, after, hyper, Traits()).findings() == []
            before = after


@pytest.mark.parametrize("bucket_elements", [ONE_BUCKET, 60])
@pytest.mark.parametrize("step", [2, 5, 6, 9])
def test_resume_is_exact(step, bucket_elements):
    """In the warm-up, right after the freeze, after the first compressed step, and later."""
    hyper = {**HYPER, "bucket_elements": bucket_elements}
    runs = pool(2).call(saved_with, hyper, step)
    again = pool(2).call(resumed_on_each, [run[0] for run in runs], step, hyper)
    for (_, params, states), (params_again, states_again) in zip(runs, again, strict=True):
        assert params.tobytes() == params_again.tobytes()
        for part, other in zip(states, states_again, strict=True):
            assert all(part[name].tobytes() == other[name].tobytes() for name in part)


def stopped(scale_block):
    params = model()
    optimizer = new(params, scale_block=scale_block)
    train(params, optimizer, range(1, 10))
    return full_state(optimizer)[0], optimizer.state_dict(), flat(params)


def loaded(state, scale_block):
    params = model(seed=1)
    optimizer = new(params, scale_block=scale_block)
    optimizer.load_state_dict(state)
    part = full_state(optimizer)[0]
    train(params, optimizer, range(10, 12))
    return part, bool(np.isfinite(flat(params)).all())


@pytest.mark.parametrize(("n", "scale_block"), [(1, 16), (3, 16), (2, 40), (2, None), (3, None)])
def test_what_is_owed_survives_other_workers_and_other_blocks(n, scale_block):
    """2 workers with blocks of 16 become n with others, or none [C11]: momentum to the bit, Delta conserved."""
    saved = pool(2).call(stopped, 16)
    states = resize_state_dicts([state for _, state, _ in saved], n)
    after = pool(n).map(loaded, [(state, scale_block) for state in states])
    before_D, after_D = total_error([part for part, *_ in saved]), total_error([part for part, _ in after])
    size_D = sum(np.abs(part["worker_error"].astype(np.float64)) for part, *_ in saved) + np.abs(after_D)
    assert (np.abs(after_D - before_D) <= 2 * rounding.gamma(4, "float32") * size_D).all()
    assert np.abs(before_D).max() > 1e-3
    for part, is_finite in after:
        assert part["momentum"].tobytes() == saved[0][0]["momentum"].tobytes()
        assert is_finite


def paused_run(scale_block):
    """A parameter pauses and comes back; live coordinates and scales of its blocks."""
    params = model()
    optimizer = new(params, scale_block=scale_block)
    seen = []
    for t in range(1, 13):
        train(params, optimizer, [t], change=lambda t, grads: [*grads[:3], None if t in (8, 9) else grads[3], grads[4]])
        ((_, bucket),) = optimizer.run.pairs()
        marked = np.signbit(bucket.momentum.numpy()) & (bucket.momentum.numpy() == 0)
        counts = [int((~marked[k : k + bucket.layout.block]).sum()) for k in range(0, bucket.flat.dim, 16)]
        if t > 5:
            seen.append((bucket.exchange.live.tolist() == counts, sum(counts), flat(params[3:4]).tobytes()))
    return seen


def test_a_parameter_that_pauses_is_in_no_block():
    (seen,) = pool(1).call(paused_run, 16)
    assert all(right for right, _, _ in seen)
    assert [count for _, count, _ in seen] == [115, 115, 115 - 32, 115 - 32, 115, 115, 115][: len(seen)]
    assert seen[1][2] == seen[2][2] == seen[3][2] != seen[4][2]


FORMS = [
    {"scale_block": 40},
    {"compress": "update"},
    {"compress": "update", "scale_block": 8, "bucket_elements": 300, "backend": "torch"},
]


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize(
    ("n", "dtype", "unused", "ddp_options", "nan_steps"),
    [
        (2, torch.float32, False, SMALL | {"gradient_as_bucket_view": True}, (2, 4, 7)),
        (3, torch.float32, True, SMALL | {"find_unused_parameters": True}, ()),
        (2, torch.bfloat16, False, SMALL, (8,)),
    ],
)
def test_the_hook_is_one_bit_adam_to_the_bit(options, n, dtype, unused, ddp_options, nan_steps):
    hooked = pool(n).call(train_network, HookedOneBitAdam, dtype, unused, options, ddp_options, nan_steps)
    plain = pool(n).call(train_network, OneBitAdam, dtype, unused, options, ddp_options, nan_steps)
    for mine, theirs in zip(hooked, plain, strict=True):
        for t, (left, right) in enumerate(zip(mine, theirs, strict=True), start=1):
            assert equal(left, right), f"step {t}"


def wire(dim, scale_block):
    params = [torch.nn.Parameter(torch.ones(dim))]
    optimizer = new(params, freeze_step=1, bucket_elements=ONE_BUCKET, scale_block=scale_block)
    for t in (1, 2, 3):
        params[0].grad = torch.full_like(params[0], float(t))
        optimizer.step()
    return optimizer.stats().bytes_last_step


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("scale_block", [64, 1024])
def test_wire_bytes(n, scale_block):
    """D/8 + 4 ceil(D/B) a worker and direction, of which 1/N stays at home: exactly the rows, and to 1 %."""
    dim = 2_000_000
    sent = pool(n).call(wire, dim, scale_block)
    assert sent == [2 * (n - 1) * Layout(dim, n, scale_block).row_bytes + (n - 1) * 3 * 8] * n
    assert sent[0] == pytest.approx(2 * (n - 1) / n * (dim / 8 + 4 * -(-dim // scale_block)), rel=0.01)


def disagreeing(blocks):
    from torch import distributed as dist

    try:
        wire(64, blocks[dist.get_rank()])
    except RuntimeError as error:
        return str(error)
    return ""


def test_what_is_refused():
    with pytest.raises(ValueError, match="scale_block must be None or a positive multiple of 8, got 12"):
        new(model(), scale_block=12)
    for message in pool(2).call(disagreeing, [8, 16]):
        assert message.startswith("the workers must agree on scale_block: rank 0 has 8, rank 1 has 16")
