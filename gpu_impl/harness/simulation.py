"""1-bit Adam by the kernels, N workers in one process: for tests, checks on a device, and as a worked example.

It shows in which order the kernels are called and which buffers live where; a real run replaces the two copies marked
"all-to-all" and "all-gather" by collectives, and keeps one worker's part of each list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.layout import Layout, scales_of
from gpu_impl.kernels.marks import has_overflown, live_bits_of, moves_of
from gpu_impl.kernels.state import F32, I64, Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import StepScalars, step_scalars
from gpu_impl.kernels.torch_ import decode, error_of


@dataclass(frozen=True)
class Hyperparameters:
    """Hyper-parameters of a run; the names are those of the notation table."""

    lr: float
    freeze_step: int
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    scale: str = "l2"
    variance_floor: float = 1e-3
    bias_correction: bool = False
    compress: str = "momentum"
    scale_block: int | None = None
    frozen_dtype: str = "float32"


class Simulation:
    """N workers that share one ``params`` (D,), float32, bfloat16 or float16, which is updated in place.

    Attributes:
        steps: applied steps t.
        skipped_steps: steps skipped for a gradient that is not finite [C8].
    """

    def __init__(self, backend: Backend, params: Tensor, n_workers: int, hyper: Hyperparameters) -> None:
        self.backend, self.params, self.hyper = backend, params, hyper
        self.layout = Layout(params.shape[0], n_workers, hyper.scale_block)
        device = params.device
        self.momentum = torch.zeros(params.shape[0], dtype=F32, device=device)
        self.variance = torch.zeros_like(self.momentum)  # holds P after the freeze
        self.live_bits: Tensor | None = None
        self.moves: Tensor | None = None
        extensions = {"compress": hyper.compress, "scale_block": hyper.scale_block, "frozen_dtype": hyper.frozen_dtype}
        backend.check_extensions(**extensions)
        self.live = torch.zeros(n_workers * self.layout.n_blocks, dtype=I64, device=device)
        self.shared = self.layout.message(device)
        self.workers: list[WorkerState] = []  # exist after the freeze, as the servers
        self.servers: list[ServerState] = []
        self.exchanges: list[Exchange] = []  # worker j's; row j of ``shared`` is its reply
        self.steps = self.skipped_steps = 0
        self.variance_before_freeze: Tensor | None = None

    def step(self, grads: Sequence[Tensor]) -> None:
        """One step from the gradients (D,) of all workers."""
        hyper, t = self.hyper, self.steps + 1
        norms = torch.zeros(len(grads), dtype=torch.float64, device=self.params.device)
        for i, grad in enumerate(grads):
            self.backend.gradient_norm(grad, norms[i : i + 1])
        factor = 1.0 if bool(torch.isfinite(norms).all()) else float("nan")
        corrections = (1 - hyper.beta1**t, 1 - hyper.beta2**t) if hyper.bias_correction else (1.0, 1.0)
        scalars = step_scalars(hyper.lr, hyper.weight_decay, *corrections, factor, device=self.params.device)
        if t <= hyper.freeze_step:
            self._warm_up(grads, scalars)
        else:
            self._compressed(grads, scalars)
        if factor != 1.0:
            self.skipped_steps += 1
            return
        self.steps = t
        if t == hyper.freeze_step:
            self._freeze(corrections[1])

    def _warm_up(self, grads: Sequence[Tensor], scalars: StepScalars) -> None:
        total = grads[0].float()
        for grad in grads[1:]:
            total = total + grad.float()
        mean = total / torch.full_like(total[:1], len(grads))
        hyper = self.hyper
        self.backend.adam(
            self.params,
            self.momentum,
            self.variance,
            mean,
            scalars,
            beta1=hyper.beta1,
            beta2=hyper.beta2,
            eps=hyper.eps,
        )

    def _freeze(self, variance_correction: float) -> None:
        hyper, n = self.hyper, self.layout.n_chunks
        self.variance_before_freeze = self.variance.clone()
        rounded = torch.zeros_like(self.variance, dtype=torch.bfloat16) if hyper.frozen_dtype == "bfloat16" else None
        self.backend.freeze(
            self.momentum,
            self.variance,
            self.live,
            layout=self.layout,
            eps=hyper.eps,
            variance_floor=hyper.variance_floor,
            variance_correction=variance_correction,
            update=hyper.compress == "update",
            rounded=rounded,
        )
        self.variance = self.variance if rounded is None else rounded
        self.live_bits = live_bits_of(self.variance)
        self.moves = moves_of(self.variance) if has_overflown(self.variance) else None
        device, layout = self.params.device, self.layout

        def zeros(n: int, dtype: torch.dtype = F32) -> Tensor:
            return torch.zeros(n, dtype=dtype, device=device)

        self.workers = [WorkerState(self.momentum.clone(), zeros(layout.n_scales), zeros(1, I64)) for _ in range(n)]
        for j in range(n):
            w = self.backend.server_start(self.variance[layout.part(j)])
            self.servers.append(ServerState(w, zeros(layout.n_blocks), j))
            message, received = layout.message(device), layout.message(device)
            self.exchanges.append(Exchange(layout, self.live, message, received, self.shared[j], self.shared))

    def _compressed(self, grads: Sequence[Tensor], scalars: StepScalars) -> None:
        hyper, first = self.hyper, self.steps == self.hyper.freeze_step
        before = self.variance if hyper.compress == "update" else None
        options = {"beta1": hyper.beta1, "scale": hyper.scale, "first": first, "preconditioner": before}
        for grad, worker, exchange in zip(grads, self.workers, self.exchanges, strict=True):
            self.backend.compress(grad, worker, exchange, scalars, **options)
        messages = torch.stack([exchange.message for exchange in self.exchanges])
        for j, exchange in enumerate(self.exchanges):
            exchange.received.copy_(messages[:, j])  # all-to-all
        for server, exchange in zip(self.servers, self.exchanges, strict=True):
            self.backend.server(server, exchange, scalars, scale=hyper.scale)  # into ``shared``: all-gather
        after = self.variance if before is None else self.moves
        if after is not None:
            self.backend.apply(self.params, after, self.exchanges[0], scalars)
        else:
            self.backend.apply(self.params, None, self.exchanges[0], scalars, live_bits=self.live_bits)

    def momentum_D(self) -> Tensor:
        """m-bar (D,): Adam's until the first compressed step, then the decoded message, 0 where nothing is sent.

        In the update form y-bar = P m-bar from the freeze on [C12].
        """
        if self.steps <= self.hyper.freeze_step:
            return self.momentum.clone()
        return torch.where(self.variance == 0, 0.0, decode(self.shared, self.layout))

    @property
    def ignored(self) -> list[Tensor]:
        """Gradients of each worker that arrived at dead coordinates (1,) each, after the freeze."""
        return [worker.ignored for worker in self.workers]

    def worker_errors_ND(self) -> Tensor:
        """delta_i (N, D), formed from u_i and s_i."""
        if self.steps <= self.hyper.freeze_step:
            return torch.zeros(self.layout.n_chunks, self.layout.dim, device=self.params.device)
        u_ND = torch.stack([worker.u for worker in self.workers])
        return error_of(u_ND, torch.stack([worker.u_scale for worker in self.workers]), self.layout)

    def server_error_D(self) -> Tensor:
        """delta-bar (D,), formed from the chunks' w and S_j."""
        if not self.servers:
            return torch.zeros_like(self.momentum)
        w_D = torch.cat([server.w for server in self.servers])
        return error_of(w_D, torch.cat([server.w_scale for server in self.servers]), self.layout)

    def scales(self) -> tuple[Tensor, Tensor]:
        """The workers' s_i (N,) and the servers' S_j (n_chunks,) of the last step, or those of their blocks."""
        servers = scales_of(self.shared, self.layout.n_blocks).reshape(-1)
        return torch.cat([worker.u_scale for worker in self.workers]), servers.clone()
