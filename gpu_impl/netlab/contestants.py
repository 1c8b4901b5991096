"""Who is measured: ways to train the same model on N workers, each an entry in ``CONTESTANTS``.

A new one is a function from a model, a process group and a recipe to a :class:`Training`, an entry here, and its
formula in ``paper_figures/netlab/volumes.py``. Everything it sends must go over the group that it is given: the lab
also runs it on a group that sends nothing, to see what it costs without a network, and which collectives it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from gpu_impl.netlab.diloco import DiLoCo
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from gpu_impl.optimizer.one_bit_adam import OneBitAdam
from gpu_impl.optimizer.one_bit_lamb import OneBitLamb
from gpu_impl.optimizer.zero_one_adam import ZeroOneAdam

FREEZE_STEP = 2
"""The shortest warm-up: what the lab measures is the stage after it."""
NEVER = 2**40
PREPARATION = FREEZE_STEP + 2
"""Steps before anything is measured: over the freeze, DDP's new buckets and PowerSGD's start."""
POWER_SGD_RANK = 1
WHOLE_MODEL = 2**20
"""Megabytes of a bucket that holds any model."""
SCALE_BLOCK = 256
LONGEST = 16
"""Steps from one meeting of 0/1 Adam's workers to the next, once it does not grow any more; as published."""

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Recipe:
    """What a contestant is told about the training.

    Attributes:
        lr: learning rate.
        freeze_step: T_w, the last step without compression; PowerSGD's too.
        bias_correction: whether 1-bit Adam corrects for zero initial moments [C5], as torch's Adam does.
        local_doubling: of 0/1 Adam: steps after T_w in which the interval between meetings doubles.
        sync_every: H of DiLoCo.
        loss: of outputs and targets.
    """

    lr: float = 1e-4
    freeze_step: int = FREEZE_STEP
    bias_correction: bool = False
    local_doubling: int = 1
    sync_every: int = 50
    loss: Loss = nn.functional.mse_loss


LAB = Recipe()
"""The stage after the warm-up, as soon as it can be had."""


@dataclass
class Training:
    """A model in training.

    Attributes:
        module: what is called with its inputs.
        optimizer: what steps.
        loss: of outputs and targets.
    """

    module: nn.Module
    optimizer: Any
    loss: Loss

    def step(self, inputs: Tensor, targets: Tensor) -> None:
        """One whole step of training."""
        self.optimizer.zero_grad()
        self.loss(self.module(inputs), targets).backward()
        self.optimizer.step()


Group = dist.ProcessGroup
Build = Callable[[nn.Module, Group, Recipe], Training]


@dataclass(frozen=True)
class Contestant:
    """A way to train.

    Attributes:
        title: in tables.
        bits: of a parameter on the wire in a step, roughly: only for planning how long a measurement takes.
        build: sets it up.
        period: steps after which what it sends is repeated; what the lab measures is the mean over one.
    """

    title: str
    bits: float
    build: Build
    period: int = 1


def alone(model: nn.Module) -> Training:
    """Each worker for itself: what a step costs without anything being exchanged. No contestant."""
    return Training(model, _adam(model, LAB), LAB.loss)


def ddp(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """``DistributedDataParallel`` as it comes, with Adam."""
    return Training(_ddp(model, group), _adam(model, recipe), recipe.loss)


def ddp_fp16(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """The same with torch's hook that sends float16."""
    return _hooked(model, group, recipe, group, default_hooks.fp16_compress_hook)


def ddp_bf16(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """The same with torch's hook that sends bfloat16; by its name, DDP refuses it where there is no NCCL."""
    unnamed = lambda state, bucket: default_hooks.bf16_compress_hook(state, bucket)  # noqa: E731, PLW0108
    return _hooked(model, group, recipe, group, unnamed)


def power_sgd(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """The same with torch's PowerSGD hook (Vogels et al. 2019), rank 1, error feedback and warm start as it comes.

    With one bucket: the hook starts its later collectives in callbacks, and those of two buckets in an order that
    differs between workers. gloo matches collectives by their order, so workers with two buckets abort.
    """
    state = powerSGD_hook.PowerSGDState(
        group, matrix_approximation_rank=POWER_SGD_RANK, start_powerSGD_iter=recipe.freeze_step, random_seed=0
    )
    return _hooked(model, group, recipe, state, powerSGD_hook.powerSGD_hook, bucket_cap_mb=WHOLE_MODEL)


def warm_up(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """1-bit Adam that has not frozen its variance."""
    return published(model, group, replace(recipe, freeze_step=NEVER))


def published(model: nn.Module, group: Group, recipe: Recipe, **settings: Any) -> Training:
    """1-bit Adam in its compression stage, as published."""
    optimizer = OneBitAdam(
        model.parameters(),
        lr=recipe.lr,
        freeze_step=recipe.freeze_step,
        bias_correction=recipe.bias_correction,
        process_group=group,
        **settings,
    )
    return Training(model, optimizer, recipe.loss)


def in_nodes(model: nn.Module, mesh: DeviceMesh, recipe: Recipe) -> Training:
    """1-bit Adam as published between nodes, full precision inside [C15]; the mesh is (nodes, workers of a node)."""
    between, inside = mesh["between"].get_group(), mesh["inside"].get_group()
    return published(model, between, recipe, node_group=inside)


def ddp_hook(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """1-bit Adam as published, in DDP's communication hook."""
    optimizer = HookedOneBitAdam(
        model.parameters(),
        lr=recipe.lr,
        freeze_step=recipe.freeze_step,
        bias_correction=recipe.bias_correction,
        process_group=group,
    )
    module = _ddp(model, group)
    optimizer.attach(module)
    return Training(module, optimizer, recipe.loss)


def zero_one(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """0/1 Adam: one bit a number from the first step on, and after T_w the workers meet less and less often."""
    optimizer = ZeroOneAdam(
        model.parameters(),
        lr=recipe.lr,
        freeze_step=recipe.freeze_step,
        local_doubling=recipe.local_doubling,
        local_limit=LONGEST,
        process_group=group,
    )
    return Training(model, optimizer, recipe.loss)


def one_bit_lamb(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """1-bit LAMB."""
    optimizer = OneBitLamb(model.parameters(), lr=recipe.lr, freeze_step=recipe.freeze_step, process_group=group)
    return Training(model, optimizer, recipe.loss)


def diloco(model: nn.Module, group: Group, recipe: Recipe) -> Training:
    """DiLoCo: workers walk alone, and meet rarely."""
    return Training(model, DiLoCo(model, recipe.lr, recipe.sync_every, group), recipe.loss)


def _adam(model: nn.Module, recipe: Recipe) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=recipe.lr, fused=True)


def _ddp(model: nn.Module, group: Group, **settings: Any) -> DistributedDataParallel:
    return DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True, **settings)


def _hooked(
    model: nn.Module, group: Group, recipe: Recipe, state: object, hook: Callable[..., Any], **settings: Any
) -> Training:
    module = _ddp(model, group, **settings)
    module.register_comm_hook(state, hook)
    return Training(module, _adam(model, recipe), recipe.loss)


CONTESTANTS: dict[str, Contestant] = {
    "ddp": Contestant("DDP, Adam, fp32", 32, ddp),
    "ddp-fp16": Contestant("DDP, fp16 hook", 16, ddp_fp16),
    "ddp-bf16": Contestant("DDP, bf16 hook", 16, ddp_bf16),
    "powersgd": Contestant("DDP, PowerSGD hook, rank 1", 1, power_sgd),
    "warm-up": Contestant("1-bit Adam, warm-up", 32, warm_up),
    "1-bit": Contestant("1-bit Adam", 1, published),
    "1-bit-update": Contestant("1-bit Adam, update form", 1, partial(published, compress="update")),
    "1-bit-blocks": Contestant(
        "1-bit Adam, a scale for 256", 1 + 32 / SCALE_BLOCK, partial(published, scale_block=SCALE_BLOCK)
    ),
    "1-bit-hook": Contestant("1-bit Adam, DDP hook", 1, ddp_hook),
    "1-bit-lamb": Contestant("1-bit LAMB", 1, one_bit_lamb),
    "0/1": Contestant("0/1 Adam, a meeting in 16 steps", 1 / LONGEST, zero_one, period=LONGEST),
    "diloco": Contestant("DiLoCo, a meeting in 50 steps", 32 / LAB.sync_every, diloco, period=LAB.sync_every),
}
"""In the order of the tables."""
IN_NODES: dict[str, Callable[[nn.Module, DeviceMesh], Training]] = {
    "warm-up-nodes": lambda model, mesh: in_nodes(model, mesh, replace(LAB, freeze_step=NEVER)),
    "1-bit-nodes": lambda model, mesh: in_nodes(model, mesh, LAB),
}
"""Those that know of nodes."""
