"""One row of the kernel benchmark: every kernel of every backend, and the peers, at one D and one N."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

from gpu_impl.backend import Backend
from gpu_impl.byte_floor import byte_floor
from gpu_impl.layout import Layout, scales_of
from gpu_impl.peers import Buffers, DeepSpeedSequence, torch_adam
from gpu_impl.select import get_backend
from gpu_impl.step_scalars import step_scalars
from gpu_impl.timing import time_interleaved

KERNELS = ("compress", "server", "apply", "step", "adam", "gradient_norm")


@dataclass(frozen=True)
class Row:
    """One measurement, as it stands in the CSV file.

    Attributes:
        dim: D.
        n_workers: N.
        grad_dtype: of the gradient; the parameters and the state are float32.
        kernel: see :func:`gpu_impl.byte_floor.byte_floor`; peers stand under the kernel that they are compared with.
        backend: backend or peer.
        seconds: median; ``low`` and ``high`` are the 20 % and 80 % quantiles.
        floor_bytes: bytes an element that must move.
        spent_bytes: the time in bytes an element, at the copy bandwidth of the same run.
        ratio: spent_bytes / floor_bytes.
        gigabytes_per_second: floor_bytes moved, over the time.
    """

    dim: int
    n_workers: int
    grad_dtype: str
    kernel: str
    backend: str
    seconds: float
    low: float
    high: float
    floor_bytes: float
    spent_bytes: float
    ratio: float
    gigabytes_per_second: float

    def as_dict(self) -> dict[str, object]:
        """Columns and values."""
        return asdict(self)


def measure(
    dim: int,
    n_workers: int,
    backends: Sequence[str],
    device: torch.device,
    *,
    grad_dtype: torch.dtype = torch.float32,
    rounds: int = 9,
    peers: bool = True,
) -> list[Row]:
    """All rows for one D and one N, timed interleaved."""
    torch.manual_seed(0)
    grad = torch.randn(dim, device=device).to(grad_dtype)
    buffers = Buffers(
        params=torch.randn(dim, device=device),
        grad=grad,
        momentum=torch.randn(dim, device=device),
        variance=torch.rand(dim, device=device) + 0.1,
    )
    target = torch.empty(dim, device=device)
    calls: dict[str, Callable[[], object]] = {
        "copy/torch": lambda: target.copy_(buffers.params),
        "scale_in_place/torch": lambda: target.mul_(1.0),
    }
    for name in backends:
        for kernel, call in kernel_calls(get_backend(name, device), buffers, n_workers).items():
            calls[f"{kernel}/{name}"] = call
    if peers:
        calls["adam/torch.optim fused"] = torch_adam(buffers, fused=True)
        calls["adam/torch.optim foreach"] = torch_adam(buffers, fused=False)
        if dim % (8 * n_workers) == 0 and grad_dtype == torch.float32:
            calls["step/DeepSpeed sequence"] = DeepSpeedSequence(buffers, n_workers)
    samples = time_interleaved(calls, device, rounds)

    copy_bandwidth = byte_floor("copy", n_workers) * dim / samples["copy/torch"].median
    rows = []
    for name, sample in samples.items():
        kernel, backend = name.split("/", 1)
        grad_bytes = 4 if backend.startswith("torch.optim") else grad.element_size()
        floor = byte_floor(kernel, n_workers, grad_bytes=grad_bytes)
        spent = sample.median * copy_bandwidth / dim
        rows.append(
            Row(
                dim=dim,
                n_workers=n_workers,
                grad_dtype=str(grad_dtype).removeprefix("torch."),
                kernel=kernel,
                backend=backend,
                seconds=sample.median,
                low=sample.low,
                high=sample.high,
                floor_bytes=floor,
                spent_bytes=spent,
                ratio=spent / floor,
                gigabytes_per_second=floor * dim / sample.median / 1e9,
            )
        )
    return rows


def kernel_calls(backend: Backend, buffers: Buffers, n_workers: int) -> dict[str, Callable[[], object]]:
    """The kernels on one worker's share, as functions without arguments, on the memory of all contestants."""
    dim, device = buffers.params.shape[0], buffers.params.device
    layout = Layout(dim, n_workers)
    shared, message = layout.message(device), layout.message(device)
    shared.random_(0, 256)
    scales_of(shared).fill_(0.5)
    received = shared.clone()
    w = torch.randn(layout.part_dim(0), device=device)
    u_scale, w_scale = torch.full((1,), 0.5, device=device), torch.full((1,), 0.5, device=device)
    live = torch.tensor([layout.part_dim(j) for j in range(n_workers)], device=device)
    ignored = torch.zeros(1, dtype=torch.int64, device=device)
    norm = torch.zeros(1, dtype=torch.float64, device=device)
    reply = layout.message(device)[0]
    scalars = step_scalars(1e-3, device=device)

    def compress() -> None:
        u = buffers.momentum
        backend.compress(buffers.grad, u, u_scale, shared, message, live, ignored, scalars, layout=layout, beta1=0.9)

    def server() -> None:
        backend.server(received, w, w_scale, reply, live, scalars, layout=layout, chunk=0)

    def apply() -> None:
        backend.apply(buffers.params, buffers.variance, shared, scalars, layout=layout)

    def step() -> None:
        compress()
        server()
        apply()

    def adam() -> None:
        x, m, v = buffers.params, buffers.momentum, buffers.variance
        backend.adam(x, m, v, buffers.grad, scalars, beta1=0.9, beta2=0.999, eps=1e-8)

    def gradient_norm() -> None:
        backend.gradient_norm(buffers.grad, norm)

    return dict(zip(KERNELS, (compress, server, apply, step, adam, gradient_norm), strict=True))
