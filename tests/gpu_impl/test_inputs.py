"""Bad input is refused, in one sentence, before anything is written; offsets beyond 2^31; the fallback is told."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kernels_support import CUDA, HAS_TRITON, PAIRS, backend_on, backends, same

import gpu_impl
from gpu_impl import Exchange, Layout, ServerState, WorkerState, get_backend, scales_of, step_scalars
from gpu_impl.kernels.cpu import build


class Call:
    """Arguments of a compress, server, apply or adam call that is right until one of them is replaced."""

    def __init__(self, device):
        self.layout = Layout(40, 2)
        tensors = {name: torch.ones(40, device=device) for name in ("grad", "u", "params", "preconditioner")}
        tensors |= {name: torch.zeros(40, device=device) for name in ("momentum", "variance")}
        tensors |= {name: torch.ones(1, device=device) for name in ("u_scale", "w_scale")}
        tensors |= {name: self.layout.message(device) for name in ("shared", "message", "received")}
        tensors |= {"w": torch.ones(24, device=device), "reply": self.layout.message(device)[0]}
        tensors |= {"live": torch.tensor([24, 16], device=device), "ignored": torch.tensor([0], device=device)}
        self.tensors, self.step = tensors, step_scalars(1e-3, device=device)

    def run(self, kernels, kernel, **changes):
        t = self.tensors | {name: changes.pop(name) for name in list(changes) if name in self.tensors}
        usable = [one for one in t.values() if isinstance(one, torch.Tensor) and one.device.type != "meta"]
        usable = [one for one in usable if not one.is_sparse]
        before = [one.clone() for one in usable]
        try:
            self.call(kernels, kernel, t, changes.pop("step", self.step), changes.pop("chunk", 0), changes)
        except (TypeError, ValueError):
            for old, new in zip(before, usable, strict=True):
                assert torch.equal(old, new), "an argument was changed by a call that was refused"
            raise

    def call(self, kernels, kernel, t, step, chunk, keywords):
        def exchange():
            return Exchange(self.layout, t["live"], t["message"], t["received"], t["reply"], t["shared"])

        if kernel == "compress":
            worker = WorkerState(t["u"], t["u_scale"], t["ignored"])
            kernels.compress(t["grad"], worker, exchange(), step, **{"beta1": 0.9} | keywords)
        elif kernel == "server":
            kernels.server(ServerState(t["w"], t["w_scale"], chunk), exchange(), step, **keywords)
        elif kernel == "apply":
            kernels.apply(t["params"], t["preconditioner"], exchange(), step, **keywords)
        else:
            state = (t["params"], t["momentum"], t["variance"], t["grad"], step)
            kernels.adam(*state, beta1=0.9, beta2=0.999, eps=1e-8, **keywords)


BAD = [
    ("compress", {"grad": torch.ones(41)}, ValueError, r"grad must have shape \(40,\), got \(41,\)"),
    (
        "compress",
        {"grad": torch.ones(40, dtype=torch.float64)},
        TypeError,
        "grad must have dtype .*, got torch.float64",
    ),
    ("compress", {"grad": torch.ones(80)[::2]}, ValueError, "grad must be contiguous"),
    ("compress", {"grad": torch.ones(8, 5)}, ValueError, "grad must have shape"),
    ("compress", {"grad": [1.0] * 40}, TypeError, "grad must be a torch.Tensor, got list"),
    ("compress", {"grad": torch.ones(40).to_sparse()}, TypeError, "grad must be dense"),
    ("compress", {"u": torch.ones(40, dtype=torch.bfloat16)}, TypeError, "u must have dtype torch.float32"),
    ("compress", {"u": torch.ones(40, device="meta")}, ValueError, "must be on .* got"),
    ("compress", {"message": torch.zeros(2, 8, dtype=torch.uint8)}, ValueError, "message must have shape"),
    ("compress", {"live": torch.tensor([40.0, 0.0])}, TypeError, "live must have dtype torch.int64"),
    ("compress", {"scale": "max"}, ValueError, "scale must be 'l1' or 'l2', got 'max'"),
    ("compress", {"beta1": 1.0}, ValueError, r"beta1 must lie in \[0, 1\), got 1.0"),
    ("server", {"w": torch.ones(23)}, ValueError, r"w must have shape \(24,\)"),
    ("server", {"chunk": 2}, ValueError, r"chunk must lie in \[0, 2\), got 2"),
    ("server", {"received": torch.zeros(0, 16, dtype=torch.uint8)}, ValueError, "received must be a flat buffer of at"),
    ("apply", {"params": torch.ones(40, dtype=torch.float64)}, TypeError, "params must have dtype"),
    (
        "apply",
        {"params_copy": torch.ones(40)},
        TypeError,
        "params_copy must have dtype torch.bfloat16 or torch.float16",
    ),
    ("apply", {"step": step_scalars(1.0, device="meta")}, ValueError, "step must be on .*, got meta"),
    (
        "compress",
        {"message": torch.zeros(2, 64, dtype=torch.uint8)[:, ::4]},
        ValueError,
        "message must have contiguous",
    ),
    (
        "compress",
        {"message": torch.zeros(2, 40, dtype=torch.uint8)[:, :16]},
        ValueError,
        "message must have contiguous",
    ),
    ("apply", {"shared": torch.zeros(2, 32, dtype=torch.uint8)[:, :16]}, ValueError, "must have equally long rows"),
    ("compress", {"grad": torch.ones(40).half(), "keep_old": True}, TypeError, "grad must have dtype torch.float32"),
    ("adam", {"variance": torch.zeros(39)}, ValueError, "variance must have shape"),
    ("adam", {"params": torch.ones(0)}, ValueError, "params must be a flat buffer of at least one element"),
]


def there(value, device):
    """A tensor of the CPU on the device, with its strides, which ``to`` would not keep."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    if value.is_sparse:
        return value.to(device)
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device).copy_(value)


@backends
@pytest.mark.parametrize(("kernel", "changes", "error", "message"), BAD, ids=range(len(BAD)))
def test_bad_arguments(backend, device, kernel, changes, error, message):
    changes = {name: there(value, device) for name, value in changes.items()}
    with pytest.raises(error, match=message):
        Call(device).run(backend_on(backend, device), kernel, **changes)


@backends
def test_a_copy_needs_a_master(backend, device):
    call = Call(device)
    half = torch.ones(40, device=device).half()
    with pytest.raises(TypeError, match="params_copy needs float32 params"):
        call.run(backend_on(backend, device), "apply", params=half, params_copy=half.clone())


@backends
def test_mixed_dtypes_are_the_right_result(backend, device):
    """A bfloat16 gradient for float16 parameters: each is converted exactly, the arithmetic is float32."""
    call, kernels = Call(device), backend_on(backend, device)
    grad = torch.linspace(-1, 1, 40, device=device).bfloat16()
    mixed, single = (torch.ones(40, dtype=dtype, device=device) for dtype in (torch.float16, torch.float32))
    call.run(kernels, "adam", params=mixed, grad=grad)
    call.tensors["momentum"].zero_()
    call.tensors["variance"].zero_()
    call.run(kernels, "adam", params=single, grad=grad.float())
    same(mixed, single.half())


@backends
def test_unaligned_views_give_the_same_bits(backend, device):
    kernels, results = backend_on(backend, device), []
    for offset in (0, 1, 3):
        call = Call(device)
        u = torch.linspace(-3, 2, 60, device=device)[:40].repeat(2)[: 40 + offset]
        buffer = torch.empty(40 + offset, device=device)
        view = buffer[offset:]
        view.copy_(u[:40])
        call.run(kernels, "compress", u=view)
        results.append((view.clone(), call.tensors["message"].clone()))
    for view, message in results[1:]:
        same(view, results[0][0])
        same(message, results[0][1])


def test_layout_is_refused():
    for arguments in ((0, 1), (8, 0), (True, 1), (8.0, 1)):
        with pytest.raises(ValueError, match="must be an integer >= 1"):
            Layout(*arguments)


def test_trailing_chunks_may_be_empty():
    layout = Layout(9, 4)
    assert [layout.part_dim(j) for j in range(4)] == [8, 1, 0, 0]
    for backend, device in PAIRS:
        server = ServerState(torch.ones(0, device=device), torch.zeros(1, device=device), chunk=3)
        exchange = Exchange.alone(layout, device)
        exchange.live.copy_(torch.tensor([8, 1, 0, 0]))
        backend_on(backend, device).server(server, exchange, step_scalars(1.0, device=device))
        assert not exchange.reply.any()


def test_get_backend():
    with pytest.raises(ValueError, match="backend must be one of auto, torch, cpu, triton; got 'cuda'"):
        get_backend("cuda")
    with pytest.raises(ValueError, match="backend 'cpu' runs on the CPU, not on cuda"):
        get_backend("cpu", "cuda")
    assert get_backend("auto", "cpu").name == "cpu"
    assert get_backend("auto", "meta").name == "torch"
    assert gpu_impl.get_backend is get_backend


@pytest.mark.skipif(not HAS_TRITON or CUDA, reason="says what to do where there is no CUDA device")
def test_triton_without_cuda(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match="backend 'triton' needs a CUDA device, got cpu"):
        get_backend("triton")


def test_no_compiler_falls_back_to_torch(monkeypatch):
    """And says so."""
    from gpu_impl.kernels import select

    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    build.library.cache_clear()
    select._cpu.cache_clear()
    select._automatic.cache_clear()
    try:
        with pytest.raises(build.BackendUnavailableError, match="found no C compiler: install gcc or clang"):
            get_backend("cpu")
        with pytest.warns(RuntimeWarning, match="falling back to the slow torch backend: .*no C compiler"):
            assert get_backend("auto").name == "torch"
    finally:
        select._automatic.cache_clear()


def test_a_failing_compiler_says_so(tmp_path):
    source = tmp_path / "broken.c"
    source.write_text("int f( { return 0; }")
    compiler = build.shutil.which("cc") or pytest.skip("no compiler")
    with pytest.raises(build.BackendUnavailableError, match=r"can't compile the cpu kernels: .*error"):
        build.compile_library(compiler, [source], tmp_path / "out.so")
    assert not (tmp_path / "out.so").exists()


def test_elements_beyond_2_to_31_on_the_cpu():
    """A real run: 2^31 + 1000 signs of bfloat16 zeros (untouched pages, so no memory), a few of them negative."""
    dim = 2**31 + 1000
    values = torch.from_numpy(np.zeros(dim, np.int16)).view(torch.bfloat16)
    places = [0, 2**31 - 1, 2**31, 2**31 + 999]
    values[places] = -1.0
    bits = torch.zeros(-(-dim // 8), dtype=torch.uint8)
    get_backend("cpu").pack(values, bits)
    for place in places:
        assert not bits[place // 8] >> place % 8 & 1
    assert int((bits != 255).sum()) == len(places)


@pytest.mark.skipif(not HAS_TRITON or CUDA, reason="by arithmetic under the interpreter; on a GPU gpu_check runs it")
def test_offsets_beyond_2_to_31_in_triton():
    """The functions that make every offset of the kernels, at places where 32 bits would wrap."""
    from offsets_kernel import lengths, offsets

    out = torch.zeros(1024, dtype=torch.int64)
    for p, j, chunk8 in ((2**18, 0, 2**29), (3, 7, 2**28 + 5), (2**17 + 3, 63, 2**27)):
        offsets[(1,)](out, p, j, chunk8, ROWS=32, TILES=16)
        expected = j * chunk8 * 8 + p * 16384 + 15 * 1024 + np.arange(1024)
        same(out, expected)
        assert expected[-1] >= 2**31
    for dim, p, n in ((2**31 + 5, 2**17, 5), (2**31 + 5, 2**17 - 1, 16384), (2**31 + 5, 2**17 + 1, 0), (3, 2**18, 0)):
        lengths[(1,)](out, dim, p, SPAN=16384)
        assert int(out[0]) == n


def test_scales_ride_in_the_message():
    layout = Layout(1000, 3)
    message = layout.message()
    scales_of(message).copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert message[:, :-4].sum() == 0
    assert scales_of(message[1]) == 2.0
