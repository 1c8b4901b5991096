"""Every kernel of every backend against the lazy form in NumPy: bitwise, all dtypes, sizes around every boundary."""

from __future__ import annotations

import kernels_support as oracle
import numpy as np
import pytest
import torch
from kernels_support import DTYPES, WORKERS, backend_on, backends, changed_copy, floats, same, scales, sizes_for, tensor

from gpu_impl import Exchange, Layout, ServerState, WorkerState, scales_of, step_scalars
from reference.bits import pack_signs, unpack_signs
from theory import rounding

BETA1 = 0.9


def close_scale(scale, u_D, n_live, kind):
    """The scale, within its proved tolerance: a float64 sum, rounded once."""
    live_D = u_D[~oracle.is_dead(u_D)].astype(np.float64)
    assert len(live_D) == n_live
    if n_live == 0:
        assert scale == 0
        return
    exact = np.abs(live_D).mean() if kind == "l1" else np.sqrt((live_D * live_D).mean())
    tolerance = rounding.scale_tolerance(live_D, kind, "float32", accumulator="float64")
    own = rounding.scale_tolerance(live_D, kind, "float64", accumulator="float64")
    assert abs(scale - exact) <= tolerance + own


@backends
@pytest.mark.parametrize("dtype", DTYPES)
def test_pack_and_unpack(backend, device, dtype):
    kernels, rng = backend_on(backend, device), np.random.default_rng(0)
    for dim in sizes_for(backend, device):
        values = tensor(floats(rng, dim), dtype=dtype)
        values[rng.random(dim) < 0.1] = -0.0
        values[rng.random(dim) < 0.1] = float("nan")
        bits = torch.full((-(-dim // 8),), 255, dtype=torch.uint8, device=device)
        kernels.pack(values.to(device), bits)
        same(bits, pack_signs(values.float().numpy()))
        out = torch.empty(dim, device=device)
        kernels.unpack(bits, torch.tensor([0.3], device=device), out)
        same(out, unpack_signs(bits.cpu().numpy(), dim, np.float32(0.3)))


@backends
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pack_all_patterns(backend, device, dtype):
    """Exhaustive: all 2^16 numbers of the format, NaNs, infinities and both zeros among them."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    bits = torch.empty(2**13, dtype=torch.uint8, device=device)
    backend_on(backend, device).pack(patterns.to(device), bits)
    same(bits, pack_signs(patterns.float().numpy()))


@backends
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_all_patterns(backend, device, dtype):
    """Exhaustive: compress reads every finite number of the format as float32 does, and sends its sign."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    grad = patterns[torch.isfinite(patterns.float())].contiguous()
    layout = Layout(grad.shape[0], 1)
    worker = oracle.worker(np.zeros(layout.dim, np.float32), device)
    exchange, scalars = Exchange.alone(layout, device), step_scalars(1.0, device=device)
    exchange.live.fill_(layout.dim)
    backend_on(backend, device).compress(grad.to(device), worker, exchange, scalars, beta1=0.0, first=True)
    same(worker.u, grad.float().numpy() + np.float32(0))
    same(exchange.message[0, : -(-layout.dim // 8)], pack_signs(grad.float().numpy()))


@pytest.mark.one_in(4)
@backends
@scales
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_compress(backend, device, scale, first, joint, dtype):
    """``joint``: the rows are columns of longer rows, and the old u is kept where the gradient was."""
    kernels, rng = backend_on(backend, device), np.random.default_rng(1)
    for k, dim in enumerate(sizes_for(backend, device)):
        n = WORKERS[k % len(WORKERS)]
        layout, dead_D = Layout(dim, n), rng.random(dim) < 0.2 * (k % 2)
        grad = tensor(floats(rng, dim), dtype=dtype)
        u_D, s = floats(rng, dim, dead=dead_D), np.float32(rng.random())
        shared = oracle.message_of(layout, floats(rng, dim), rng.random(n))
        live = oracle.live_counts(layout, dead_D)
        factor = np.float32(1.0 if k % 3 else 0.37)
        g_D = grad.float().numpy()
        if first:
            expected_D = oracle.first_compress(g_D * factor, u_D, BETA1)
        else:
            expected_D = oracle.compress(g_D, u_D, s, oracle.decoded(layout, shared), BETA1, factor)

        worker = oracle.worker(u_D, device, s, ignored=5)
        exchange = oracle.exchange(layout, device, live=live, shared=shared, joint=joint)
        keep_old, g = joint and dtype == torch.float32, grad.to(device, copy=True)
        scalars = step_scalars(1.0, gradient_factor=float(factor), device=device)
        kernels.compress(g, worker, exchange, scalars, beta1=BETA1, scale=scale, first=first, keep_old=keep_old)
        same(worker.u, expected_D)
        same(g, u_D if keep_old else grad)
        close_scale(worker.u_scale.item(), expected_D, int(live.sum()), scale)
        assert int(worker.ignored) == 5 + int((dead_D & (g_D != 0)).sum())
        same(exchange.message, oracle.message_of(layout, expected_D, np.full(n, worker.u_scale.item())))
        oracle.nothing_beside(exchange)


@backends
@scales
@pytest.mark.parametrize("joint", [False, True])
def test_server(backend, device, scale, joint):
    kernels, rng = backend_on(backend, device), np.random.default_rng(2)
    for k, dim in enumerate(sizes_for(backend, device)):
        n, chunk = WORKERS[k % len(WORKERS)], k % 3
        layout = Layout(chunk * 8 * -(-dim // 8) + dim, chunk + 1)  # a layout whose last chunk has dim elements
        if layout.part_dim(chunk) != dim:
            layout = Layout(dim, 1)
            chunk = 0
        dead_C = rng.random(dim) < 0.2 * (k % 2)
        signs_NC = np.where(rng.random((n, dim)) < 0.5, np.float32(1), np.float32(-1))
        scales_N = rng.random(n).astype(np.float32)
        w_C, s = floats(rng, dim, dead=dead_C), np.float32(rng.random())
        expected_C = oracle.server(signs_NC, scales_N, w_C, s)

        received = torch.zeros(n, layout.row_bytes, dtype=torch.uint8)
        for i in range(n):
            bits = pack_signs(signs_NC[i])
            received[i, : len(bits)] = torch.from_numpy(bits)
        scales_of(received).copy_(torch.from_numpy(scales_N))
        live = torch.full((layout.n_chunks,), 99, dtype=torch.int64)
        live[chunk] = int((~dead_C).sum())
        server = ServerState(tensor(w_C, device), torch.tensor([s], device=device), chunk)
        exchange = oracle.exchange(layout, device, live=live, received=received, joint=joint)
        kernels.server(server, exchange, step_scalars(1.0, device=device), scale=scale)
        same(server.w, expected_C)
        close_scale(server.w_scale.item(), expected_C, int(live[chunk]), scale)
        bits, reply = pack_signs(expected_C), exchange.reply
        same(reply[: len(bits)], bits)
        assert not reply[len(bits) : -4].any(), "the padding of a row is zero"
        same(reply[-4:].clone().view(torch.float32), server.w_scale)


@backends
@pytest.mark.parametrize(
    ("dtype", "copy_dtype"),
    [(torch.float32, None), (torch.float32, torch.bfloat16), (torch.float32, torch.float16), (torch.bfloat16, None)],
)
@pytest.mark.parametrize(("weight_decay", "correction"), [(0.0, 1.0), (0.1, 0.271)])
def test_apply(backend, device, dtype, copy_dtype, weight_decay, correction):
    kernels, rng = backend_on(backend, device), np.random.default_rng(3)
    for k, dim in enumerate(sizes_for(backend, device)):
        n = WORKERS[k % len(WORKERS)]
        layout, dead_D = Layout(dim, n), rng.random(dim) < 0.2
        params = tensor(floats(rng, dim), dtype=dtype)
        p_D = np.abs(floats(rng, dim)) + np.float32(1e-3)
        p_D[dead_D] = oracle.DEAD
        shared = oracle.message_of(layout, floats(rng, dim), rng.random(n))
        momentum_D = oracle.decoded(layout, shared)
        lr = np.float32(1e-2)
        copy, seen = (None, params.float()) if copy_dtype is None else changed_copy(params, copy_dtype)
        expected_D = oracle.apply(seen.numpy(), p_D, momentum_D, lr, weight_decay, np.float32(correction))
        x, copy = params.to(device), None if copy is None else copy.to(device)
        scalars = step_scalars(1e-2, weight_decay, correction, device=device)
        exchange = oracle.exchange(layout, device, shared=shared, joint=copy is not None)
        kernels.apply(x, tensor(p_D, device), exchange, scalars, params_copy=copy)
        same(x, torch.from_numpy(expected_D).to(dtype))
        if copy is not None:
            same(copy, torch.from_numpy(expected_D).to(copy.dtype))


@backends
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")  # in the interpreter
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding_of_parameters(backend, device, dtype):
    """Every upper half of a float32, with lower halves below, at and above the tie: to nearest, ties to even.

    NaN is unlike any weight that it rounds to, so x is taken from the weight there: it is another NaN.
    """
    upper = torch.arange(-(2**15), 2**15, dtype=torch.int32) * 2**16
    lower = torch.tensor([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    if backend.startswith("triton") and device == "cpu":
        upper = upper[:: 2**4]
    x = (upper[:, None] + lower).view(-1).view(torch.float32)
    layout = Layout(x.shape[0], 1)
    p = torch.full_like(x, -0.0)  # all dead, so that x itself is rounded
    copy = x.to(dtype).to(device)
    params = x.clone().to(device)
    scalars = step_scalars(1.0, device=device)
    exchange = Exchange.alone(layout, device)
    backend_on(backend, device).apply(params, p.to(device), exchange, scalars, params_copy=copy)
    assert torch.equal(x.isnan(), params.cpu().isnan())
    same(params.cpu()[~x.isnan()], x[~x.isnan()])
    expected, found = x.to(dtype), copy.cpu()
    assert torch.equal(expected.isnan(), found.isnan())
    same(found[~expected.isnan()], expected[~expected.isnan()])


@backends
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")  # to float16, in the interpreter
@pytest.mark.parametrize(("dtype", "copy_dtype"), [(torch.float32, torch.bfloat16), (torch.float16, None)])
@pytest.mark.parametrize("grad_dtype", DTYPES)
@pytest.mark.parametrize("step", [None, 3])
def test_adam(backend, device, dtype, copy_dtype, grad_dtype, step):
    kernels, rng = backend_on(backend, device), np.random.default_rng(4)
    beta1, beta2, eps, lr, weight_decay = 0.9, 0.999, 1e-8, 1e-2, 0.01
    corrections = (1.0, 1.0) if step is None else (1 - beta1**step, 1 - beta2**step)
    for dim in sizes_for(backend, device):
        params, grad = tensor(floats(rng, dim), dtype=dtype), tensor(floats(rng, dim), dtype=grad_dtype)
        m_D, v_D = floats(rng, dim), np.abs(floats(rng, dim))
        copy, seen = (None, params.float()) if copy_dtype is None else changed_copy(params, copy_dtype)
        with np.errstate(over="ignore"):
            expected = oracle.adam(
                seen.numpy(),
                m_D,
                v_D,
                grad.float().numpy(),
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                eps=eps,
                weight_decay=weight_decay,
                corrections=corrections,
            )
        x, m, v = params.to(device), tensor(m_D, device), tensor(v_D, device)
        copy = None if copy is None else copy.to(device)
        scalars = step_scalars(lr, weight_decay, *corrections, device=device)
        kernels.adam(x, m, v, grad.to(device), scalars, beta1=beta1, beta2=beta2, eps=eps, params_copy=copy)
        same(x, torch.from_numpy(expected[0]).to(dtype))
        same(m, expected[1])
        same(v, expected[2])
        if copy is not None:
            same(copy, torch.from_numpy(expected[0]).to(copy.dtype))


@backends
@pytest.mark.parametrize("variance_floor", [0.0, 1e-3])
def test_freeze(backend, device, variance_floor):
    kernels, rng = backend_on(backend, device), np.random.default_rng(5)
    for k, dim in enumerate(sizes_for(backend, device)):
        n = WORKERS[k % len(WORKERS)]
        layout = Layout(dim, n)
        # small integers: the float64 sum is exact in every order, so the floor is the same
        m_D, v_D = floats(rng, dim), rng.integers(0, 4, dim).astype(np.float32)
        m_D[::5] = -0.0
        alive_D = v_D > 0
        floor = np.float32(variance_floor * (v_D.astype(np.float64).sum() / max(1, alive_D.sum())))
        p_D = 1 / (np.sqrt(np.maximum(v_D, floor) / np.float32(0.75)) + np.float32(1e-8))
        m, v, live = tensor(m_D, device), tensor(v_D, device), torch.zeros(n, dtype=torch.int64, device=device)
        kernels.freeze(m, v, live, layout=layout, eps=1e-8, variance_floor=variance_floor, variance_correction=0.75)
        same(v, np.where(alive_D, p_D, oracle.DEAD).astype(np.float32))
        same(m, np.where(alive_D, m_D + np.float32(0), oracle.DEAD).astype(np.float32))
        same(live, oracle.live_counts(layout, ~alive_D))
        start = kernels.server_start(v)
        same(start, np.where(alive_D, np.float32(0), oracle.DEAD))


@backends
def test_a_variance_that_overflowed_has_no_preconditioner_and_stops_no_other(backend, device):
    """A gradient of 1e21 is finite, its square is not: it made the floor infinite, and P zero for the whole bucket."""
    kernels = backend_on(backend, device)
    v_D = np.array([1, np.inf, 4, 0, 1, np.inf, 2, 3, 1], np.float32)
    m_D, layout = np.arange(9, dtype=np.float32) + 1, Layout(9, 1)
    m, v, live = tensor(m_D, device), tensor(v_D, device), torch.zeros(1, dtype=torch.int64, device=device)
    kernels.freeze(m, v, live, layout=layout, eps=1e-8, variance_floor=0.5)
    out_D = np.isinf(v_D) | (v_D == 0)
    p_D = 1 / (np.sqrt(np.maximum(v_D, np.float32(1.0))) + np.float32(1e-8))  # the mean of the live is 2
    same(v, np.where(v_D == 0, oracle.DEAD, np.where(out_D, np.float32(0), p_D)).astype(np.float32))
    same(m, np.where(out_D, oracle.DEAD, m_D))
    same(kernels.server_start(v), np.where(out_D, oracle.DEAD, np.float32(0)))
    assert int(live) == 6


@backends
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_norm(backend, device, dtype):
    kernels, rng = backend_on(backend, device), np.random.default_rng(6)
    for dim in sizes_for(backend, device):
        grad = tensor(floats(rng, dim), dtype=dtype)
        grad = torch.where(torch.isfinite(grad), grad, torch.ones_like(grad))
        norm = torch.zeros(1, dtype=torch.float64, device=device)
        kernels.gradient_norm(grad.to(device), norm)
        exact = float((grad.double() ** 2).sum())
        assert abs(norm.item() - exact) <= 2 * rounding.gamma(dim + 1, "float64") * exact
        for bad in (float("nan"), float("inf"), -float("inf")):
            spoiled = grad.clone()
            spoiled[rng.integers(dim)] = bad
            kernels.gradient_norm(spoiled.to(device), norm)
            assert not np.isfinite(norm.item())


@backends
def test_a_skipped_step_changes_nothing(backend, device):
    """C8: with a NaN factor no kernel writes anything."""
    kernels, rng, dim = backend_on(backend, device), np.random.default_rng(7), 77
    layout = Layout(dim, 2)
    scalars = step_scalars(1.0, gradient_factor=float("nan"), device=device)
    random = lambda: tensor(floats(rng, dim), device)  # noqa: E731
    grad, u, p, x, m, v = (random() for _ in range(6))
    shared = oracle.message_of(layout, floats(rng, dim), [0.1, 0.2])
    exchange = oracle.exchange(layout, device, live=torch.tensor([3, 4]), shared=shared, received=shared)
    exchange.message.fill_(3)
    exchange.reply.fill_(7)
    worker = WorkerState(u, torch.tensor([0.5], device=device), torch.tensor([5], device=device))
    server = ServerState(random()[: layout.part_dim(1)], torch.tensor([0.25], device=device), chunk=1)
    state = [grad, p, x, m, v, *vars(worker).values(), server.w, server.w_scale, exchange.message, exchange.reply]
    state.append(exchange.shared)
    before = [t.clone() for t in state]
    kernels.compress(grad, worker, exchange, scalars, beta1=0.9, keep_old=True)
    kernels.server(server, exchange, scalars)
    kernels.apply(x, p, exchange, scalars)
    kernels.adam(x, m, v, grad, scalars, beta1=0.9, beta2=0.99, eps=1e-8)
    for old, new in zip(before, state, strict=True):
        same(old, new)
