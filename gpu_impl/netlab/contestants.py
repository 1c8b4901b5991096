"""Who is measured: ways to train the same model on N workers, each an entry in ``CONTESTANTS``.

A new one is a function from a model and a process group to a :class:`Training`, an entry here, and its formula in
``paper_figures/netlab/volumes.py``. Everything it sends must go over the group that it is given: the lab also runs it
on a group that sends nothing, to see what it costs without a network, and which collectives it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from gpu_impl.netlab.layers import Layers
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from gpu_impl.optimizer.one_bit_adam import OneBitAdam

LR = 1e-4
FREEZE_STEP = 2
"""The shortest warm-up: what is measured is the stage after it."""
NEVER = 2**40
PREPARATION = FREEZE_STEP + 2
"""Steps before anything is measured: over the freeze, DDP's new buckets and PowerSGD's start."""
POWER_SGD_RANK = 1
WHOLE_MODEL = 2**20
"""Megabytes of a bucket that holds any model."""
SCALE_BLOCK = 256


@dataclass
class Training:
    """A model in training.

    Attributes:
        model: the network.
        module: what is called with its inputs.
        optimizer: what steps.
    """

    model: Layers
    module: nn.Module
    optimizer: Any

    def step(self, inputs: Tensor, targets: Tensor) -> None:
        """One whole step of training."""
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.module(inputs), targets).backward()
        self.optimizer.step()


Group = dist.ProcessGroup
Build = Callable[[Layers, Group], Training]


@dataclass(frozen=True)
class Contestant:
    """A way to train.

    Attributes:
        title: in tables.
        bits: of a parameter on the wire, roughly: only for planning how long a measurement takes.
        build: sets it up.
    """

    title: str
    bits: float
    build: Build


def alone(model: Layers) -> Training:
    """Each worker for itself: what a step costs without anything being exchanged. No contestant."""
    return Training(model, model, _adam(model))


def ddp(model: Layers, group: Group) -> Training:
    """``DistributedDataParallel`` as it comes, with Adam."""
    return Training(model, _ddp(model, group), _adam(model))


def ddp_fp16(model: Layers, group: Group) -> Training:
    """The same with torch's hook that sends float16."""
    return _hooked(model, group, group, default_hooks.fp16_compress_hook)


def ddp_bf16(model: Layers, group: Group) -> Training:
    """The same with torch's hook that sends bfloat16; by its name, DDP refuses it where there is no NCCL."""
    unnamed = lambda state, bucket: default_hooks.bf16_compress_hook(state, bucket)  # noqa: E731, PLW0108
    return _hooked(model, group, group, unnamed)


def power_sgd(model: Layers, group: Group) -> Training:
    """The same with torch's PowerSGD hook (Vogels et al. 2019), rank 1, error feedback and warm start as it comes.

    With one bucket: the hook starts its later collectives in callbacks, and those of two buckets in an order that
    differs between workers. gloo matches collectives by their order, so workers with two buckets abort.
    """
    state = powerSGD_hook.PowerSGDState(
        group, matrix_approximation_rank=POWER_SGD_RANK, start_powerSGD_iter=FREEZE_STEP, random_seed=0
    )
    return _hooked(model, group, state, powerSGD_hook.powerSGD_hook, bucket_cap_mb=WHOLE_MODEL)


def warm_up(model: Layers, group: Group) -> Training:
    """1-bit Adam that has not frozen its variance."""
    return _one_bit(model, group, freeze_step=NEVER)


def published(model: Layers, group: Group) -> Training:
    """1-bit Adam in its compression stage, as published."""
    return _one_bit(model, group)


def update_form(model: Layers, group: Group) -> Training:
    """The same, with the update compressed in place of the momentum [C12]."""
    return _one_bit(model, group, compress="update")


def block_scales(model: Layers, group: Group) -> Training:
    """The same, with a scale for every 256 elements [C13]."""
    return _one_bit(model, group, scale_block=SCALE_BLOCK)


def in_nodes(model: Layers, mesh: DeviceMesh, freeze_step: int = FREEZE_STEP) -> Training:
    """1-bit Adam as published between nodes, full precision inside [C15]; the mesh is (nodes, workers of a node)."""
    between, inside = mesh["between"].get_group(), mesh["inside"].get_group()
    return _one_bit(model, between, freeze_step=freeze_step, node_group=inside)


def ddp_hook(model: Layers, group: Group) -> Training:
    """1-bit Adam as published, in DDP's communication hook."""
    optimizer = HookedOneBitAdam(model.parameters(), lr=LR, freeze_step=FREEZE_STEP, process_group=group)
    module = _ddp(model, group)
    optimizer.attach(module)
    return Training(model, module, optimizer)


def _adam(model: Layers) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=LR, fused=True)


def _ddp(model: Layers, group: Group, **settings: Any) -> DistributedDataParallel:
    return DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True, **settings)


def _hooked(model: Layers, group: Group, state: object, hook: Callable[..., Any], **settings: Any) -> Training:
    module = _ddp(model, group, **settings)
    module.register_comm_hook(state, hook)
    return Training(model, module, _adam(model))


def _one_bit(model: Layers, group: Group, *, freeze_step: int = FREEZE_STEP, **settings: Any) -> Training:
    optimizer = OneBitAdam(model.parameters(), lr=LR, freeze_step=freeze_step, process_group=group, **settings)
    return Training(model, model, optimizer)


CONTESTANTS: dict[str, Contestant] = {
    "ddp": Contestant("DDP, Adam, fp32", 32, ddp),
    "ddp-fp16": Contestant("DDP, fp16 hook", 16, ddp_fp16),
    "ddp-bf16": Contestant("DDP, bf16 hook", 16, ddp_bf16),
    "powersgd": Contestant("DDP, PowerSGD hook, rank 1", 1, power_sgd),
    "warm-up": Contestant("1-bit Adam, warm-up", 32, warm_up),
    "1-bit": Contestant("1-bit Adam", 1, published),
    "1-bit-update": Contestant("1-bit Adam, update form", 1, update_form),
    "1-bit-blocks": Contestant("1-bit Adam, a scale for 256", 1 + 32 / SCALE_BLOCK, block_scales),
    "1-bit-hook": Contestant("1-bit Adam, DDP hook", 1, ddp_hook),
}
"""In the order of the tables."""
IN_NODES: dict[str, Callable[[Layers, DeviceMesh], Training]] = {
    "warm-up-nodes": lambda model, mesh: in_nodes(model, mesh, NEVER),
    "1-bit-nodes": in_nodes,
}
"""Those that know of nodes."""
