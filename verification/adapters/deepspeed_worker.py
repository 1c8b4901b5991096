"""One rank of DeepSpeed's 1-bit Adam: started by ``deepspeed_adam``, obeys pickled commands on standard input.

It stands in for DeepSpeed's engine, and for nothing else: it averages gradients over ranks while the optimizer leaves
``enable_backward_allreduce`` on, as the engine does. Runs as a script, so that it needs nothing of this repository.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import types
from importlib import import_module
from typing import Any

import numpy as np
import torch

KEPT_RUNS = 64
"""Runs that are remembered; older ones are over."""


class Packer:
    """``packbits`` and ``unpackbits`` as in DeepSpeed's csrc/xpu/packbits/packing.cpp, which is compiled for XPU only.

    The bit is ``not signbit(x)``, the first element is the highest bit of its byte.
    """

    def packbits(self, tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
        return torch.from_numpy(np.packbits(~np.signbit(tensor.numpy()[:size])))

    def unpackbits(self, tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
        return torch.from_numpy(np.unpackbits(tensor.numpy()).astype(np.float32) * 2 - 1)


class Rank:
    """A DeepSpeed process group of ``size`` gloo ranks, and the optimizer of one run after another."""

    def __init__(self, rank: int, size: int, rendezvous: str) -> None:
        # imported here, for it takes seconds and is not installed everywhere
        dist: Any = import_module("deepspeed.comm")
        compressed: Any = import_module("deepspeed.runtime.comm.compressed")
        torch.set_num_threads(1)
        compressed.PackbitsBuilder = lambda: types.SimpleNamespace(load=Packer)
        dist.init_distributed(
            "gloo",
            auto_mpi_discovery=False,
            init_method=f"file://{rendezvous}",
            rank=rank,
            world_size=size,
            verbose=False,
        )
        gather = compressed.dist.all_gather  # gloo insists on equal shapes where NCCL does not: () is sent for (1,)
        compressed.dist.all_gather = lambda into, one, group: gather(into, one.reshape(into[0].shape), group=group)
        self.rank, self.size = rank, size
        self.runs: dict[int, Any] = {}
        group = torch.distributed.group.WORLD
        self.mpu = types.SimpleNamespace(get_data_parallel_group=lambda: group)
        self.backend = compressed.CompressedBackend(self.mpu)

    def allreduce(self, buffer_D: Any, worker_error_D: Any, server_error_D: Any) -> Any:
        """DeepSpeed's collective on a padded error buffer, as its optimizer makes it."""
        dim, padded = buffer_D.size, self.padded(buffer_D.size)
        worker_error, server_error = torch.zeros(padded), torch.zeros(padded)
        worker_error[:dim], server_error[:dim] = torch.from_numpy(worker_error_D), torch.from_numpy(server_error_D)
        own = server_error.reshape(self.size, -1)[self.rank].clone()
        out = self.backend.compressed_allreduce(torch.from_numpy(buffer_D).clone(), worker_error, own, 0)
        return out.numpy(), worker_error.numpy()[:dim], own.numpy()

    def padded(self, dim: int) -> int:
        """The optimizer's ``corrected_tensor_size``."""
        unit = self.size * int(self.size * 8 / np.gcd(self.size, 8))
        return -(-dim // unit) * unit

    def start(self, run: int, params_D: Any, hyper: dict[str, Any]) -> None:
        adam: Any = import_module("deepspeed.runtime.fp16.onebit.adam")
        engine = types.SimpleNamespace(mpu=self.mpu, local_rank=0, enable_backward_allreduce=True)
        param = torch.nn.Parameter(torch.from_numpy(params_D.copy()))
        optimizer = adam.OnebitAdam(
            [param],
            deepspeed=engine,
            lr=hyper["lr"],
            freeze_step=hyper["freeze_step"],
            bias_correction=hyper["bias_correction"],
            betas=(hyper["beta1"], hyper["beta2"]),
            eps=hyper["eps"],
            weight_decay=hyper["weight_decay"],
            comm_backend_name="compressed",
        )
        self.runs[run] = (engine, param, optimizer)
        self.runs.pop(run - KEPT_RUNS, None)

    def step(self, run: int, grad_D: Any) -> None:
        engine, param, optimizer = self.runs[run]
        grad = torch.from_numpy(grad_D.copy())
        if engine.enable_backward_allreduce:
            torch.distributed.all_reduce(grad)
            grad /= self.size
        param.grad = grad
        optimizer.step()

    def snapshot(self, run: int) -> dict[str, Any]:
        _, param, optimizer = self.runs[run]
        state, dim = optimizer.state.get(param, {}), param.numel()
        zeros = torch.zeros(dim)
        own = state.get("server_error", torch.zeros(self.padded(dim) // self.size))
        return {
            "params": param.detach().numpy().copy(),
            "momentum": state.get("exp_avg", zeros).numpy().copy(),
            "variance": state.get("exp_avg_sq", zeros).numpy().copy(),
            "worker_error": state.get("worker_error", zeros).numpy()[:dim].copy(),
            "server_error": own.numpy().copy(),
            "step": int(state.get("step", 0)),
        }

    def save(self, run: int) -> bytes:
        _, param, optimizer = self.runs[run]
        buffer = io.BytesIO()
        torch.save({"params": param.detach(), "optimizer": optimizer.state_dict()}, buffer)
        return buffer.getvalue()

    def load(self, run: int, data: bytes) -> None:
        _, param, optimizer = self.runs[run]
        stored = torch.load(io.BytesIO(data), weights_only=False)
        with torch.no_grad():
            param.copy_(stored["params"])
        optimizer.load_state_dict(stored["optimizer"])


def main() -> None:
    """Obey commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # DeepSpeed prints; answers must not be mixed with that
    rank = Rank(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    while True:
        try:
            command, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (True, getattr(rank, command)(*arguments))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
