"""One rank of DeepSpeed's own engine; ``loop.py`` runs it.

Everything is the package's own code, called as a training script calls it: ``deepspeed.initialize``,
``engine.backward``, ``engine.step``, ``engine.save_checkpoint``, ``engine.load_checkpoint``. What is put in its place
on a CPU, and no more:

- ``cupy``: ``packbits``, ``unpackbits``, ``split``, ``zeros`` and ``from_dlpack`` by NumPy, which has the same
  functions with the same bit order. ``deepspeed.runtime.comm.nccl`` then runs as it is, over gloo.
- ``PackbitsBuilder``: the package's packer is compiled for XPU only (csrc/xpu/packbits); here are its two loops in
  NumPy.
- ``all_gather`` of a scale: the shape () is sent as (1,), for gloo insists on equal shapes where NCCL does not.
- ``is_fp16_supported``: the CPU accelerator says no; that answer alone is overridden, so that the engine builds its
  fp16 wrapper. torch has every operation that it needs.
"""

from __future__ import annotations

import os
import sys
import types
from importlib import import_module
from typing import Any

import numpy as np
import torch

KEPT_RUNS = 8
"""Runs that are remembered; older ones are over."""
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


def numpy_as_cupy() -> types.ModuleType:
    """What ``deepspeed.runtime.comm.nccl`` and ``compression.cupy`` call of CuPy, by NumPy."""
    cupy: Any = types.ModuleType("cupy")
    for name in ("packbits", "unpackbits", "split", "zeros"):
        setattr(cupy, name, getattr(np, name))
    cupy.from_dlpack = lambda capsule: torch.from_dlpack(capsule).numpy()
    cupy.cuda = types.SimpleNamespace(
        Device=lambda _: types.SimpleNamespace(use=lambda: None),
        get_current_stream=lambda: types.SimpleNamespace(synchronize=lambda: None),
    )
    return cupy


class Packer:
    """csrc/xpu/packbits/packing.cpp: the bit is ``not signbit(x)``, the first element is the highest bit of its
    byte.
    """

    def packbits(self, tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
        return torch.from_numpy(np.packbits(~np.signbit(tensor.numpy()[:size])))

    def unpackbits(self, tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
        return torch.from_numpy((np.unpackbits(tensor.numpy()).astype(np.float32) - 0.5) * 2)


class Model(torch.nn.Module):
    """Parameters whose gradients are the numbers that the forward pass is given, exactly."""

    def __init__(self, arrays: list[Any]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.from_numpy(array.copy())) for array in arrays)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        # a parameter without gradient (None) takes no part, as one that a batch does not touch
        used = [(w * g.to(w.dtype)).sum() for w, g in zip(self.weights, gradients, strict=True) if g is not None]
        return torch.stack(used).sum()


class Run:
    """One engine: ``settings`` has precision, transport, optimizer (its type in DeepSpeed's configuration), params (of
    the optimizer) and config (more of the engine's).
    """

    def __init__(self, arrays: list[Any], settings: dict[str, Any]) -> None:
        deepspeed: Any = import_module("deepspeed")
        precision = settings["precision"]
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "steps_per_print": 10**9,
            "gradient_clipping": 0.0,  # its default is 1.0
            "optimizer": {
                "type": settings["optimizer"],
                "params": {**settings["params"], "comm_backend_name": settings["transport"]},
            },
            **({precision: {"enabled": True}} if precision in HALF else {}),
            **settings.get("config", {}),
        }
        static = settings["optimizer"] != "OneBitLamb"  # which insists on a dynamic scale
        if precision == "fp16" and static:
            config["fp16"] = {"enabled": True, "loss_scale": 1.0}  # static, so that gradients stay what they are
        self.model = Model(arrays)
        self.half = HALF.get(precision)
        self.engine, self.optimizer, _, _ = deepspeed.initialize(
            model=self.model, model_parameters=list(self.model.parameters()), config=config
        )
        if precision == "fp16" and not static:
            self.optimizer.loss_scale = 1.0  # it is doubled after 1,000 good steps, and never below 1
        if self.half is not None:  # masters as exact as the parameters that were given, not their half-precision copies
            flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
            for p, part in zip(self.masters, flat.split([p.numel() for p in self.masters]), strict=True):
                p.data.copy_(part.view_as(p))

    @property
    def inner(self) -> Any:
        """The 1-bit optimizer itself."""
        return self.optimizer if self.half is None else self.optimizer.optimizer

    @property
    def masters(self) -> list[torch.Tensor]:
        """What it updates: the parameters, their float32 copies (OnebitLamb), or the flat copy of each group."""
        return list(self.inner.param_groups[0]["params"])

    def step(self, gradients: list[Any]) -> None:
        tensors = [None if g is None else torch.from_numpy(g.copy()) for g in gradients]
        self.engine.backward(self.engine(*tensors))
        self.engine.step()

    def snapshot(self) -> dict[str, Any]:
        rows: dict[str, Any] = {name: [] for name in ("params", "momentum", "variance", "worker_error", "server_error")}
        step = 0
        for p in self.masters:
            state, zeros = self.inner.state.get(p, {}), torch.zeros(p.numel())
            rows["params"].append(p.detach())
            rows["momentum"].append(state.get("exp_avg", zeros))
            rows["variance"].append(state.get("exp_avg_sq", zeros))
            rows["worker_error"].append(state.get("worker_error", zeros)[: p.numel()])
            rows["server_error"].append(state.get("server_error", torch.zeros(0)))
            step = int(state.get("step", 0))
        if fused := getattr(self.inner, "worker_errors", None):  # OnebitLamb has one buffer for all parameters
            rows["worker_error"] = [fused[0][: sum(p.numel() for p in self.masters)]]
            rows["server_error"] = [self.inner.server_errors[0]]
        arrays = {name: [t.detach().numpy().ravel().copy() for t in row] for name, row in rows.items()}
        # the wrapper's constructor has taken one step, on zeros
        more = {"step": step - (self.half is not None), "skipped": self.engine.skipped_steps}
        return {
            **arrays,
            **more,
            "state": [plain(self.inner.state.get(p, {})) for p in self.masters],
        } | self.next_scales()

    def next_scales(self) -> dict[str, Any]:
        """Of OnebitLamb at the freeze: the scale of each parameter, which its next step will compute and keep."""
        states = [self.inner.state.get(p, {}) for p in self.masters]
        if not getattr(self.inner, "lamb_freeze_key", False) or "scaling_coeff" in states[0]:
            return {}
        sizes = [(torch.linalg.vector_norm(one["exp_avg"]) / np.sqrt(one["exp_avg"].numel())).item() for one in states]
        mean = sum(sizes) / len(sizes)
        return {"next_scales": [mean / size if size else 1.0 for size in sizes]}


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """What an optimizer remembers of one parameter, as NumPy arrays and numbers."""
    return {
        name: one.detach().numpy().ravel().copy() if isinstance(one, torch.Tensor) else one
        for name, one in state.items()
    }


class Rank:
    """A gloo rank with DeepSpeed's process group, and one engine after another."""

    def __init__(self, rank: int, size: int, rendezvous: str) -> None:
        # imported here, for it takes seconds and is not installed everywhere
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        sys.modules["cupy"] = numpy_as_cupy()
        dist: Any = import_module("deepspeed.comm")
        compressed: Any = import_module("deepspeed.runtime.comm.compressed")
        nccl: Any = import_module("deepspeed.runtime.comm.nccl")
        accelerator: Any = import_module("deepspeed.accelerator").get_accelerator()
        torch.set_num_threads(1)
        accelerator.is_fp16_supported = lambda: True
        compressed.PackbitsBuilder = lambda: types.SimpleNamespace(load=Packer)
        dist.init_distributed(
            "gloo",
            auto_mpi_discovery=False,
            init_method=f"file://{rendezvous}",
            rank=rank,
            world_size=size,
            verbose=False,
        )
        gather = dist.all_gather
        dist.all_gather = lambda into, one, group=None: gather(into, one.reshape(into[0].shape), group=group)
        self.rank, self.size = rank, size
        self.runs: dict[int, Run] = {}
        self.backends = {"compressed": compressed.CompressedBackend(), "nccl": nccl.NcclBackend()}

    def allreduce(self, transport: str, buffer_D: Any, worker_error_D: Any, server_error_D: Any) -> Any:
        """The collective of ``transport`` on error buffers padded as the optimizer pads them."""
        dim, padded = buffer_D.size, self.padded(buffer_D.size)
        worker_error, server_error = torch.zeros(padded), torch.zeros(padded)
        worker_error[:dim], server_error[:dim] = torch.from_numpy(worker_error_D), torch.from_numpy(server_error_D)
        own = server_error.reshape(self.size, -1)[self.rank].clone()
        out = self.backends[transport].compressed_allreduce(
            torch.from_numpy(buffer_D).clone(), worker_error, own, self.rank
        )
        return out.numpy().copy(), worker_error.numpy()[:dim].copy(), own.numpy().copy()

    def padded(self, dim: int) -> int:
        """The optimizer's ``corrected_tensor_size``."""
        unit = self.size * int(self.size * 8 / np.gcd(self.size, 8))
        return -(-dim // unit) * unit

    def start(self, run: int, arrays: list[Any], settings: dict[str, Any]) -> None:
        """A new engine, remembered as ``run``."""
        self.runs.pop(run - KEPT_RUNS, None)
        self.runs[run] = Run(arrays, settings)

    def step(self, run: int, gradients: list[Any]) -> None:
        self.runs[run].step(gradients)

    def snapshot(self, run: int) -> dict[str, Any]:
        return self.runs[run].snapshot()

    def option(self, run: int, name: str, value: Any) -> None:
        """What the user sets in the parameter group: ``exp_avg_mask``, ``lr``."""
        group = self.runs[run].inner.param_groups[0]
        group[name] = torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    def save(self, run: int, folder: str) -> None:
        """``engine.save_checkpoint``: rank 0 writes."""
        self.runs[run].engine.save_checkpoint(folder, tag="saved")

    def load(self, run: int, folder: str) -> None:
        """``engine.load_checkpoint``, on every rank."""
        path, _ = self.runs[run].engine.load_checkpoint(folder, tag="saved")
        if path is None:
            raise RuntimeError(f"DeepSpeed found no checkpoint in {folder}")
