"""One worker's share of DeepSpeed's own 1-bit Adam, timed: a script for a Python that has deepspeed 0.19.6.

``deepspeed_package`` starts it with D, N and the number of threads. It takes optimizer steps of the package itself; the
collectives copy what they are given, as if all workers had sent the same. It says the package's version when the
compression stage has begun; then it answers each number of steps on standard input with their seconds.
"""

from __future__ import annotations

import os
import sys
import types
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np
import torch


class Packer:
    """``packbits`` and ``unpackbits`` by NumPy: DeepSpeed's own are compiled for XPU only (csrc/xpu/packbits)."""

    def packbits(self, tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
        return torch.from_numpy(np.packbits(~np.signbit(tensor.numpy()[:size])))

    def unpackbits(self, tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
        return torch.from_numpy(np.unpackbits(tensor.numpy()).astype(np.float32) * 2 - 1)


class NoNetwork:
    """In place of ``deepspeed.comm``: rank 0 of ``size``, whose collectives are copies."""

    def __init__(self, size: int) -> None:
        self.size = size

    def is_initialized(self) -> bool:
        return True

    def get_world_size(self, group: object = None) -> int:
        return self.size

    def get_rank(self, group: object = None) -> int:
        return 0

    def all_to_all_single(self, received: torch.Tensor, sent: torch.Tensor, group: object = None) -> None:
        received.copy_(sent)

    def all_gather(self, received: list[torch.Tensor], sent: torch.Tensor, group: object = None) -> None:
        for part in received:
            part.copy_(sent)


def main() -> None:
    """Prepare, say the version, obey."""
    dim, n_workers, threads = map(int, sys.argv[1:4])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # DeepSpeed prints; answers must not be mixed with that
    torch.set_num_threads(threads)
    compressed: Any = import_module("deepspeed.runtime.comm.compressed")
    adam: Any = import_module("deepspeed.runtime.fp16.onebit.adam")
    compressed.PackbitsBuilder = lambda: types.SimpleNamespace(load=Packer)
    compressed.dist = adam.dist = NoNetwork(n_workers)

    mpu = types.SimpleNamespace(get_data_parallel_group=lambda: None)
    engine = types.SimpleNamespace(mpu=mpu, local_rank=0, enable_backward_allreduce=True)
    param = torch.nn.Parameter(torch.empty(dim).normal_())
    param.grad = torch.empty(dim).normal_()
    optimizer = adam.OnebitAdam(
        [param], deepspeed=engine, freeze_step=2, bias_correction=False, comm_backend_name="compressed"
    )
    for _ in range(3):  # its initialisation, one step of Adam, the first compressed step
        optimizer.step()
    if engine.enable_backward_allreduce:
        raise RuntimeError("the compression stage has not begun")
    print(import_module("deepspeed").__version__, file=answers)

    for line in sys.stdin:
        start = perf_counter()
        for _ in range(int(line)):
            optimizer.step()
        print(perf_counter() - start, file=answers)


if __name__ == "__main__":
    main()
