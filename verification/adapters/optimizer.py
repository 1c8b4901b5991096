"""The optimizers of ``gpu_impl`` as they train: N processes that talk by gloo, driven step by step; needs torch."""

from __future__ import annotations

import io
import itertools
from typing import Any, ClassVar

import numpy as np
import torch

from gpu_impl import resize_state_dicts
from gpu_impl.harness.worker_pool import WorkerPool
from verification.adapters import optimizer_worker as worker
from verification.protocol import EXTENSIONS, Array, LambSnapshot, Snapshot, ZeroOneSnapshot

_RUNS = itertools.count()


def of_each(seen: list[dict[str, Any]], name: str) -> Array:
    """What every worker has under a name, (N, ...)."""
    return np.stack([row[name] for row in seen])


class Optimizer:
    """``OneBitAdam``: one parameter in one bucket, so that D is the D of the algorithm; the ``cpu`` kernels.

    The processes stay alive from one run to the next.
    """

    optimizer: ClassVar[str] = "OneBitAdam"
    backend: ClassVar[str] = "cpu"
    device: ClassVar[str] = "cpu"
    workers = (1, 2, 3, 4)
    takes: ClassVar[dict[str, Any]] = {"eps": (1e-8, 1e-3)}  # it refuses 0
    extensions: ClassVar[tuple[str, ...]] = EXTENSIONS

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        self.pool, self.run, self.hyper, self.dim = WorkerPool.of(n_workers), next(_RUNS), hyper, params_D.size
        self.pool.call(worker.start, self.run, params_D, hyper, self.optimizer, self.backend, self.device)

    def step(self, grads_ND: Array) -> None:
        self.pool.map(worker.step, [(self.run, grad_D) for grad_D in grads_ND])

    def snapshot(self) -> Any:
        seen = self.pool.call(worker.snapshot, self.run)
        return Snapshot(
            of_each(seen, "params"),
            seen[0]["momentum"],
            seen[0]["variance"],
            of_each(seen, "worker_error"),
            np.concatenate([row["server_error"] for row in seen]),
            seen[0]["step"],
        )

    def save(self) -> bytes:
        """The files of all ranks in one."""
        file = io.BytesIO()
        torch.save(self.pool.call(worker.save, self.run), file)
        return file.getvalue()

    def load(self, data: bytes, n_workers: int) -> None:
        """Continue on ``n_workers`` workers; on another number than before, from the resized state [C11]."""
        if n_workers != self.pool.n_workers:
            self.start(np.zeros(self.dim, np.float32), n_workers, self.hyper)
        saved: list[dict[str, Any]] = torch.load(io.BytesIO(data), weights_only=True)
        states = resize_state_dicts([row["optimizer"] for row in saved], n_workers)
        self.pool.map(worker.load, [(self.run, {**saved[0], "optimizer": state}) for state in states])


class TorchOptimizer(Optimizer):
    """The same by the readable ``torch`` kernels."""

    backend = "torch"


class CudaOptimizer(Optimizer):
    """The same by the ``triton`` kernels: all processes share one CUDA device, and gloo goes through the host."""

    backend, device = "triton", "cuda"


class ZeroOneAdam(Optimizer):
    """``ZeroOneAdam``."""

    optimizer = "ZeroOneAdam"
    algorithm = "zero_one_adam"
    extensions = ("scale_block",)

    def snapshot(self) -> Any:
        seen = self.pool.call(worker.snapshot, self.run)
        return ZeroOneSnapshot(
            params_ND=of_each(seen, "params"),
            shared_D=seen[0]["master"],
            momentum_ND=of_each(seen, "momentum"),
            accumulated_ND=of_each(seen, "accumulated"),
            variance_D=seen[0]["exp_avg_sq"],
            worker_errors_ND=of_each(seen, "worker_error"),
            server_error_D=of_each(seen, "server_error").sum(axis=0),
            step=seen[0]["step"],
        )


class OneBitLamb(Optimizer):
    """``OneBitLamb`` with one layer: in a bucket of several each begins at a multiple of 8, so D is another."""

    optimizer = "OneBitLamb"
    algorithm = "one_bit_lamb"
    takes: ClassVar[dict[str, Any]] = {"eps": (1e-8, 1e-3), "layers": [()]}
    extensions = ("scale_block",)

    def snapshot(self) -> Any:
        seen = self.pool.call(worker.snapshot, self.run)
        first = seen[0]
        trust, scale, ratio = (np.full(self.dim, first[one]) for one in ("trust_mean", "layer_scale", "last_ratio"))
        return LambSnapshot(
            of_each(seen, "params"),
            first["exp_avg"],
            first["exp_avg_sq"],
            of_each(seen, "worker_error"),
            of_each(seen, "server_error").sum(axis=0),
            trust,
            scale,
            first["fresh_variance"],
            ratio,
            step=first["step"],
        )
