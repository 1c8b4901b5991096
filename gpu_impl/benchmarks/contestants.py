"""Who takes part in the kernel benchmark at one D and N, on which memory, and who can't.

On the CPU our buffers come from ``flat_buffer``, as they do in a run, and the peers' from torch, as their users get
them. Torch's fused Adam runs on both, to tell what is due to the pages from what is due to the kernels. Where there are
no huge pages to be had, on CUDA for one, all share the same buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import torch
from torch import Tensor

from gpu_impl.benchmarks.byte_floor import PUBLISHED
from gpu_impl.benchmarks.deepspeed_package import NOT_INSTALLED, DeepSpeedPackage, deepspeed_python
from gpu_impl.benchmarks.form import Form
from gpu_impl.benchmarks.peers import Buffers, DeepSpeedSequence, torch_adam
from gpu_impl.benchmarks.rungs import rung
from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.flat_buffer import flat_buffer, gives_huge_pages
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.layout import Layout, scales_of
from gpu_impl.kernels.marks import live_counts
from gpu_impl.kernels.state import Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import step_scalars

KERNELS = ("compress", "server", "apply", "step", "adam", "gradient_norm")
FAMILY_KERNELS = ("walk", "lamb_moments", "lamb_move", "lamb_form", "lamb_refresh")
LAYERS = 16
"""Layers of equal size that the kernels of LAMB are timed on."""

MEMORY = {
    "our buffers": (25, 0),
    "P in bfloat16": (2, 0),
    "rows of the family": (12, 0),
    "ordinary pages": (16, 0),
    "torch": (0, 60),
    "torch.optim foreach": (0, 5),
    "DeepSpeed sequence": (8, 22),
    "DeepSpeed package": (24, 12),
}
"""Bytes an element that are kept, and that come and go during a call: resident memory at D >= 2^24, rounded up."""

Call = Callable[[], object]


@dataclass(frozen=True)
class Share:
    """One worker's share of a step.

    Attributes:
        n_workers: N.
        form: of the algorithm.
        preconditioner: P (D,) of the form's dtype.
    """

    n_workers: int
    form: Form
    preconditioner: Tensor


@dataclass
class Contestants:
    """Calls in the order of the table, and who is missing, with the reason; both by "kernel/backend"."""

    dim: int
    free: float
    calls: dict[str, Call] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    kept: float = 0
    temporaries: float = 0

    def fits(self, what: str, name: str = "") -> bool:
        """Whether there is memory for one more; temporaries of two calls are never there together."""
        kept, temporaries = MEMORY.get(what, (0, 0))
        kept, temporaries = self.kept + kept, max(self.temporaries, temporaries)
        needed = (kept + temporaries) * self.dim
        if needed > self.free:
            self.missing[name] = f"left out: would make {needed / 1e9:.1f} GB, and {self.free / 1e9:.1f} GB are free"
            return False
        self.kept, self.temporaries = kept, temporaries
        return True

    def enter_backends(
        self, names: Sequence[str], buffers: Buffers, share: Share, rows: Sequence[Tensor] | None
    ) -> None:
        """All kernels of these backends; those of 0/1 Adam and LAMB where there are ``rows`` for them."""
        for name in names:
            if not self.fits(name, f"step/{name}"):
                continue
            backend = rung(name, buffers.params.device)
            try:
                backend.check_extensions(**share.form.as_dict())
            except ValueError as error:
                self.missing[f"step/{name}"] = f"left out: {error}"
                continue
            calls = kernel_calls(backend, buffers, share)
            if rows is not None and name != "triton-v1":
                calls |= family_calls(backend, buffers, rows)
            for kernel, call in calls.items():
                self.calls[f"{kernel}/{name}"] = call

    def enter_peers(self, ours: Buffers, n_workers: int, stack: ExitStack) -> None:
        """Torch's Adam and DeepSpeed's 1-bit Adam."""
        device, buffers = ours.params.device, ours
        float32 = ours.grad.dtype == torch.float32
        if gives_huge_pages(device):
            if not self.fits("ordinary pages", "adam/torch.optim and others"):
                return
            buffers = make_buffers(self.dim, device, torch.float32, torch.zeros)
            self.calls["copy/torch, ordinary pages"] = lambda: buffers.momentum.copy_(buffers.params)
            if float32:
                self.calls["adam/torch.optim fused, huge pages"] = torch_adam(ours, fused=True)
        self.calls["adam/torch.optim fused"] = torch_adam(buffers, fused=True)
        if self.fits("torch.optim foreach", name := "adam/torch.optim foreach"):
            self.calls[name] = torch_adam(buffers, fused=False)

        if not float32:
            self.missing["step/DeepSpeed"] = "left out: float32 gradients only"
            return
        name = "step/DeepSpeed sequence"
        if self.dim % (8 * n_workers):
            self.missing[name] = f"left out: D must be a multiple of {8 * n_workers}"
        elif self.fits("DeepSpeed sequence", name):
            self.calls[name] = DeepSpeedSequence(buffers, n_workers)
        name = "step/DeepSpeed package"
        if device.type != "cpu":
            self.missing[name] = "left out: on the CPU only"
        elif (python := deepspeed_python()) is None:
            self.missing[name] = NOT_INSTALLED
        elif self.fits("DeepSpeed package", name):
            try:
                package = DeepSpeedPackage(python, self.dim, n_workers)
            except (OSError, RuntimeError) as error:
                self.missing[name] = str(error)
            else:
                stack.callback(package.close)
                self.calls[f"step/DeepSpeed {package.version} package"] = package


def contestants(
    dim: int,
    n_workers: int,
    backends: Sequence[str],
    device: torch.device,
    *,
    grad_dtype: torch.dtype,
    peers: bool,
    stack: ExitStack,
    form: Form = PUBLISHED,
) -> Contestants:
    """All that can run here; ``stack`` ends the processes that were started. Peers compute what they always do.

    Raises:
        MemoryError: our own buffers don't fit.
    """
    found = Contestants(dim, free_memory(device))
    is_narrow = form.dtype != torch.float32
    if not found.fits("our buffers") or (is_narrow and not found.fits("P in bfloat16")):
        raise MemoryError(found.missing[""])
    torch.manual_seed(0)
    ours = make_buffers(dim, device, grad_dtype, flat_buffer)
    frozen = flat_buffer(dim, form.dtype, device).copy_(ours.variance) if is_narrow else ours.variance
    share = Share(n_workers, form, frozen)
    target = flat_buffer(dim, device=device)
    found.calls["copy/torch"] = lambda: target.copy_(ours.params)
    found.calls["scale_in_place/torch"] = lambda: target.mul_(1.0)
    with_family = form == PUBLISHED and found.fits("rows of the family", "walk")
    rows = [flat_buffer(dim, device=device).uniform_() for _ in range(3)] if with_family else None
    found.enter_backends([name for name in backends if name != "torch"], ours, share, rows)
    if peers:
        found.enter_peers(ours, n_workers, stack)
    found.enter_backends([name for name in backends if name == "torch"], ours, share, rows)  # needs most memory
    return found


def free_memory(device: torch.device) -> float:
    """Bytes that may be taken: nine tenths of what is free; infinity where the system doesn't say."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return 0.9 * torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return inf
    return 0.9 * next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def make_buffers(dim: int, device: torch.device, grad_dtype: torch.dtype, new: Callable[..., Tensor]) -> Buffers:
    """Random contents; ``new(n, dtype=, device=)`` gives the memory, which is filled in place."""
    return Buffers(
        params=new(dim, dtype=torch.float32, device=device).normal_(),
        grad=new(dim, dtype=grad_dtype, device=device).normal_(),
        momentum=new(dim, dtype=torch.float32, device=device).normal_(),
        variance=new(dim, dtype=torch.float32, device=device).uniform_(0.1, 1.1),
    )


def kernel_calls(backend: Backend, buffers: Buffers, share: Share) -> dict[str, Callable[[], object]]:
    """The kernels on one worker's share, as functions without arguments; buffers as in a run."""
    dim, device = buffers.params.shape[0], buffers.params.device
    layout = Layout(dim, share.n_workers, share.form.scale_block)
    to_compress, to_apply = (share.preconditioner, None) if share.form.in_updates else (None, share.preconditioner)
    shared, message, received = (flat_message(layout, device) for _ in range(3))
    shared.random_(0, 256)
    scales_of(shared, layout.n_blocks).fill_(0.5)
    received.copy_(shared)
    live = live_counts(buffers.momentum, layout)
    exchange = Exchange(layout, live, message, received, layout.message(device)[0], shared)
    ignored = torch.zeros(1, dtype=torch.int64, device=device)
    worker = WorkerState(buffers.momentum, torch.full((layout.n_scales,), 0.5, device=device), ignored)
    w = flat_buffer(layout.part_dim(0), device=device).normal_()
    state = ServerState(w, torch.full((layout.n_blocks,), 0.5, device=device), chunk=0)
    norm = torch.zeros(1, dtype=torch.float64, device=device)
    scalars = step_scalars(1e-3, device=device)

    def compress() -> None:
        backend.compress(buffers.grad, worker, exchange, scalars, beta1=0.9, preconditioner=to_compress)

    def server() -> None:
        backend.server(state, exchange, scalars)

    def apply() -> None:
        backend.apply(buffers.params, to_apply, exchange, scalars)

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


def family_calls(backend: Backend, buffers: Buffers, rows: Sequence[Tensor]) -> dict[str, Callable[[], object]]:
    """The kernels that 0/1 Adam and LAMB have beside those of 1-bit Adam, as functions without arguments; ``rows`` are
    three more buffers (D,).
    """
    x, m, v, grad = buffers.params, buffers.momentum, buffers.variance, buffers.grad
    dim, device = x.shape[0], x.device
    first, second, third = rows
    scalars, floor = step_scalars(1e-3, device=device), torch.zeros(1, device=device)
    ignored = torch.zeros(1, dtype=torch.int64, device=device)
    layers = Layers.of([dim // LAYERS] * (LAYERS - 1) + [dim - dim // LAYERS * (LAYERS - 1)], device)
    ones = torch.ones(LAYERS, device=device)
    squares = torch.zeros(LAYERS, 2, dtype=torch.float64, device=device)
    largest = torch.zeros(LAYERS, dtype=torch.float64, device=device)
    beta1, beta2, eps = 0.9, 0.999, 1e-8

    def walk() -> None:
        backend.walk(x, first, second, m, third, v, grad, scalars, ignored, floor, beta1=beta1, eps=eps)

    def lamb_moments() -> None:
        backend.lamb_moments(x, m, v, grad, scalars, layers, squares, beta1=beta1, beta2=beta2, eps=eps)

    def lamb_move() -> None:
        backend.lamb_move(x, m, v, scalars, layers, ones, eps=eps)

    def lamb_form() -> None:
        backend.lamb_form(first, m, second, grad, layers, ones, ignored, factor=1.0, beta1=beta1)

    def lamb_refresh() -> None:
        backend.lamb_refresh(
            first, m, third, second, v, layers, ones, largest, beta1=beta1, beta2=beta2, eps=eps
        )  # fmt: skip

    return dict(zip(FAMILY_KERNELS, (walk, lamb_moments, lamb_move, lamb_form, lamb_refresh), strict=True))


def flat_message(layout: Layout, device: torch.device) -> Tensor:
    """A message of zeros as :meth:`Layout.message` makes it, on a flat buffer."""
    return flat_buffer(layout.n_chunks * layout.row_bytes, torch.uint8, device).view(layout.n_chunks, -1)
