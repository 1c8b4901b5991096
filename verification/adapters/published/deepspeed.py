"""DeepSpeed 0.19.6, the last release that had 1-bit Adam: two or four gloo processes, each with DeepSpeed's own engine.

``$ONEBIT_DEEPSPEED_PYTHON`` names a Python that has ``deepspeed==0.19.6`` (else this one must).
``rank/deepspeed_rank.py`` says what stands in for a GPU. Two transports: ``nccl``, the default, and ``compressed``.
Three precisions:

- ``fp32``: the engine gives the parameters to OnebitAdam as they are. Its first step moves nothing (found by
  ``first_step``), so these adapters take one step on zeros before the first one, or nothing else could be seen.
- ``fp16``, ``bf16``: the engine wraps it in ``FP16_Optimizer``, whose constructor takes that step. Gradients and their
  mean have to be numbers of that precision here, for they are what is checked; other cases are left out.

What is a finding of its own is left out of the search, so that the rest can be seen: resuming, NaN, numbers beyond
1e15, coordinates without variance at the freeze, padding. ``freeze_step`` given to DeepSpeed is T_w + 1 in either
case: the step on zeros is counted there. Its gradient clipping is on by default (``gradient_clipping`` 1.0); here it
is off, and a finding of its own.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from typing import Any, ClassVar, Literal

import numpy as np

from verification.adapters.published.ranks import Ranks
from verification.protocol import Array, Scale, Snapshot

PYTHON = "ONEBIT_DEEPSPEED_PYTHON"
PRECISIONS = ("fp32", "fp16", "bf16")
TRANSPORTS = ("nccl", "compressed")
WORKERS = (2, 4)  # one worker does not compress there; with three the chunks are multiples of 24
LARGEST = 1e15
"""Gradients beyond it are left to a finding: from 1.8e19 on squares overflow, and errors grow."""
SIZES = (32, 64, 96, 256, 1024)  # no padding: what that does is a finding of its own
Precision = Literal["fp32", "fp16", "bf16"]

_RUNS = itertools.count()


def ranks(n_workers: int) -> Ranks:
    """The processes for ``n_workers``."""
    return Ranks.of("deepspeed", n_workers, os.environ.get(PYTHON, sys.executable))


def fits(array: Array, precision: str) -> bool:
    """Whether every number of a float32 array is one of ``precision``."""
    if precision == "fp32":
        return True
    if precision == "fp16":
        with np.errstate(over="ignore"):
            return bool(np.array_equal(array.astype(np.float16).astype(np.float32), array, equal_nan=True))
    return not np.any(np.ascontiguousarray(array, np.float32).view(np.uint32)[np.isfinite(array)] & 0xFFFF)


class Engine:
    """N engines of one training run. ``arrays`` are the parameters, one tensor each.

    Attributes:
        params, momentum, variance, worker_error, server_error: of worker 0 after the last step, one array a tensor that
            the optimizer sees: each parameter in fp32, one flat tensor in fp16 and bf16. OnebitLamb sees each parameter
            in every precision, and has one flat worker and server error.
    """

    def __init__(
        self,
        precision: str,
        transport: str,
        arrays: list[Any],
        *,
        n_workers: int = 2,
        config: dict[str, Any] | None = None,
        optimizer: str = "OneBitAdam",
        **params: Any,
    ) -> None:
        self.ranks, self.run = ranks(n_workers), next(_RUNS)
        self.arrays = [np.asarray(array, np.float32) for array in arrays]
        self.settings = {
            "precision": precision,
            "transport": transport,
            "optimizer": optimizer,
            "config": config or {},
            "params": {"lr": 1.0, "betas": (0.5, 0.5), "eps": 1.0, **params},
        }
        self.ranks.call("start", (self.run, self.arrays, self.settings))

    def step(self, *gradients: Any) -> None:
        """One step from one gradient a worker: a list of numbers for one parameter, else a list of lists (or None)."""
        rows = []
        for gradient in gradients:
            parts = gradient if len(self.arrays) > 1 else [gradient]
            rows.append((self.run, [None if part is None else np.asarray(part, np.float32) for part in parts]))
        self.ranks.call("step", *rows)

    def begun(self) -> Engine:
        """The same after the step that makes buffers, on zeros; in half precision the wrapper has taken it already."""
        if self.settings["precision"] == "fp32":
            zeros = [np.zeros_like(array) for array in self.arrays]
            self.step(*[zeros if len(zeros) > 1 else zeros[0]] * len(self.ranks.processes))
        return self

    def mask(self, mask: Any) -> None:
        """Set ``exp_avg_mask``, as a training script does."""
        self.option("exp_avg_mask", np.asarray(mask, np.float32))

    def option(self, name: str, value: Any) -> None:
        """Set an entry of the parameter group, as a training script or a scheduler does."""
        self.ranks.call("option", (self.run, name, value))

    def seen(self) -> list[dict[str, Any]]:
        """What each worker has."""
        return self.ranks.call("snapshot", (self.run,))

    def __getattr__(self, name: str) -> Any:
        if name not in {"params", "momentum", "variance", "worker_error", "server_error", "skipped", "state"}:
            raise AttributeError(name)
        return self.seen()[0][name]

    def resumed(self) -> Engine:
        """A new run of the same program, from ``save_checkpoint`` of this one."""
        folder = tempfile.mkdtemp(prefix="onebit-deepspeed-")
        try:
            self.ranks.call("save", (self.run, folder))
            other = object.__new__(Engine)
            other.__dict__ |= self.__dict__ | {"run": next(_RUNS)}
            zeros = [np.zeros_like(array) for array in self.arrays]
            self.ranks.call("start", (other.run, zeros, self.settings))
            self.ranks.call("load", (other.run, folder))
            return other
        finally:
            shutil.rmtree(folder)


class DeepSpeedCollective:
    """``compressed_allreduce`` of the default transport, nccl."""

    scale: ClassVar[Scale] = "l2"
    workers = WORKERS
    sizes = SIZES
    transport = "nccl"

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array
    ) -> tuple[Array, Array, Array]:
        if max(np.abs(array).max() for array in (buffers_ND, worker_errors_ND, server_error_D)) > LARGEST:
            raise NotImplementedError("squares that overflow: a finding of its own")
        rows = [
            (self.transport, np.array(b), np.array(e), np.array(server_error_D))
            for b, e in zip(buffers_ND, worker_errors_ND, strict=True)
        ]
        outputs, errors, chunks = zip(*ranks(len(rows)).call("allreduce", *rows), strict=True)
        return outputs[0], np.stack(errors), np.concatenate(chunks)[: server_error_D.size]


class DeepSpeedCompressedCollective(DeepSpeedCollective):
    """``compressed_allreduce`` of the transport compressed (XPU)."""

    transport = "compressed"


class DeepSpeedOptimizer:
    """``OneBitAdam`` of the engine, in fp32 over nccl."""

    scale: ClassVar[Scale] = "l2"
    workers = WORKERS
    sizes = SIZES
    takes: ClassVar[dict[str, Any]] = {"bias_correction": False, "variance_floor": 0.0}
    precision: ClassVar[Precision] = "fp32"
    transport = "nccl"

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        if hyper.variance_floor:
            raise NotImplementedError("DeepSpeed has no variance floor")
        if hyper.bias_correction:
            raise NotImplementedError("DeepSpeed takes bias_correction and does nothing with it")
        self.hyper, self.dim, self.steps = hyper, params_D.size, 0
        self.engine = self.made(params_D, n_workers).begun()

    def made(self, params_D: Array, n_workers: int, **params: Any) -> Engine:
        """The engines, with what all 1-bit optimizers take and ``params``."""
        given = asdict(self.hyper)
        return Engine(
            self.precision, self.transport, self.parts(params_D), n_workers=n_workers,
            betas=(given["beta1"], given["beta2"]), freeze_step=given["freeze_step"] + 1,
            **{name: given[name] for name in ("lr", "eps", "weight_decay")}, **params,
        )  # fmt: skip

    def parts(self, array_D: Array) -> list[Array]:
        """One array a parameter tensor."""
        return [array_D]

    def step(self, grads_ND: Array) -> None:
        finite = bool(np.isfinite(grads_ND).all())
        if not finite and self.precision != "fp16":
            raise NotImplementedError("NaN and infinity: findings of their own")
        if finite and np.abs(grads_ND).max() > LARGEST:
            raise NotImplementedError("squares that overflow: a finding of its own")
        with np.errstate(all="ignore"):
            mean_D = grads_ND.mean(axis=0, dtype=np.float32)
        if not (fits(grads_ND, self.precision) and fits(mean_D, self.precision)):
            raise NotImplementedError(f"the gradients and their mean must be numbers of {self.precision}")
        parts_N = [self.parts(grad_D) for grad_D in grads_ND]
        self.engine.step(*(parts if len(parts) > 1 else parts[0] for parts in parts_N))
        self.steps += finite
        if finite and self.steps == self.hyper.freeze_step:
            self.leave_out()

    def leave_out(self) -> None:
        """Refuse what the freeze finds, where that is a finding of its own."""
        if not all(v_D.all() for v_D in self.engine.variance):
            raise NotImplementedError("coordinates without variance: a finding of its own")

    def snapshot(self) -> Snapshot:
        return Snapshot(**self.common(self.engine.seen()))

    def common(self, seen: list[dict[str, Any]]) -> dict[str, Any]:
        """What all 1-bit optimizers have, from what each worker has."""
        rows = {name: np.stack([np.concatenate(row[name]) for row in seen]) for name in ("params", "worker_error")}
        chunks, first = [row["server_error"][0] for row in seen], seen[0]
        return {
            "params_ND": rows["params"],
            "momentum_D": np.concatenate(first["momentum"]),
            "variance_D": np.concatenate(first["variance"]),
            "worker_errors_ND": rows["worker_error"],
            "server_error_D": np.concatenate(chunks)[: self.dim] if chunks[0].size else np.zeros(self.dim, np.float32),
            "step": first["step"] - (self.precision == "fp32"),
        }


class DeepSpeedOptimizerFp16(DeepSpeedOptimizer):
    """The same in fp16."""

    precision = "fp16"


class DeepSpeedOptimizerBf16(DeepSpeedOptimizer):
    """The same in bf16."""

    precision = "bf16"


class DeepSpeedOptimizerCompressed(DeepSpeedOptimizer):
    """fp32 over the transport compressed."""

    transport = "compressed"
