"""``gpu_impl``'s kernels, driven by its simulation of N workers. Needs torch."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import torch

from gpu_impl import get_backend
from gpu_impl.harness.simulation import Hyperparameters, Simulation
from verification.adapters.optimizer_worker import floored, on_host
from verification.protocol import EXTENSIONS, Array, Hyper, Snapshot


class Kernels:
    """1-bit Adam by the ``cpu`` kernels.

    The kernels overwrite v by P at the freeze. What is reported as v from then on is the kernels' v of before, with the
    floor that is computed here: if the kernel's floor or its P were another, the next update would not fit it.
    """

    backend: ClassVar[str] = "cpu"
    device: ClassVar[str] = "cpu"
    extensions = EXTENSIONS

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        backend = get_backend(self.backend, self.device)
        self.hyper = hyper
        taken = {field.name: getattr(hyper, field.name) for field in fields(Hyperparameters)}
        params = torch.tensor(np.array(params_D), device=self.device)
        self.run = Simulation(backend, params, n_workers, Hyperparameters(**taken))

    def step(self, grads_ND: Array) -> None:
        self.run.step(list(torch.tensor(np.array(grads_ND, order="C"), device=self.device)))

    def variance_D(self) -> Array:
        """v; from the freeze on the kernel's v of the freeze, with the floor [C7]."""
        v = self.run.variance_before_freeze
        if v is None:
            return on_host(self.run.variance)
        return floored(v, self.hyper.variance_floor)

    def snapshot(self) -> Snapshot:
        run = self.run
        return Snapshot(
            np.tile(on_host(run.params), (run.layout.n_chunks, 1)),
            on_host(run.momentum_D()),
            self.variance_D(),
            on_host(run.worker_errors_ND()),
            on_host(run.server_error_D()),
            run.steps,
        )


class TorchKernels(Kernels):
    """The same by the readable ``torch`` backend, which takes long for many workers."""

    backend = "torch"
    workers = tuple(range(1, 9))


class TritonKernels(Kernels):
    """The same by the ``triton`` kernels, on a CUDA device; without one by its interpreter, which takes hours."""

    backend = "triton"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    workers = tuple(range(1, 9))
    takes: ClassVar[dict[str, Any]] = {"scale_block": (None, 8, 40, 128, 1024, 2056)}  # each is compiled for itself
