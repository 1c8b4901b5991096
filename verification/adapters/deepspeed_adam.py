"""DeepSpeed 0.19.6's 1-bit Adam (the last release that had it): two or four gloo processes on the CPU.

The package is looked for in ``$ONEBIT_DEEPSPEED_PYTHON`` (a Python that has it), else in this one. Its sign packer is
compiled for XPU only; ``deepspeed_worker.Packer`` does the same operations. On one worker it does not compress, and on
three its chunks are multiples of 24, so both are left out.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from verification.protocol import Array, Hyper, Scale, Snapshot

WORKER = Path(__file__).with_name("deepspeed_worker.py")


class Ranks:
    """``size`` processes that stay alive from one run to the next; all get a command before any is waited for."""

    _alive: ClassVar[dict[int, Ranks]] = {}

    def __init__(self, size: int) -> None:
        python = os.environ.get("ONEBIT_DEEPSPEED_PYTHON", sys.executable)
        rendezvous = Path(tempfile.mkdtemp(prefix="onebit-deepspeed-")) / "rendezvous"
        environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
        self.processes = [
            subprocess.Popen(
                [python, "-W", "ignore", str(WORKER), str(rank), str(size), str(rendezvous)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            for rank in range(size)
        ]
        atexit.register(self.close)

    @classmethod
    def of(cls, size: int) -> Ranks:
        """The processes for ``size`` workers, started when first asked for."""
        if size not in (2, 4):
            raise NotImplementedError(f"DeepSpeed is driven with 2 or 4 workers here, not {size}")
        if size not in cls._alive:
            cls._alive[size] = cls(size)
        return cls._alive[size]

    def call(self, command: str, *rows: tuple[Any, ...]) -> list[Any]:
        """Send ``command`` with ``rows[i]`` to rank i (no rows: without arguments) and return the answers."""
        for i, process in enumerate(self.processes):
            assert process.stdin is not None
            try:
                pickle.dump((command, rows[i] if rows else ()), process.stdin)
                process.stdin.flush()
            except BrokenPipeError:
                raise RuntimeError("the DeepSpeed process ended: is deepspeed 0.19.6 installed there?") from None
        answers = []
        for process in self.processes:
            assert process.stdout is not None
            try:
                answers.append(pickle.load(process.stdout))
            except EOFError:
                raise RuntimeError("the DeepSpeed process ended: is deepspeed 0.19.6 installed there?") from None
        for good, answer in answers:
            if not good:
                raise RuntimeError(answer)
        return [answer for _, answer in answers]

    def close(self) -> None:
        """End the processes that this object started."""
        for process in self.processes:
            process.kill()
            process.wait()


_RUNS = itertools.count()


def _join(chunks: list[Array], dim: int) -> Array:
    return np.concatenate(chunks)[:dim]


class DeepSpeedCollective:
    """``deepspeed.runtime.comm.compressed.CompressedBackend.compressed_allreduce``."""

    scale: ClassVar[Scale] = "l2"
    workers = (2, 4)

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array
    ) -> tuple[Array, Array, Array]:
        n, dim = buffers_ND.shape
        rows = [
            (np.array(b), np.array(e), np.array(server_error_D))
            for b, e in zip(buffers_ND, worker_errors_ND, strict=True)
        ]
        outputs, errors, chunks = zip(*Ranks.of(n).call("allreduce", *rows), strict=True)
        return outputs[0], np.stack(errors), _join(list(chunks), dim)


class DeepSpeedOptimizer:
    """``deepspeed.runtime.fp16.onebit.adam.OnebitAdam``."""

    scale: ClassVar[Scale] = "l2"
    workers = (2, 4)

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        if hyper.variance_floor:
            raise NotImplementedError("DeepSpeed has no variance floor")
        self.ranks, self.dim = Ranks.of(n_workers), params_D.size
        self.run = next(_RUNS)
        self.ranks.call("start", *[(self.run, params_D, asdict(hyper))] * n_workers)

    def step(self, grads_ND: Array) -> None:
        self.ranks.call("step", *[(self.run, row_D) for row_D in grads_ND])

    def snapshot(self) -> Snapshot:
        seen = self.ranks.call("snapshot", *[(self.run,)] * len(self.ranks.processes))
        rows = {name: np.stack([row[name] for row in seen]) for name in ("params", "worker_error")}
        server_error_D = _join([row["server_error"] for row in seen], self.dim)
        first = seen[0]
        return Snapshot(
            rows["params"], first["momentum"], first["variance"], rows["worker_error"], server_error_D, first["step"]
        )

    def save(self) -> bytes:
        """The checkpoint that DeepSpeed writes: rank 0's."""
        return self.ranks.call("save", *[(self.run,)] * len(self.ranks.processes))[0]

    def load(self, data: bytes, n_workers: int) -> None:
        """Continue from it on every rank."""
        self.ranks.call("load", *[(self.run, data)] * n_workers)


class DeepSpeedOptimizerAfterItsFirstStep(DeepSpeedOptimizer):
    """The same, after a first step with zero gradients, which it drops: so that what comes later can be seen."""

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        super().start(params_D, n_workers, Hyper(**{**asdict(hyper), "freeze_step": hyper.freeze_step + 1}))
        super().step(np.zeros((n_workers, params_D.size), np.float32))

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        return Snapshot(**{**vars(seen), "step": seen.step - 1})
