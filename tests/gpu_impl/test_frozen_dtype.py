"""frozen_dtype="bfloat16" [C14]: P of two bytes in the kernels, the optimizer and its checkpoints."""

from __future__ import annotations

import weakref

import kernels_support as oracle
import numpy as np
import pytest
import torch
from kernels_support import HAS_TRITON, backend_on, floats, same, tensor
from optimizer_support import ONE_BUCKET, flat, full_state, model, new, pool, train
from test_block_scales import blocked, sizes_for
from test_ddp_hook import SMALL, equal
from test_ddp_hook import train as train_network
from test_lazy_is_eager import run
from test_update_form_kernels import findings, resumed, saved_with

from gpu_impl import Layout, OneBitAdam, resize_state_dicts, step_scalars
from gpu_impl.benchmarks.byte_floor import byte_floor
from gpu_impl.benchmarks.form import Form
from gpu_impl.kernels.cpu.backend import CpuBackend
from gpu_impl.kernels.torch_ import preconditioner_of
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from gpu_impl.optimizer.variance_of import variance_of
from verification.adapters.kernels import Kernels, TorchKernels
from verification.adapters.optimizer import Optimizer

HYPER = {"frozen_dtype": "bfloat16", "weight_decay": 0.01, "variance_floor": 1e-3}
FORMS = [HYPER, {**HYPER, "compress": "update"}, {**HYPER, "compress": "update", "scale_block": 16}]


@blocked
@pytest.mark.parametrize("in_updates", [False, True])
def test_freeze(backend, device, in_updates):
    """P is rounded to nearest even, once; u is made from that; dead and overflowed stay what they are."""
    kernels, rng = backend_on(backend, device), np.random.default_rng(0)
    for dim, size in sizes_for(backend):
        layout, v_D = Layout(dim, 2, size), np.abs(floats(rng, dim))
        v_D[::5], v_D[1::11] = 0, np.inf
        m_D = floats(rng, dim)
        rounded = torch.zeros(dim, dtype=torch.bfloat16, device=device)
        live = torch.zeros(2 * layout.n_blocks, dtype=torch.int64, device=device)
        plain_v, plain_m, m, v = (tensor(x, device) for x in (v_D, m_D, m_D, v_D))
        kernels.freeze(plain_m, plain_v, live, layout=layout, eps=1e-8, variance_floor=0.1)
        options = {"update": in_updates, "rounded": rounded}
        kernels.freeze(m, v, live, layout=layout, eps=1e-8, variance_floor=0.1, **options)
        same(rounded, plain_v.bfloat16())
        if in_updates:
            p_D, is_marked = rounded.float().cpu().numpy(), oracle.is_dead(plain_m.cpu().numpy())
            same(m, np.where(is_marked, oracle.DEAD, p_D * m_D + np.float32(0)).astype(np.float32))
        else:
            same(m, plain_m)


@blocked
@pytest.mark.parametrize("scale_block", [None, 40])
def test_kernels_read_it_as_they_read_its_float32(backend, device, scale_block):
    """compress in the update form, apply and decode: the same bits as from the same P in float32."""
    kernels, rng = backend_on(backend, device), np.random.default_rng(1)
    for dim, _ in sizes_for(backend):
        layout = Layout(dim, 2, scale_block)
        dead = rng.random(dim) < 0.2
        p_D = np.abs(floats(rng, dim)) + np.float32(1e-3)
        p_D[dead] = oracle.DEAD
        narrow = tensor(p_D, device).bfloat16()
        shared = layout.message().random_(0, 120)  # scales are some finite floats
        found = []
        for p in (narrow, narrow.float()):
            random = np.random.default_rng(2)
            live = torch.full((2 * layout.n_blocks,), 7)
            exchange = oracle.exchange(layout, device, live=live, shared=shared)
            worker = oracle.worker(floats(random, dim, dead=dead), device)
            if scale_block:
                object.__setattr__(worker, "u_scale", torch.ones(layout.n_scales, device=device))
            grad, x = tensor(floats(random, dim), device), tensor(floats(random, dim), device)
            step = step_scalars(0.01, 0.1, device=device)
            kernels.compress(grad, worker, exchange, step, beta1=0.9, preconditioner=p)
            kernels.apply(x, p, exchange, step)
            values = torch.zeros(dim, device=device)
            kernels.decode(exchange, p, values)
            found.append([worker.u, worker.u_scale, exchange.message, x, values])
        for one, other in zip(*found, strict=True):
            same(one, other)


@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("compress", ["momentum", "update"])
@pytest.mark.parametrize("n_workers", [1, 3])
def test_lazy_is_eager(backend, compress, n_workers):
    hyper = {"bias_correction": n_workers == 3, "scale_block": 40 if n_workers == 3 else None, "compress": compress}
    run(backend, "cpu", 333, n_workers, 150, lr=1e-2, freeze_step=10, frozen_dtype="bfloat16", **hyper)


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("compress", ["momentum", "update"])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_lazy_is_eager_triton(compress):
    device = "cuda" if oracle.CUDA else "cpu"
    run("triton", device, 70, 2, 24, lr=1e-2, freeze_step=9, frozen_dtype="bfloat16", compress=compress)


@pytest.mark.parametrize("kernels", [Kernels, TorchKernels])
@pytest.mark.parametrize("compress", ["momentum", "update"])
def test_the_kernels_hold(kernels, compress):
    assert findings(kernels, 4, frozen_dtype="bfloat16", compress=compress, exact=False) == []


@pytest.mark.parametrize("checkpoint", ["none", "reload", "resize"])
def test_the_optimizer_holds(checkpoint):
    assert findings(Optimizer, 2, frozen_dtype="bfloat16", checkpoint=checkpoint, exact=False) == []


class Truncates(CpuBackend):
    """Cuts P off where it should be rounded."""

    def freeze(self, *arguments, rounded=None, **options):
        super().freeze(*arguments, rounded=rounded, **options)
        if rounded is not None:
            rounded.view(torch.int16).copy_(arguments[1].view(torch.int32) >> 16)


def test_a_bug_in_the_kernels_is_found(monkeypatch):
    monkeypatch.setattr("verification.adapters.kernels.get_backend", lambda *_: Truncates())
    levels = {"frozen_dtype": "bfloat16", "compress": "momentum", "dead": "none", "snapshots": "every step"}
    assert "apply" in {one.clause for one in findings(Kernels, 4, exact=False, **levels)}


@pytest.mark.parametrize("correction", [1.0, 0.271])
def test_v_is_found_from_every_p(correction):
    """Every P of two bytes that a v can give comes out of the v that is saved for it."""
    v = (torch.arange(0x10000, 0x7F800000, 0x4001, dtype=torch.int32)).view(torch.float32)
    for eps in (1e-8, 1e-2):
        p = preconditioner_of(v, correction, eps).bfloat16().float()
        again = preconditioner_of(variance_of(p, eps, correction, torch.bfloat16), correction, eps)
        assert torch.equal(again.bfloat16().float(), p)


def at_step(hyper, step):
    return saved_with({**hyper, "bucket_elements": 60}, step)


def resumed_with(files, hyper, step):
    from torch import distributed as dist

    return resumed(files[dist.get_rank()], step, {**hyper, "bucket_elements": 60})


@pytest.mark.parametrize("hyper", FORMS)
@pytest.mark.parametrize("step", [2, 5, 8])
def test_resume_is_exact(hyper, step):
    runs = pool(2).call(at_step, hyper, step)
    again = pool(2).call(resumed_with, [run[0] for run in runs], hyper, step)
    for (_, params, states), (params_again, states_again) in zip(runs, again, strict=True):
        assert params.tobytes() == params_again.tobytes()
        for part, other in zip(states, states_again, strict=True):
            assert all(part[name].tobytes() == other[name].tobytes() for name in part)


def stopped():
    params = model()
    optimizer = new(params, **HYPER)
    train(params, optimizer, range(1, 9))
    ((_, bucket),) = optimizer.run.pairs()
    return bucket.variance.dtype == torch.bfloat16, bucket.variance.float().numpy(), optimizer.state_dict()


def loaded(state):
    params = model(seed=1)
    optimizer = new(params, **HYPER)
    optimizer.load_state_dict(state)
    ((_, bucket),) = optimizer.run.pairs()
    kept = bucket.variance.float().numpy()
    train(params, optimizer, range(9, 11))
    return kept, bool(np.isfinite(flat(params)).all())


def test_p_survives_other_workers_to_the_bit():
    saved = pool(2).call(stopped)
    assert all(is_narrow for is_narrow, *_ in saved)
    for n in (1, 3):
        for kept, is_finite in pool(n).map(loaded, [(s,) for s in resize_state_dicts([row[2] for row in saved], n)]):
            same(kept, saved[0][1])
            assert is_finite


def loaded_with(step, frozen_dtype):
    data, *_ = saved_with({**HYPER, "bucket_elements": ONE_BUCKET}, step)
    try:
        return resumed(data, step, {**HYPER, "frozen_dtype": frozen_dtype})[0]
    except ValueError as error:
        return str(error)


def test_another_dtype_is_refused_after_the_warm_up():
    ((refused,), (taken,)) = (pool(1).call(loaded_with, step, "float32") for step in (7, 3))
    assert "made with frozen_dtype='bfloat16' and this optimizer with 'float32'" in refused
    assert np.isfinite(taken).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="frozen_dtype must be 'float32' or 'bfloat16', got 'float16'"):
        new(model(), frozen_dtype="float16")
    if HAS_TRITON:
        with pytest.raises(ValueError, match="the triton-v1 backend has no frozen_dtype='bfloat16': use another"):
            backend_on("triton-v1", "cuda" if oracle.CUDA else "cpu").check_extensions(frozen_dtype="bfloat16")


@pytest.mark.parametrize("options", [{"frozen_dtype": "bfloat16"}, {"frozen_dtype": "bfloat16", "compress": "update"}])
def test_the_hook_is_one_bit_adam_to_the_bit(options):
    for ddp_options, nan_steps in ((SMALL, (2, 4, 7)), (SMALL | {"find_unused_parameters": True}, ())):
        arguments = (torch.float32, bool(not nan_steps), options, ddp_options, nan_steps)
        hooked = pool(2).call(train_network, HookedOneBitAdam, *arguments)
        plain = pool(2).call(train_network, OneBitAdam, *arguments)
        for mine, theirs in zip(hooked, plain, strict=True):
            assert all(equal(left, right) for left, right in zip(mine, theirs, strict=True))


def paused():
    params, seen = model(), []
    optimizer = new(params, **HYPER)
    for t in range(1, 13):
        train(params, optimizer, [t], change=lambda t, grads: [*grads[:3], None if t in (8, 9) else grads[3], grads[4]])
        seen.append(flat(params[3:4]).tobytes())
        full_state(optimizer)
    return seen


def test_a_parameter_may_pause():
    (seen,) = pool(1).call(paused)
    assert seen[6] == seen[7] == seen[8] != seen[9]


def test_the_byte_floor_is_two_bytes_lower():
    for compress in ("momentum", "update"):
        for n in (1, 8):
            assert byte_floor("step", n, form=Form(compress, None, "bfloat16")) == 22.5 + 8.125 / n


@pytest.mark.parametrize("options", FORMS)
def test_the_freeze_gives_v_back(options):
    """Nothing holds the float32 v after it: neither the bucket nor a call that the warm-up had prepared."""
    param = torch.nn.Parameter(torch.ones(64))
    optimizer = OneBitAdam([param], freeze_step=2, **options)
    param.grad = torch.ones(64)
    optimizer.step()
    ((_, bucket),) = optimizer.run.pairs()
    warm_v = weakref.ref(bucket.variance)
    assert warm_v() is bucket.variance
    for _ in range(3):
        optimizer.step()
    assert bucket.variance.dtype == torch.bfloat16
    assert warm_v() is None
