"""What ``optimizer.py`` asks the worker processes to do: one rank's share of a run of an optimizer of ``gpu_impl``."""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gpu_impl
from gpu_impl.optimizer.base import OneBitOptimizer
from gpu_impl.optimizer.bucket import Bucket
from verification.protocol import Array

MOST_RUNS = 16
"""Runs that a worker keeps; those that nobody has used for longest are forgotten."""

RUNS: OrderedDict[int, Run] = OrderedDict()

ONE_BUCKET = 2**62


@dataclass
class Run:
    """A parameter, its optimizer, and v as it was at the freeze, for the kernels overwrite it by P."""

    param: torch.nn.Parameter
    optimizer: OneBitOptimizer
    frozen_D: Array | None = None

    @property
    def bucket(self) -> Bucket:
        self.optimizer.take_over()
        ((_, bucket),) = self.optimizer.run.pairs()
        return bucket

    def step(self, grad_D: Array) -> None:
        bucket, before = self.bucket, self.optimizer.phase
        freeze = bucket.freeze

        def noting_v(
            group: dict[str, Any], variance_floor: float, variance_correction: float, *, loaded: bool = False
        ) -> None:
            self.frozen_D = floored(bucket.variance, variance_floor)
            freeze(group, variance_floor, variance_correction, loaded=loaded)

        if before == "warm-up":
            bucket.freeze = noting_v
        self.param.grad = torch.tensor(grad_D, device=self.param.device)
        try:
            self.optimizer.step()
        finally:
            bucket.freeze = freeze

    def snapshot(self) -> dict[str, Any]:
        """This rank's part of a snapshot."""
        bucket = self.bucket
        return {
            "params": on_host(self.param),
            "momentum": on_host(bucket.momentum_D()),
            "variance": on_host(bucket.variance) if self.frozen_D is None else self.frozen_D,
            "worker_error": on_host(bucket.worker_error_D()),
            "server_error": on_host(bucket.server_error_C()),
            "step": self.optimizer.steps,
        }


def on_host(values: Tensor) -> Array:
    """A copy in NumPy."""
    return values.detach().cpu().numpy().copy()


def floored(variance: Tensor, kappa: float) -> Array:
    """v with its floor [C7]. Computed here: a kernel with another floor would not fit it."""
    v_D = on_host(variance)
    mean_live = v_D.sum(dtype=np.float64) / max(1, np.count_nonzero(v_D))
    return np.maximum(v_D, np.float32(kappa * mean_live)) * (v_D > 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Without our warnings: gradients of zero are among the cases. Others run in this process afterwards."""
    logger = logging.getLogger("onebit")
    before = logger.disabled
    logger.disabled = True  # setLevel would clear the caches of all loggers, in every step
    try:
        yield
    finally:
        logger.disabled = before


def used(run: int) -> Run:
    """Run number ``run``; a run that goes on beside others is not forgotten."""
    RUNS.move_to_end(run)
    return RUNS[run]


class FamilyRun(Run):
    """The same for 0/1 Adam and 1-bit LAMB: a rank's state under the names of its ``state_dict``."""

    def step(self, grad_D: Array) -> None:
        self.param.grad = torch.tensor(grad_D, device=self.param.device)
        self.optimizer.step()

    def snapshot(self) -> dict[str, Any]:
        """This rank's part of a snapshot."""
        found = {name: on_host(values) for name, values in self.bucket.dense().items()}
        names = self.optimizer.run.names.numbers
        numbers = {name: np.float32(self.optimizer.run.numbers(name).item()) for name in names}
        return {**found, **numbers, "params": on_host(self.param), "step": self.optimizer.steps}


@quiet()
def start(run: int, params_D: Array, hyper: Any, name: str, backend: str, device: str) -> None:
    """Begin run number ``run`` of the optimizer of this name, with the hyper-parameters that it has."""
    param, made = torch.nn.Parameter(torch.tensor(params_D, device=device)), getattr(gpu_impl, name)
    taken = inspect.signature(made).parameters
    settings = {key: value for key, value in vars(hyper).items() if key in taken}
    betas = (hyper.beta1, hyper.beta2)
    optimizer = made([param], betas=betas, backend=backend, bucket_elements=ONE_BUCKET, **settings)
    RUNS[run] = (Run if name == "OneBitAdam" else FamilyRun)(param, optimizer)
    while len(RUNS) > MOST_RUNS:
        RUNS.popitem(last=False)


@quiet()
def step(run: int, grad_D: Array) -> None:
    """One step with this rank's gradient."""
    used(run).step(grad_D)


def snapshot(run: int) -> dict[str, Any]:
    """This rank's part of a snapshot."""
    return used(run).snapshot()


@quiet()
def save(run: int) -> dict[str, Any]:
    """This rank's state, its parameters, and the v that is reported."""
    kept = used(run)
    frozen = None if kept.frozen_D is None else torch.from_numpy(kept.frozen_D)
    with kept.optimizer.at_last_meeting():
        params = kept.param.detach().cpu().clone()
    return {"optimizer": kept.optimizer.state_dict(), "params": params, "frozen": frozen}


@quiet()
def load(run: int, saved: dict[str, Any]) -> None:
    """Continue from what :func:`save` gave."""
    kept = used(run)
    with torch.no_grad():
        kept.param.copy_(saved["params"])
    kept.optimizer.load_state_dict(saved["optimizer"])  # between two meetings it says where this worker stands
    kept.frozen_D = None if saved["frozen"] is None else saved["frozen"].numpy()
