"""The fused kernels of 0/1 Adam and LAMB against NumPy: bitwise, all dtypes, sizes around every boundary."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kernels_support import DTYPES, PAIRS, backend_on, changed_copy, floats, same, sizes_for, tensor

from gpu_impl import step_scalars
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.pieces import Pieces
from theory import rounding

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
LR, DECAY = 1e-2, 0.1
ROOTS = rounding.gamma(12, "float64")
"""Between two ratios of sums with roots: MKL's roots are within a unit in the last place, so 2 + 2 roundings, and 3 of
the sums and the quotient; NumPy's is 5 roundings."""
NARROW = [None, torch.bfloat16, torch.float16]


def positive(rng, dim):
    """v: some 0, one that has overflowed."""
    v_D = floats(rng, dim) ** 2
    v_D[rng.random(dim) < 0.1] = 0
    if dim > 4:
        v_D[3] = np.inf
    return v_D


def copied(params, copy_dtype):
    """A 16-bit copy, changed in places, or none; and x as a kernel must see it."""
    if copy_dtype is None:
        return None, params
    return changed_copy(params, copy_dtype)


def walked_on(x_D, w_D, m_D, u_D, v_D, g_D, factor, floor):
    """One line a rounding."""
    m_D = np.float32(BETA1) * m_D + np.float32(1 - BETA1) * (g_D * np.float32(factor))
    u_D = u_D + np.float32(LR) * m_D
    p_D = 1 / (np.sqrt(np.maximum(v_D, np.float32(floor))) + np.float32(EPS))
    w_D = w_D + np.float32(LR) * (p_D * m_D + np.float32(DECAY) * x_D)
    w_D = np.where((v_D > 0) & np.isfinite(v_D), w_D, np.float32(0))
    return x_D - w_D, w_D, m_D, u_D


RUNGS = [pair for pair in PAIRS if pair[0] != "triton-v1"]  # that one has the tuned kernels here
backends = pytest.mark.parametrize(("backend", "device"), RUNGS, ids=["-".join(pair) for pair in RUNGS])


@backends
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("copy_dtype", NARROW)
def test_walk(backend, device, dtype, copy_dtype):
    kernels, rng = backend_on(backend, device), np.random.default_rng(2)
    for dim in sizes_for(backend, device):
        met_D, w_D, m_D, u_D = (floats(rng, dim) + np.float32(0) for _ in range(4))
        v_D = positive(rng, dim)
        grad = tensor(floats(rng, dim), device, dtype)
        g_D = grad.float().cpu().numpy()
        expected = walked_on(met_D, w_D, m_D, u_D, v_D, g_D, 0.5, 1e-3)
        params = torch.full((dim,), torch.nan, device=device)  # x_i is not read
        met, w, m, u, v = (tensor(row, device) for row in (met_D, w_D, m_D, u_D, v_D))
        ignored, floor = torch.tensor([5], device=device), torch.tensor([1e-3], device=device)
        copy = None if copy_dtype is None else params.to(copy_dtype)
        for factor in (float("nan"), 0.5):  # skipped, then taken
            step = step_scalars(LR, DECAY, gradient_factor=factor, device=device)
            kernels.walk(params, met, w, m, u, v, grad, step, ignored, floor, beta1=BETA1, eps=EPS, params_copy=copy)
            if np.isnan(factor):
                assert params.isnan().all()
                same(w, w_D)
                assert int(ignored) == 5
        for ours, theirs in zip((params, w, m, u), expected, strict=True):
            same(ours.cpu().numpy() + np.float32(0), theirs + np.float32(0))
        same(met, met_D)
        dead_D = ~((v_D > 0) & np.isfinite(v_D))
        assert int(ignored) == 5 + np.count_nonzero(dead_D & (g_D != 0))
        if copy is not None:
            same(copy, tensor(expected[0]).to(copy_dtype))


LAYERED = (2048, 40000)
"""More elements, with layers that are aligned; one of several tiles, and one of several parts."""


def cut(dim):
    """Layers of very different size; aligned ones, which are read 16 bytes at a time, where D lets them be."""
    sizes = [1, 8, 3, 40] if dim % 8 else [8, 40, 16, 1024]
    while sum(sizes) > dim:
        sizes.pop()
    rest = dim - sum(sizes)
    return [*sizes, rest] if rest else sizes


def lamb_update(x_D, m_D, v_D, corrections):
    p_D = 1 / (np.sqrt(v_D / np.float32(corrections[1])) + np.float32(EPS))
    return p_D * (m_D / np.float32(corrections[0])) + np.float32(DECAY) * x_D


@pytest.mark.one_in(4)
@backends
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("copy_dtype", NARROW)
@pytest.mark.parametrize("corrections", [(1.0, 1.0), (0.19, 0.002)])
def test_lamb(backend, device, dtype, copy_dtype, corrections):
    """m, v and x bitwise; the sums of squares within what an order of summation in float64 allows."""
    kernels, rng = backend_on(backend, device), np.random.default_rng(3)
    for dim in (*sizes_for(backend, device), *LAYERED):
        m_D, v_D = floats(rng, dim) + np.float32(0), np.abs(floats(rng, dim)) + np.float32(1)  # x fits into 16 bits
        grad = tensor(floats(rng, dim), device, dtype)
        copy, params = copied(tensor(floats(rng, dim) + np.float32(0)), copy_dtype)
        x_D, held = params.numpy().copy(), params.to(device)
        if copy is not None:
            copy = copy.to(device)
        g_D = grad.float().cpu().numpy() * np.float32(0.5)
        new_m_D = np.float32(BETA1) * m_D + np.float32(1 - BETA1) * g_D
        new_v_D = np.float32(BETA2) * v_D + np.float32(1 - BETA2) * (g_D * g_D)
        update_D = lamb_update(x_D, new_m_D, new_v_D, corrections)
        layers = Layers.of(cut(dim), device)
        trust_L = rng.random(len(layers.sizes)).astype(np.float32)
        trust = tensor(trust_L, device)
        moved_D = x_D - np.float32(LR) * (update_D * np.repeat(trust_L, layers.sizes))

        m, v = tensor(m_D, device), tensor(v_D, device)
        squares = torch.empty(len(layers.sizes), 2, dtype=torch.float64, device=device)
        own = {"eps": EPS, "params_copy": copy}
        skip = step_scalars(LR, DECAY, *corrections, float("nan"), device=device)
        kernels.lamb_moments(held, m, v, grad, skip, layers, squares, beta1=BETA1, beta2=BETA2, **own)
        kernels.lamb_move(held, m, v, skip, layers, trust, **own)
        same(m, m_D)
        same(v, v_D)
        same(held, x_D)
        step = step_scalars(LR, DECAY, *corrections, 0.5, device=device)
        kernels.lamb_moments(held, m, v, grad, step, layers, squares, beta1=BETA1, beta2=BETA2, **own)
        same(m, new_m_D)
        same(v, new_v_D)
        starts = np.cumsum([0, *layers.sizes])[:-1]
        for column, values in enumerate((x_D, update_D)):
            exact = np.add.reduceat(values.astype(np.float64) ** 2, starts)
            allowed = 2 * rounding.gamma(max(layers.sizes), "float64") * exact
            assert (np.abs(squares[:, column].cpu().numpy() - exact) <= allowed).all()
        kernels.lamb_move(held, m, v, step, layers, trust, **own)
        same(held, moved_D)
        if copy is not None:
            same(copy, tensor(moved_D).to(copy_dtype))


@pytest.mark.one_in(3)
@backends
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_a_compressed_step_of_lamb(backend, device, dtype, factor):
    """What is sent, m-bar, v' and the ratios bitwise; dead coordinates and a v that has overflowed among them."""
    kernels, rng = backend_on(backend, device), np.random.default_rng(6)
    for dim in (*sizes_for(backend, device), *LAYERED):
        m_D, fresh_D, average_D = floats(rng, dim), np.abs(floats(rng, dim)), floats(rng, dim)
        v_D, dead_D = np.abs(floats(rng, dim)) + np.float32(1e-6), rng.random(dim) < 0.2
        v_D[dead_D] = 0
        v_D[-1] = np.inf
        u_D = np.where(dead_D, np.float32(-0.0), floats(rng, dim) + np.float32(0))
        grad, layers = tensor(floats(rng, dim), device, dtype), Layers.of(cut(dim), device)
        g_D = grad.float().cpu().numpy() * np.float32(factor)
        scale_L = (rng.random(len(layers.sizes)) + 0.1).astype(np.float32)
        scale_D, trust_L = np.repeat(scale_L, layers.sizes), rng.random(len(layers.sizes)).astype(np.float32)
        wanted_D = scale_D * (np.float32(BETA1) * m_D + np.float32(1 - BETA1) * g_D)
        mean_D = np.where(dead_D, np.float32(0), average_D) / scale_D
        rebuilt_D = (mean_D - np.float32(BETA1) * m_D) / np.float32(1 - BETA1)
        new_D = np.float32(BETA2) * fresh_D + np.float32(1 - BETA2) * (rebuilt_D * rebuilt_D)
        with np.errstate(invalid="ignore"):
            ratio_D = (np.sqrt(v_D.astype(np.float64)) + EPS) / (np.sqrt(new_D.astype(np.float64)) + EPS)
        ratio_D[dead_D | ~np.isfinite(v_D)] = 0
        starts = np.cumsum([0, *layers.sizes])[:-1]

        u, m, v, buffer, fresh, scale = (tensor(one, device) for one in (u_D, m_D, v_D, average_D, fresh_D, scale_L))
        ignored = torch.zeros(1, dtype=torch.int64, device=device)
        formed = torch.empty_like(buffer)
        kernels.lamb_form(u, m, formed, grad, layers, scale, ignored, factor=factor, beta1=BETA1)
        same(formed, np.where(dead_D, np.float32(0), wanted_D))
        assert int(ignored) == int((dead_D & (g_D != 0)).sum())
        largest = torch.empty(len(layers.sizes), dtype=torch.float64, device=device)
        own = {"beta1": BETA1, "beta2": BETA2, "eps": EPS}
        kernels.lamb_refresh(u, m, fresh, buffer, v, layers, scale, largest, **own)
        same(m, mean_D)
        same(fresh, new_D)
        expected_L = np.maximum.reduceat(ratio_D, starts)
        if backend == "torch":  # MKL's roots, also those in float64, are within a unit in the last place
            np.testing.assert_allclose(largest.cpu().numpy(), expected_L, rtol=ROOTS, atol=0)
        else:
            assert largest.tolist() == expected_L.tolist()

        for correction in (1.0, 0.002):
            x_D = floats(rng, dim) + np.float32(0)
            x, step = tensor(x_D, device), step_scalars(LR, DECAY, 0.19, 0.7, 1.0, device=device)
            kernels.lamb_move(x, m, v, step, layers, tensor(trust_L, device), eps=EPS, frozen_correction=correction)
            update_D = lamb_update(x_D, mean_D, v_D, (0.19, correction))
            moved_D = x_D - np.float32(LR) * (update_D * np.repeat(trust_L, layers.sizes))
            same(x, np.where(v_D == 0, x_D, moved_D))


@backends
def test_a_ratio_that_is_no_number_is_not_lost(backend, device):
    """A maximum that drops NaN would hide a v' that is none: wherever it stands, the layer's ratio is NaN."""
    kernels = backend_on(backend, device)
    for place in (0, 7, 20, 39):
        u, m, v, buffer = (torch.full((40,), 0.5, device=device) for _ in range(4))
        fresh, layers = torch.ones(40, device=device), Layers.of([40, 0, 0] if place == 7 else [40], device)
        fresh[place] = float("nan")
        largest = torch.zeros(len(layers.sizes), dtype=torch.float64, device=device)
        own = {"beta1": BETA1, "beta2": BETA2, "eps": EPS}
        kernels.lamb_refresh(
            u, m, fresh, buffer, v, layers, torch.ones(len(layers.sizes), device=device), largest, **own
        )
        assert largest[0].isnan()


def test_gradients_in_pieces():
    """Where autograd left them, with a gap of padding, which counts as 0."""
    kernels, rng, dim = backend_on("cpu", "cpu"), np.random.default_rng(4), 40000
    one, other = (tensor(floats(rng, n)) for n in (17000, 22000))
    table = torch.tensor([[0, 17000, one.data_ptr()], [17008, 39008, other.data_ptr()]])
    whole = torch.zeros(dim)
    whole[:17000], whole[17008:39008] = one, other
    layers = Layers.of([17008, dim - 17008])
    step = step_scalars(LR, DECAY)
    for grads in [(Pieces(table, 0, dim, torch.float32), whole)]:
        found = []
        for grad in grads:
            x, m, v, w, u = (tensor(row) for row in np.abs(floats(np.random.default_rng(5), 5, dim)))
            squares, ignored, floor = (
                torch.empty(2, 2, dtype=torch.float64),
                torch.zeros(1, dtype=torch.int64),
                torch.ones(1),
            )
            kernels.lamb_moments(x, m, v, grad, step, layers, squares, beta1=BETA1, beta2=BETA2, eps=EPS)
            kernels.walk(x, x.clone(), w, m, u, v, grad, step, ignored, floor, beta1=BETA1, eps=EPS)
            formed, scale = torch.empty(dim), torch.tensor([0.5, 2.0])
            kernels.lamb_form(u, m, formed, grad, layers, scale, ignored, factor=0.5, beta1=BETA1)
            found.append((x, m, v, w, u, squares.float(), formed))
        for a, b in zip(*found, strict=True):
            same(a, b)


def test_wrong_arguments_are_refused():
    kernels, rows = backend_on("cpu", "cpu"), [torch.ones(8) for _ in range(7)]
    step, count, floor = step_scalars(LR), torch.zeros(1, dtype=torch.int64), torch.zeros(1)
    with pytest.raises(ValueError, match=r"walked must have shape \(8,\), got \(9,\)"):
        kernels.walk(*rows[:2], torch.ones(9), *rows[3:6], rows[6], step, count, floor, beta1=BETA1, eps=EPS)
    with pytest.raises(ValueError, match="layers must have 8 elements together, got 9"):
        kernels.lamb_move(*rows[:3], step, Layers.of([4, 5]), torch.ones(2), eps=EPS)
    with pytest.raises(ValueError, match=r"trust must have shape \(2,\)"):
        kernels.lamb_move(*rows[:3], step, Layers.of([4, 4]), torch.ones(3), eps=EPS)
    with pytest.raises(TypeError, match=r"squares must have dtype torch\.float64"):
        kernels.lamb_moments(*rows[:4], step, Layers.of([8]), torch.ones(1, 2), beta1=0.9, beta2=0.9, eps=EPS)
