"""scale_block [C13] in the kernels: every backend against NumPy, lazy = eager, the wire, what is refused."""

from __future__ import annotations

from typing import Any

import kernels_support as oracle
import numpy as np
import pytest
import torch
from kernels_support import HAS_TRITON, WORKERS, backend_on, backends, floats, same, scales, tensor
from test_kernels import BETA1, close_scale
from test_lazy_is_eager import run

from gpu_impl import Layout, ServerState, WorkerState, get_backend, step_scalars
from gpu_impl.benchmarks.byte_floor import byte_floor
from gpu_impl.benchmarks.form import Form
from gpu_impl.harness.simulation import Hyperparameters, Simulation
from gpu_impl.kernels.cpu import CpuBackend, build, call
from gpu_impl.kernels.layout import by_element, in_blocks, scales_of
from reference.bits import pack_signs

SIZES = [(1, 8), (7, 8), (33, 8), (65, 24), (257, 32), (257, 40), (1023, 1024), (4097, 1000), (4097, 3072)]
LARGE_SIZES = [(16385, 40), (50_000, 16384), (3 * 16384 * 2 + 5, 16392), (99_999, 40_000)]
"""D and B: below and above a vector of 16 lanes, a word, a tile, a task; in whole words or not."""


def sizes_for(backend):
    return SIZES if backend.startswith("triton") else SIZES + LARGE_SIZES


pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
HERE = [pair for pair in oracle.PAIRS if pair[0] != "triton-v1"]
blocked = pytest.mark.parametrize(("backend", "device"), HERE, ids=["-".join(pair) for pair in HERE])


def blocks_of(layout, part):
    """Slices of the blocks of a chunk."""
    return [slice(k, min(k + layout.block, part.stop)) for k in range(part.start, part.stop, layout.block)]


def by_block(layout, values_D):
    """One random scale a block, as (N, K) for the messages and a worker, and for each element (D,)."""
    scales_NK = np.zeros((layout.n_chunks, layout.n_blocks), np.float32)
    scale_D = np.zeros(layout.dim, np.float32)
    for j in range(layout.n_chunks):
        for k, block in enumerate(blocks_of(layout, layout.part(j))):
            scales_NK[j, k] = scale_D[block] = values_D[block.start]
    return scales_NK, scale_D


def message_of(layout, values_D, scales_NK):
    message = layout.message()
    for j in range(layout.n_chunks):
        bits = pack_signs(values_D[layout.part(j)])
        message[j, : len(bits)] = torch.from_numpy(bits)
    scales_of(message, layout.n_blocks).copy_(torch.from_numpy(scales_NK))
    return message


def live_counts(layout, dead_D):
    counts = torch.zeros(layout.n_chunks, layout.n_blocks, dtype=torch.int64)
    for j in range(layout.n_chunks):
        for k, block in enumerate(blocks_of(layout, layout.part(j))):
            counts[j, k] = int((~dead_D[block]).sum())
    return counts.view(-1)


def error(u_D, scale_D):
    return np.where(oracle.is_dead(u_D), np.float32(0), u_D - scale_D * oracle.signs(u_D))


@pytest.mark.one_in(4)
@blocked
@scales
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("joint", "dtype"), [(True, torch.float32), (False, torch.bfloat16)])
@pytest.mark.parametrize("in_updates", [False, True])
def test_compress(backend, device, scale, first, joint, dtype, in_updates):
    """Also the update form; ``joint``: rows are columns of longer ones, and the old u is kept in the gradient."""
    kernels, rng = backend_on(backend, device), np.random.default_rng(1)
    for case, (dim, size) in enumerate(sizes_for(backend)):
        n = WORKERS[case % len(WORKERS)]
        layout, dead_D = Layout(dim, n, size), rng.random(dim) < 0.2 * (case % 2)
        grad, p_D = tensor(floats(rng, dim), dtype=dtype), np.abs(floats(rng, dim)) + np.float32(1e-3)
        u_D = floats(rng, dim, dead=dead_D)
        u_scales_NK, u_scale_D = by_block(layout, rng.random(dim).astype(np.float32))
        shared_NK, shared_D = by_block(layout, rng.random(dim).astype(np.float32))
        momentum_D = floats(rng, dim)
        shared = message_of(layout, momentum_D, shared_NK)
        live, g_D = live_counts(layout, dead_D), grad.float().numpy()
        input_D = (g_D * np.float32(0.37)) * (p_D if in_updates else np.float32(1))
        if first:
            new_D = (1 - BETA1) * input_D + BETA1 * u_D + np.float32(0)
        else:
            decoded_D = shared_D * oracle.signs(momentum_D)
            new_D = ((1 - BETA1) * input_D + BETA1 * decoded_D + error(u_D, u_scale_D)) + np.float32(0)
        new_D = np.where(dead_D, oracle.DEAD, new_D).astype(np.float32)

        ignored = torch.full((1,), 5, dtype=torch.int64, device=device)
        worker = WorkerState(tensor(u_D, device), tensor(u_scales_NK.reshape(-1), device), ignored)
        exchange = oracle.exchange(layout, device, live=live, shared=shared, joint=joint)
        g, keep_old = grad.to(device, copy=True), joint and dtype == torch.float32
        options = {"beta1": BETA1, "scale": scale, "first": first, "keep_old": keep_old}
        options["preconditioner"] = tensor(p_D, device) if in_updates else None
        kernels.compress(g, worker, exchange, step_scalars(1.0, gradient_factor=0.37, device=device), **options)
        same(worker.u, new_D)
        same(g, u_D if keep_old else grad)
        assert int(worker.ignored) == 5 + int((dead_D & (g_D != 0)).sum())
        sent_NK = worker.u_scale.cpu().view(layout.n_chunks, -1)
        for j in range(n):
            for k, block in enumerate(blocks_of(layout, layout.part(j))):
                close_scale(sent_NK[j, k].item(), new_D[block], int(live.view(n, -1)[j, k]), scale)
        same(exchange.message, message_of(layout, new_D, sent_NK.numpy()))
        oracle.nothing_beside(exchange)


@blocked
@scales
@pytest.mark.parametrize("joint", [False, True])
def test_server(backend, device, scale, joint):
    kernels, rng = backend_on(backend, device), np.random.default_rng(2)
    for case, (dim, size) in enumerate(sizes_for(backend)):
        n, chunk = WORKERS[case % len(WORKERS)], case % 3
        layout = Layout(3 * dim, 3, size)
        part, dead_D = layout.part(chunk), rng.random(3 * dim) < 0.2 * (case % 2)
        total_D, rows = np.zeros(3 * dim, np.float32), []
        for _ in range(n):
            scales_NK, scale_D = by_block(layout, rng.random(3 * dim).astype(np.float32))
            q_D = floats(rng, 3 * dim)
            rows.append(message_of(layout, q_D, scales_NK)[chunk])
            total_D = total_D + scale_D * oracle.signs(q_D)
        w_D, (w_scales_NK, w_scale_D) = floats(rng, 3 * dim, dead=dead_D), by_block(layout, floats(rng, 3 * dim))
        new_D = (total_D / n + error(w_D, w_scale_D)) + np.float32(0)
        new_D = np.where(dead_D, oracle.DEAD, new_D).astype(np.float32)

        live = live_counts(layout, dead_D)
        server = ServerState(tensor(w_D[part], device), tensor(w_scales_NK[chunk], device), chunk)
        exchange = oracle.exchange(layout, device, live=live, received=torch.stack(rows), joint=joint)
        kernels.server(server, exchange, step_scalars(1.0, device=device), scale=scale)
        same(server.w, new_D[part])
        counts = live.view(3, -1)[chunk]
        for k, block in enumerate(blocks_of(layout, part)):
            close_scale(server.w_scale[k].item(), new_D[block], int(counts[k]), scale)
        whole = np.zeros((3, layout.n_blocks), np.float32)
        whole[chunk] = server.w_scale.cpu().numpy()
        same(exchange.reply, message_of(layout, new_D, whole)[chunk])
        oracle.nothing_beside(exchange)


@blocked
@pytest.mark.parametrize("form", ["momentum", "update", "update, some dead"])
def test_apply_and_decode(backend, device, form):
    kernels, rng = backend_on(backend, device), np.random.default_rng(3)
    for case, (dim, size) in enumerate(sizes_for(backend)):
        n = WORKERS[case % len(WORKERS)]
        layout, dead_D = Layout(dim, n, size), rng.random(dim) < 0.2 * (form != "update")
        x_D, p_D, m_D = floats(rng, dim), np.abs(floats(rng, dim)) + np.float32(1e-3), floats(rng, dim)
        p_D[dead_D] = oracle.DEAD
        scales_NK, scale_D = by_block(layout, rng.random(dim).astype(np.float32))
        exchange = oracle.exchange(layout, device, shared=message_of(layout, m_D, scales_NK), joint=True)
        momentum_D = scale_D * oracle.signs(m_D)
        ones_D = np.where(dead_D, oracle.DEAD, np.float32(1))
        copy, seen = oracle.changed_copy(torch.from_numpy(x_D), torch.bfloat16)
        expected_D = oracle.apply(
            seen.numpy(), p_D if form == "momentum" else ones_D, momentum_D, np.float32(0.01), 0.1, np.float32(0.271)
        )
        x, copy = tensor(x_D, device), copy.to(device)
        live = torch.from_numpy(np.packbits(~dead_D, bitorder="little")).to(device)
        options = {"live_bits": live} if form == "update, some dead" else {}
        p = tensor(p_D, device) if form == "momentum" else None
        kernels.apply(x, p, exchange, step_scalars(0.01, 0.1, 0.271, device=device), params_copy=copy, **options)
        same(x, expected_D)
        same(copy, torch.from_numpy(expected_D).bfloat16())
        values = torch.zeros(dim, device=device)
        kernels.decode(exchange, tensor(p_D, device), values)
        same(values, np.where(dead_D, np.float32(0), momentum_D))


@blocked
def test_a_skipped_step_changes_nothing(backend, device):
    kernels, rng, layout = backend_on(backend, device), np.random.default_rng(7), Layout(77, 2, 8)
    u, w, x, grad = (tensor(floats(rng, 77), device) for _ in range(4))
    ignored = torch.tensor([5], device=device)
    worker = WorkerState(u, torch.rand(layout.n_scales).to(device), ignored)
    server = ServerState(w[: layout.part_dim(1)].clone(), torch.rand(layout.n_blocks).to(device), 1)
    exchange = oracle.exchange(layout, device, live=torch.full((2 * layout.n_blocks,), 3))
    for rows in (exchange.message, exchange.reply, exchange.shared, exchange.received):
        rows.fill_(7)
    state = [grad, x, *vars(worker).values(), server.w, server.w_scale, exchange.message, exchange.reply]
    before = [one.clone() for one in state]
    scalars = step_scalars(1.0, gradient_factor=float("nan"), device=device)
    kernels.compress(grad, worker, exchange, scalars, beta1=0.9, keep_old=True)
    kernels.server(server, exchange, scalars)
    kernels.apply(x, torch.ones_like(x), exchange, scalars)
    for old, new in zip(before, state, strict=True):
        same(old, new)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("compress", ["momentum", "update"])
@pytest.mark.parametrize(("n_workers", "scale_block"), [(1, 8), (2, 24), (3, 40), (8, 64), (3, 1024)])
def test_lazy_is_eager(backend, compress, n_workers, scale_block):
    """300 steps of the reference, bit for bit: a freeze, a NaN, gradients at dead coordinates; both scales."""
    more = {"scale": "l1" if n_workers == 2 else "l2", "bias_correction": n_workers == 8}
    hyper = {"lr": 1e-2, "freeze_step": 10, "scale_block": scale_block, "compress": compress, **more}
    run(backend, "cpu", 333, n_workers, 300, **hyper)


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("compress", ["momentum", "update"])
@pytest.mark.parametrize("scale_block", [24, 32])
def test_lazy_is_eager_triton(compress, scale_block):
    device = "cuda" if oracle.CUDA else "cpu"
    run("triton", device, 70, 2, 24, lr=1e-2, freeze_step=9, scale_block=scale_block, compress=compress)


@pytest.mark.parametrize("dim", [70, 300, 5000])
def test_one_block_a_worker_is_no_block(dim):
    """On one worker one block as long as the buffer is the published algorithm."""
    runs = []
    for scale_block in (None, 8 * -(-dim // 8)):
        generator = torch.Generator().manual_seed(0)
        params = torch.randn(dim, generator=generator)
        hyper = Hyperparameters(lr=1e-2, freeze_step=3, scale_block=scale_block)
        simulation = Simulation(get_backend("cpu"), params, 1, hyper)
        for _ in range(8):
            simulation.step([torch.randn(dim, generator=generator)])
        runs.append([params, simulation.momentum_D(), simulation.worker_errors_ND(), simulation.server_error_D()])
    for one, other in zip(*runs, strict=True):
        same(one, other)


@pytest.mark.parametrize("dim", [1, 8, 100, 4097])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("scale_block", [8, 40, 1024])
def test_layout(dim, n, scale_block):
    """Counted from the start of each chunk; D/8 + 4 ceil(D/B) bytes but for the padding of rows and chunks."""
    layout = Layout(dim, n, scale_block)
    numbers = torch.arange(1, layout.n_scales + 1).float()
    by_hand = np.zeros(dim, np.float32)
    for i in range(dim):
        j = i // layout.chunk
        by_hand[i] = 1 + j * layout.n_blocks + (i - j * layout.chunk) // scale_block
    if layout.n_scales > 1:
        same(by_element(numbers, layout, dim), by_hand)
    assert in_blocks(torch.ones(dim), layout, n).sum(dim=1).tolist() == [
        float((by_hand == 1 + k).sum()) for k in range(layout.n_scales)
    ]
    least = layout.chunk / 8 + 4 * -(-layout.chunk // scale_block)
    assert 0 <= layout.row_bytes - least < 16 + 4
    rows = layout.message()
    assert scales_of(rows, layout.n_blocks).shape == (n, layout.n_blocks)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scale_block", [None, 40, 65536])
def test_threads_don_t_change_a_bit(threads, scale_block):
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (2, threads):
            torch.set_num_threads(n_threads)
            results.append(steps_of(get_backend("cpu"), 9 * 16384 + 5, scale_block))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        same(one, other)


def steps_of(kernels, dim, scale_block, compress="update"):
    """The state after some steps."""
    generator = torch.Generator().manual_seed(0)
    params = torch.randn(dim, generator=generator)
    hyper = Hyperparameters(lr=1e-2, freeze_step=2, weight_decay=0.1, scale_block=scale_block, compress=compress)
    simulation = Simulation(kernels, params, 3, hyper)
    for _ in range(5):
        grads = [torch.randn(dim, generator=generator).half() for _ in range(3)]
        for grad in grads:
            grad[::7] = 0
        simulation.step(grads)
    return [params, simulation.worker_errors_ND(), simulation.server_error_D(), *simulation.scales()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("machine", ["-march=x86-64-v3", "-march=x86-64"])
def test_other_instruction_sets_give_the_same_bits(machine, tmp_path, monkeypatch):
    """Eight lanes by AVX2 and by SSE2 in place of what this processor has."""
    if build.platform.machine() != "x86_64":
        pytest.skip("flags of x86-64")
    compiler = build.shutil.which("cc") or pytest.skip("no compiler")
    file, torch_ = tmp_path / "kernels.so", get_backend("torch")
    cases = [(scale_block, form) for scale_block in (None, 8, 40, 1024) for form in ("momentum", "update")]
    expected = [steps_of(torch_, 1021, *case) for case in cases]
    monkeypatch.setattr(build, "ATTEMPTS", ((machine,),))
    build.compile_library(compiler, sorted(build.SOURCES.glob("*.c")), file)
    other, asked = build.ctypes.CDLL(str(file)), []
    monkeypatch.setattr(call, "library", lambda: asked.append(1) or other)
    call.kernel.cache_clear()
    try:
        for wanted, case in zip(expected, cases, strict=True):
            for one, another in zip(wanted, steps_of(CpuBackend(), 1021, *case), strict=True):
                same(one, another)
    finally:
        call.kernel.cache_clear()
    assert asked


@backends
def test_what_is_refused(backend, device):
    kernels = backend_on(backend, device)
    wrongs: list[Any] = [0, 12, -8, 8.0, True, "64", 2**63]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"scale_block must be None or a positive multiple of 8( below 2\^63)?,"):
            Layout(100, 2, wrong)
    layout = Layout(40, 2, 8)
    exchange, step = oracle.exchange(layout, device), step_scalars(1.0, device=device)
    grad = torch.ones(40, device=device)
    worker = WorkerState(grad.clone(), torch.ones(2, device=device), torch.zeros(1, dtype=torch.int64, device=device))
    server = ServerState(grad[:24].clone(), torch.ones(1, device=device), 0)
    has = "scale_block" in kernels.extensions
    says = (
        r"u_scale must have shape \(6,\), as the layout has scales, got \(2,\)" if has else "has no scale_block=8: use"
    )
    with pytest.raises(ValueError, match=says):
        kernels.compress(grad, worker, exchange, step, beta1=0.9)
    with pytest.raises(ValueError, match=r"w_scale must have shape \(3,\)" if has else "has no scale_block=8: use"):
        kernels.server(server, exchange, step)
    with pytest.raises(ValueError, match=r"live must have shape \(6,\)"):
        oracle.exchange(layout, device, live=torch.zeros(2, dtype=torch.int64))
    assert has == (backend != "triton-v1")


def test_the_byte_floor_counts_the_scales():
    for n in (1, 8):
        assert byte_floor("step", n) == 24.5 + 8.125 / n
        assert byte_floor("step", n, form=Form(scale_block=64)) == 24.5 + 8.125 / n + (16 + 4 + 4) / 64 + 12 / (64 * n)
        assert byte_floor("compress", n, form=Form("update", 32)) == 16.25 + 16 / 32
        assert byte_floor("apply", n, form=Form("update")) == 8.125
