"""Our own NumPy reference, as anybody else would have it checked."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import reference
from verification.algorithms import ALGORITHMS
from verification.protocol import EXTENSIONS, Array, Scale, Snapshot


class ReferenceCollective:
    """``reference.compressed_allreduce`` with the l2 scale."""

    scale: ClassVar[Scale] = "l2"
    scale_block: ClassVar[int | None] = None

    def __init__(self) -> None:
        self.sent_N: Array | None = None

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array
    ) -> tuple[Array, Array, Array]:
        result = reference.compressed_allreduce(
            buffers_ND, worker_errors_ND, server_error_D, scale=self.scale, scale_block=self.scale_block
        )
        self.sent_N = result.bytes_per_worker
        return result.output_D, result.worker_errors_ND, result.server_error_D

    def bytes_per_worker(self) -> Array | None:
        """Bytes that each worker sent in the last call (N,)."""
        return self.sent_N


class ReferenceCollectiveL1(ReferenceCollective):
    """The same with the l1 scale."""

    scale: ClassVar[Scale] = "l1"


class ReferenceCollectiveBlocks(ReferenceCollective):
    """The same with a scale for every 40 elements."""

    scale_block = 40


class ReferenceOptimizer:
    """``reference.OneBitAdam``."""

    algorithm: ClassVar[str] = "one_bit_adam"
    extensions: ClassVar[tuple[str, ...]] = EXTENSIONS

    optimizer: reference.Optimizer
    state: reference.State

    def made(self, hyper: Any) -> reference.Optimizer:
        """The optimizer of a run."""
        return ALGORITHMS[self.algorithm].reference(hyper)

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        self.hyper, self.optimizer = hyper, self.made(hyper)
        self.state = self.optimizer.init(params_D, n_workers)

    def step(self, grads_ND: Array) -> None:
        self.state = self.optimizer.step(self.state, grads_ND)

    def snapshot(self) -> Any:
        s = self.state
        params_ND = np.tile(s.params, (s.n_workers, 1))  # the reference keeps one copy for all workers
        return Snapshot(params_ND, s.momentum, s.variance, s.worker_errors, s.server_error, s.step)

    def save(self) -> bytes:
        """Checkpoint."""
        return reference.save(self.state)

    def load(self, data: bytes, n_workers: int) -> None:
        """Continue from a checkpoint, on any number of workers."""
        self.state = reference.resize(reference.load(data), n_workers)
