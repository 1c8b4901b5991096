"""Gradients that lie in pieces: the kernels make the same bits of them as of a flat copy, and write back into them."""

from __future__ import annotations

import pytest
import torch

from gpu_impl import OneBitAdam
from gpu_impl.kernels.cpu.adam import adam
from gpu_impl.kernels.cpu.apply import apply
from gpu_impl.kernels.cpu.call import BLOCK, Launcher
from gpu_impl.kernels.cpu.compress import compress
from gpu_impl.kernels.cpu.decode import decode
from gpu_impl.kernels.cpu.gradient_norm import gradient_norm
from gpu_impl.kernels.cpu.server import server
from gpu_impl.kernels.layout import Layout, scales_of
from gpu_impl.kernels.pieces import Pieces
from gpu_impl.kernels.select import get_backend
from gpu_impl.kernels.state import Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import step_scalars

KERNELS = get_backend("cpu")
BASE = 16
SIZES = [5, 1000, 3, BLOCK, 40, 2 * BLOCK + 9, 1]
"""Smaller than a vector, larger than a block, and ending at odd places."""


def pieces_of(flat, sizes=SIZES, absent=()):
    """The same gradient in pieces, padded to multiples of 8; the flat one gets 0 where the pieces have nothing."""
    rows, tensors, start = [], [], 0
    for k, size in enumerate(sizes):
        piece = flat[start : start + size].clone()
        tensors.append(piece)
        rows.append([BASE + start, BASE + start + size, 0 if k in absent else piece.data_ptr()])
        stop, start = start + size, start + 8 * -(-size // 8)
        flat[stop:start] = 0
        if k in absent:
            flat[stop - size : stop] = 0
    return Pieces(torch.tensor(rows), BASE, flat.shape[0], flat.dtype), tensors


DIM = sum(8 * -(-size // 8) for size in SIZES)


def state(seed=0, n=3, dim=DIM):
    random = torch.Generator().manual_seed(seed)
    layout = Layout(dim, n)
    exchange = Exchange.alone(layout)
    exchange.shared.random_(0, 256, generator=random)
    scales_of(exchange.shared).uniform_(0.5, 1.5, generator=random)
    exchange.live.fill_(layout.chunk)
    u = torch.randn(dim, generator=random)
    u[::37] = -0.0
    return WorkerState(u, torch.full((1,), 0.7), torch.zeros(1, dtype=torch.int64)), exchange


def same(left, right):
    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("absent", [(), (1, 5)])
def test_pieces_are_read_like_a_flat_gradient(dtype, absent):
    flat = torch.randn(DIM, generator=torch.Generator().manual_seed(1)).to(dtype)
    pieces, _keep = pieces_of(flat, absent=absent)
    results = []
    for grad in (flat, pieces):
        norm = torch.zeros(1, dtype=torch.float64)
        KERNELS.gradient_norm(grad, norm)
        worker, exchange = state()
        KERNELS.compress(grad, worker, exchange, step_scalars(1e-3, gradient_factor=0.5), beta1=0.9)
        x, m, v = torch.ones(DIM), torch.ones(DIM), torch.ones(DIM)
        KERNELS.adam(x, m, v, grad, step_scalars(1e-3), beta1=0.9, beta2=0.99, eps=1e-8)
        results.append([norm, worker.u, worker.u_scale, worker.ignored, exchange.message, x, m, v])
    assert int(results[0][3]) > 0
    assert all(same(a, b) for a, b in zip(*results, strict=True))


def test_the_old_u_and_the_momentum_are_written_into_pieces():
    flat = torch.randn(DIM)
    pieces, tensors = pieces_of(flat)
    worker, exchange = state()
    old = worker.u.clone()
    KERNELS.compress(pieces, worker, exchange, step_scalars(1e-3), beta1=0.9, keep_old=True)
    rows = [(row[0] - BASE, row[1] - BASE) for row in pieces.table.tolist()]
    assert all(same(tensor, old[a:b]) for tensor, (a, b) in zip(tensors, rows, strict=True))
    marks = torch.ones(DIM)
    marks[::11] = -0.0
    for preconditioner in (marks, None):
        expected = torch.zeros(DIM)
        get_backend("torch").decode(exchange, preconditioner, expected)
        KERNELS.decode(exchange, preconditioner, pieces)
        assert all(same(tensor, expected[a:b]) for tensor, (a, b) in zip(tensors, rows, strict=True))
        assert (expected == 0).any() == (preconditioner is not None)


@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode_is_the_message_in_floats(backend, dtype):
    """Against the bits, one by one."""
    _, exchange = state(n=2)
    layout, marks = exchange.layout, torch.ones(DIM)
    marks[5::100] = -0.0
    marks[[9, DIM - 2]] = 0.0  # v has overflowed there: nothing is sent
    found = torch.ones(DIM, dtype=dtype)
    get_backend(backend).decode(exchange, marks, found)
    for i in [0, 5, 7, 8, 9, layout.chunk - 1, layout.chunk, DIM - 2, DIM - 1]:
        row = exchange.shared[i // layout.chunk]
        k = i % layout.chunk
        sign = 1 if int(row[k // 8]) >> k % 8 & 1 else -1
        expected = 0.0 if marks[i] == 0 else sign * scales_of(row)
        assert found[i] == torch.as_tensor(expected).to(dtype)


def call_of(kernel, seed):
    """Arguments of one call, on other values and another size for each seed."""
    worker, exchange = state(seed, dim=DIM - 8 * seed)
    random = torch.Generator().manual_seed(100 + seed)
    x, v, grad = (torch.rand(exchange.layout.dim, generator=random) + 0.5 for _ in range(3))
    w = torch.randn(exchange.layout.part_dim(seed), generator=random)
    step = step_scalars(0.1, 0.01 * seed, 0.3, 0.4)
    exchange.received.copy_(exchange.shared)
    return {
        "gradient_norm": {"grad": grad, "norm": torch.zeros(1, dtype=torch.float64)},
        "adam": {"params": x, "momentum": worker.u, "variance": v, "grad": grad, "step": step}
        | {"beta1": 0.9 - 0.1 * seed, "beta2": 0.99, "eps": 1e-8},
        "compress": {"grad": grad, "worker": worker, "exchange": exchange, "step": step, "beta1": 0.9},
        "server": {"server": ServerState(w, torch.ones(1), seed), "exchange": exchange, "step": step},
        "apply": {"params": x, "preconditioner": v, "exchange": exchange, "step": step},
        "decode": {"exchange": exchange, "preconditioner": v if seed else None, "values": grad},
    }[kernel]


def tensors_in(arguments):
    """What a call may write to."""
    for value in arguments.values():
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, WorkerState | ServerState | Exchange):
            yield from (tensor for tensor in vars(value).values() if isinstance(tensor, torch.Tensor))


@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("kernel", ["gradient_norm", "adam", "compress", "server", "apply", "decode"])
def test_prepared_calls_are_the_calls(backend, kernel):
    """Of every kernel: several buffers at once, again and again, with contents that change between."""
    kernels = get_backend(backend)
    many, alone = ([call_of(kernel, seed) for seed in range(3)] for _ in range(2))
    prepared = kernels.prepare(kernel, many)
    for _ in range(2):
        for calls in (many, alone):
            for arguments in calls:
                (arguments["exchange"].shared if kernel in ("apply", "decode") else next(tensors_in(arguments))).mul_(3)
        prepared()
        for arguments in alone:
            getattr(kernels, kernel)(**arguments)
    for mine, expected in zip(many, alone, strict=True):
        assert all(same(a, b) for a, b in zip(tensors_in(mine), tensors_in(expected), strict=True))


@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_a_server_without_elements_does_nothing(backend):
    empty = ServerState(torch.zeros(0), torch.zeros(1), 2)
    arguments = {"server": empty, "exchange": Exchange.alone(Layout(8, 3)), "step": step_scalars(1e-3)}
    get_backend(backend).prepare("server", [arguments])()
    assert not arguments["exchange"].reply.any()


LAUNCHERS = [adam, apply, compress, decode, gradient_norm, server]


@pytest.mark.parametrize("fields", ["too many", "too few"])
@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda launcher: launcher.name)
def test_a_record_of_another_size_than_in_c_is_refused(launcher, fields):
    """With one field too many the first call is right, and the second one reads what is not its own."""
    signature = launcher.signature + "p" if fields == "too many" else launcher.signature[:-2]
    wrong = Launcher(launcher.name, signature, lambda *_: (0,) * len(signature))
    with pytest.raises(TypeError, match=f"record of {launcher.name} has .* bytes here"):
        wrong.prepare([()])
    short = Launcher(launcher.name, launcher.signature, lambda *_: (0,) * (len(launcher.signature) - 1))
    with pytest.raises(TypeError, match=f"fields, got {len(launcher.signature) - 1}"):
        short.prepare([()])


def test_pieces_that_do_not_fit_are_refused():
    worker, exchange = state()
    pieces, _keep = pieces_of(torch.randn(DIM))
    short = Pieces(pieces.table, BASE, DIM - 8, torch.float32)
    with pytest.raises(ValueError, match="grad must have shape"):
        KERNELS.compress(short, worker, exchange, step_scalars(1e-3), beta1=0.9)
    double = Pieces(pieces.table, BASE, DIM, torch.float64)
    with pytest.raises(TypeError, match="grad must have dtype"):
        KERNELS.compress(double, worker, exchange, step_scalars(1e-3), beta1=0.9)


def test_a_gradient_may_have_any_strides():
    """Autograd gives those of the parameter; somebody who sets ``grad`` may give others."""
    ends = []
    for make in (torch.clone, lambda grad: grad.t().contiguous().t(), lambda grad: grad.repeat(1, 2)[:, :6]):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(4, 6)), torch.nn.Parameter(torch.randn(9))]
        optimizer = OneBitAdam(params, lr=0.1, freeze_step=2)
        for _ in range(5):
            params[0].grad, params[1].grad = make(torch.randn(4, 6)), torch.randn(9)
            optimizer.step()
        ends.append(torch.cat([param.detach().view(-1) for param in params]))
    assert same(ends[0], ends[1])
    assert same(ends[0], ends[2])
