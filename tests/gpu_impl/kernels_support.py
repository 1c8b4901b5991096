"""The oracle of the kernel tests: the lazy form in NumPy, written without the kernels and with the reference's bits.

Also which backends can be tested here, random states, and bitwise comparison.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from gpu_impl import Exchange, Layout, WorkerState, scales_of
from gpu_impl.benchmarks.rungs import rung
from reference.bits import pack_signs, unpack_signs

CUDA = torch.cuda.is_available()
HAS_TRITON = find_spec("triton") is not None
PAIRS = [("torch", "cpu"), ("cpu", "cpu")]
if HAS_TRITON and not CUDA:
    PAIRS += [("triton-v1", "cpu"), ("triton", "cpu")]  # interpreted
if CUDA:
    PAIRS += [("torch", "cuda"), ("triton-v1", "cuda"), ("triton", "cuda")]

backends = pytest.mark.parametrize(("backend", "device"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
scales = pytest.mark.parametrize("scale", ["l1", "l2"])

# around bytes, words, vectors, TILE and BLOCK of the cpu backend; the interpreter takes a millisecond a block
SIZES = [1, 7, 8, 9, 15, 17, 31, 33, 65, 257, 1023, 4097]
LARGE_SIZES = [16383, 16384, 16385, 3 * 16384 * 2 + 5]
WORKERS = [1, 2, 3, 8]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
DEAD = np.float32(-0.0)


def sizes_for(backend, device):
    return SIZES if backend.startswith("triton") and device == "cpu" else SIZES + LARGE_SIZES


def backend_on(backend, device):
    return rung(backend, device)


def same(a, b):
    """Bitwise equality of two float32 or integer arrays or tensors; the message shows the first difference."""
    a, b = (np.ascontiguousarray(bits_of(x)) for x in (a, b))
    assert a.shape == b.shape, (a.shape, b.shape)
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    differs = np.flatnonzero(a != b)
    assert differs.size == 0, (
        f"{differs.size} of {a.size} differ, first at {differs[0]}: {a[differs[0]]} {b[differs[0]]}"
    )


def bits_of(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = x.view(torch.int16).numpy() if x.element_size() == 2 and x.is_floating_point() else x.numpy()
    return x.view({4: np.int32, 8: np.int64}[x.itemsize]) if x.dtype.kind == "f" else x


def floats(rng, *shape, dead=None):
    """Normal numbers of very different size, some zeros of both signs; -0.0 only where ``dead`` (a mask) says so."""
    x = rng.standard_normal(shape).astype(np.float32) * np.float32(10) ** rng.integers(-6, 4, shape).astype(np.float32)
    x[rng.random(shape) < 0.02] *= np.float32(1e-38)  # subnormal, also in bfloat16
    x[rng.random(shape) < 0.05] = 0
    x += np.float32(0)
    if dead is not None:
        x[..., dead] = DEAD
    return x


def tensor(array, device="cpu", dtype=None):
    t = torch.from_numpy(np.array(array, order="C"))
    return t.to(device=device, dtype=dtype or t.dtype)


# --- the lazy form (docs/algorithm.md), one line a rounding ---


def is_dead(u_D):
    return u_D.view(np.int32) == np.iinfo(np.int32).min


def signs(u_D):
    """+1 and -1 as they are sent [C2]."""
    return np.where(u_D >= 0, np.float32(1), np.float32(-1))


def error(u_D, s):
    """delta = u - s sign(u), 0 where dead."""
    return np.where(is_dead(u_D), np.float32(0), u_D - np.float32(s) * signs(u_D))


def compress(g_D, u_D, s, momentum_D, beta1, factor=1.0):
    m_D = (1 - beta1) * (g_D * np.float32(factor)) + beta1 * momentum_D
    u_new_D = (m_D + error(u_D, s)) + np.float32(0)
    return np.where(is_dead(u_D), DEAD, u_new_D).astype(np.float32)


def first_compress(g_D, m_D, beta1):
    u_D = (1 - beta1) * g_D + beta1 * m_D + np.float32(0)
    return np.where(is_dead(m_D), DEAD, u_D).astype(np.float32)


def server(signs_NC, scales_N, w_C, s):
    total_C = np.zeros_like(w_C)
    for q_C, scale in zip(signs_NC, scales_N, strict=True):
        total_C = total_C + q_C * scale
    w_new_C = (total_C / len(signs_NC) + error(w_C, s)) + np.float32(0)
    return np.where(is_dead(w_C), DEAD, w_new_C).astype(np.float32)


def apply(x_D, p_D, momentum_D, lr, weight_decay, correction):
    moved_D = x_D - lr * (p_D * (momentum_D / correction) + weight_decay * x_D)
    return np.where(is_dead(p_D), x_D, moved_D).astype(np.float32)


def adam(x_D, m_D, v_D, g_D, *, lr, beta1, beta2, eps, weight_decay, corrections):
    m_D = beta1 * m_D + (1 - beta1) * g_D
    v_D = beta2 * v_D + (1 - beta2) * (g_D * g_D)
    p_D = 1 / (np.sqrt(v_D / corrections[1]) + eps)
    return x_D - lr * (p_D * (m_D / corrections[0]) + weight_decay * x_D), m_D, v_D


def scale_of(u_D, n_live, kind):
    """In float64; implementations may differ by the order of summation, so by one unit in the last place of float32."""
    u_D = u_D.astype(np.float64)
    mean = (np.abs(u_D) if kind == "l1" else u_D * u_D).sum() / max(n_live, 1)
    return np.float32(mean if kind == "l1" else np.sqrt(mean))


# --- messages ---


def message_of(layout, values_D, scales_N):
    """The message whose bits are the signs of ``values_D`` and whose rows carry ``scales_N``."""
    message = layout.message()
    for j in range(layout.n_chunks):
        bits = pack_signs(values_D[layout.part(j)])
        message[j, : len(bits)] = torch.from_numpy(bits)
    scales_of(message).copy_(torch.from_numpy(np.asarray(scales_N, np.float32)))
    return message


def worker(u_D, device="cpu", s=0.0, ignored=0):
    return WorkerState(
        tensor(u_D, device),
        torch.tensor([s], device=device),
        torch.full((1,), ignored, dtype=torch.int64, device=device),
    )


BESIDE = 16
"""Bytes of another buffer's message, before and behind each row of a joint one."""
OTHER = 0xA5


def exchange(layout, device="cpu", *, live=None, shared=None, received=None, joint=False):
    """Messages with these contents; ``joint``: the rows are columns of longer rows."""
    n_workers = layout.n_chunks if received is None else received.shape[0]

    def rows(n, contents=None):
        width = layout.row_bytes + 2 * BESIDE * joint
        whole = torch.full((n, width), OTHER if joint else 0, dtype=torch.uint8, device=device)
        part = whole[:, BESIDE : BESIDE + layout.row_bytes] if joint else whole
        part.copy_(torch.zeros(n, layout.row_bytes) if contents is None else contents)
        return part

    counts = torch.zeros(layout.n_chunks * layout.n_blocks, dtype=torch.int64) if live is None else live
    message, reply, gathered = rows(layout.n_chunks), rows(1)[0], rows(layout.n_chunks, shared)
    return Exchange(layout, counts.to(device), message, rows(n_workers, received), reply, gathered)


def nothing_beside(made):
    """What lies beside the rows of a joint exchange is as it was."""
    whole = made.message._base
    if whole is not None:
        assert (whole[:, :BESIDE] == OTHER).all()
        assert (whole[:, -BESIDE:] == OTHER).all()


def decoded(layout, message):
    message = message.cpu()
    parts = [
        unpack_signs(message[j].numpy(), layout.part_dim(j), scales_of(message)[j].numpy())
        for j in range(layout.n_chunks)
    ]
    return np.concatenate(parts).astype(np.float32)


def live_counts(layout, dead_D):
    return torch.tensor([int((~dead_D[layout.part(j)]).sum()) for j in range(layout.n_chunks)], dtype=torch.int64)


def layout_of(dim, n_chunks):
    return Layout(dim, n_chunks)


def changed_copy(params, dtype):
    """A 16-bit copy of ``params`` of which somebody has changed elements, and the float32 x that a kernel must see."""
    copy = params.to(dtype)
    copy[::5] += 1
    if copy.shape[0] > 7:
        copy[7] = torch.finfo(dtype).smallest_normal / 4
    return copy, torch.where(copy == params.to(dtype), params, copy.float())
