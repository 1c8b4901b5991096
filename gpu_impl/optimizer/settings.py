"""Checks of the optimizer's arguments: one sentence that names the argument, what it must be, and what was given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.tensor import DTensor

from gpu_impl.kernels.arguments import FLOATS, FROZEN_DTYPES, check_beta, check_scale, check_scale_block
from gpu_impl.kernels.select import BACKENDS
from gpu_impl.kernels.state import LARGEST, SMALLEST
from gpu_impl.optimizer.flat_params import refuse_shared
from gpu_impl.optimizer.freeze_rule import RULES

DEFAULT_VARIANCE_FLOOR = 1e-3
"""kappa [C7]; docs/algorithm.md says what it is for."""

DEFAULT_BUCKET_ELEMENTS = 2**24
"""Elements of a bucket: large enough for the network's bandwidth, small enough that several overlap."""

COMPRESS = ("momentum", "update")
"""What can be compressed [C12]."""


@dataclass(frozen=True)
class Settings:
    """What holds for a whole run; :class:`gpu_impl.OneBitAdam` says what each means.

    Raises:
        ValueError: a value is not allowed.
    """

    freeze_step: int | str
    scale: str
    variance_floor: float
    bias_correction: bool
    max_grad_norm: float | None
    lr_warmup_steps: int
    bucket_elements: int
    compress: str = "momentum"
    scale_block: int | None = None
    frozen_dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.freeze_step not in RULES:
            check_integer("freeze_step", self.freeze_step, 1, ', "auto" or "paper"')
        check_scale(self.scale)
        check_number("variance_floor", self.variance_floor)
        if not isinstance(self.bias_correction, bool):
            raise ValueError(f"bias_correction must be True or False, got {self.bias_correction!r}")
        if self.max_grad_norm is not None:
            check_number("max_grad_norm", self.max_grad_norm, strict=True)
        check_integer("lr_warmup_steps", self.lr_warmup_steps, 0)
        check_integer("bucket_elements", self.bucket_elements, 1)
        check_form(self.compress, self.scale_block, self.frozen_dtype)

    @property
    def extensions(self) -> dict[str, Any]:
        """What the kernels must have beyond the published algorithm."""
        return {"compress": self.compress, "scale_block": self.scale_block, "frozen_dtype": self.frozen_dtype}


def check_form(compress: Any, scale_block: Any, frozen_dtype: Any) -> None:
    """Check what makes a form other than the published one [C12, C13, C14].

    Raises:
        ValueError: a value is not allowed.
    """
    if compress not in COMPRESS:
        raise ValueError(f"compress must be 'momentum' or 'update', got {compress!r}")
    check_scale_block(scale_block)
    if frozen_dtype not in FROZEN_DTYPES:
        raise ValueError(f"frozen_dtype must be 'float32' or 'bfloat16', got {frozen_dtype!r}")


def check_surroundings(backend: Any, process_group: Any, node_group: Any = None) -> None:
    """Check what does not belong to the algorithm: the name of the kernels, and the groups.

    Raises:
        ValueError: there are no such kernels, this process is not in a group, or there is but a ``node_group``.
        TypeError: a group is none.
    """
    if backend not in ("auto", *BACKENDS):
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}; got {backend!r}")
    for name, group in (("process_group", process_group), ("node_group", node_group)):
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(f"this process is not in {name}: make the optimizer on the group's members only")
        if group is not None and not isinstance(group, dist.ProcessGroup):
            raise TypeError(
                f"{name} must be a torch.distributed.ProcessGroup, as new_group() gives it, or None; got {group!r}"
            )
    if node_group is not None and process_group is None:
        raise ValueError(
            "node_group, the workers of a node, needs process_group beside it: those that have the same place in all "
            'nodes, as mesh["between"].get_group() of a two-dimensional mesh gives them'
        )


_FAST = "a step is one pass over flat buffers already"
NOT_OURS = {
    "amsgrad": (False, "the algorithm has no running maximum of the variance"),
    "maximize": (False, "to maximize, call backward() on the negative loss"),
    "foreach": (False, _FAST),
    "fused": (False, _FAST),
    "capturable": (False, "a step can't be captured in a CUDA graph"),
    "differentiable": (False, "a step can't be differentiated through"),
    "decoupled_weight_decay": (True, "the decay stays out of the momentum, as in AdamW"),
}
"""What torch's Adam and AdamW know besides: the value that asks for nothing more than these optimizers do, and why they
have no other."""


def refuse_more(optimizer: object, names: Iterable[str]) -> None:
    """Say of an argument that a constructor does not have what to do, where torch's Adam has it.

    Raises:
        TypeError: there is one.
    """
    for name in names:
        advice = f"; leave it out: {NOT_OURS[name][1]}" if name in NOT_OURS else ": it is no argument"
        raise TypeError(f"{type(optimizer).__name__} has no {name}{advice}")


def unread(settings: Settings) -> frozenset[str]:
    """What nobody reads in a parameter group: settings of the run, and what torch's Adam knows besides."""
    return frozenset((*settings.__dataclass_fields__, "backend", "process_group", "node_group", *NOT_OURS))


def refuse_settings(number: int, group: Mapping[str, Any], settings: Settings, optimizer: str) -> None:
    """Look for what is :func:`unread` in parameter group ``number`` of ``optimizer``, and asks for something.

    Raises:
        ValueError: it is there.
    """
    for name in sorted(unread(settings) & set(group)):
        if name not in NOT_OURS:
            raise ValueError(
                f"{name} holds for all parameter groups: take it out of group {number} and give it to the optimizer, "
                f"as in {optimizer}(groups, {name}={group[name]!r})"
            )
        harmless, why = NOT_OURS[name]
        if group[name] not in (None, harmless):
            raise ValueError(
                f"{optimizer} has no {name}: take {name}={group[name]!r} out of parameter group {number}; {why}"
            )


def check_group(group: Mapping[str, Any]) -> None:
    """Check one parameter group.

    Raises:
        ValueError, TypeError: a value is not allowed, or a parameter can't be trained.
    """
    check_values(group)
    for param in group["params"]:
        if param.is_meta:
            raise TypeError(
                "a parameter is on the meta device and has no values: call model.to_empty(device=...), initialise or "
                "load it, and then make the optimizer"
            )
        if param.is_complex():
            raise TypeError("complex parameters can't be compressed to signs: train torch.view_as_real(parameter)")
        if param.layout is not torch.strided:
            raise TypeError(f"a parameter has layout {param.layout}: it must be dense")
        if param.dtype not in FLOATS:
            raise TypeError(f"parameters must be float32, bfloat16 or float16, got {param.dtype}")
        if param.is_inference():
            raise TypeError("a parameter made under torch.inference_mode() can't be trained: make it outside of that")
        if param.requires_grad:
            refuse_shared(param)
    if len({isinstance(param, DTensor) for param in group["params"]}) > 1:
        raise TypeError("sharded and plain parameters can't share an optimizer: shard all of the model, or none of it")


def check_values(group: Mapping[str, Any]) -> None:
    """Check what a schedule may change in a parameter group.

    Raises:
        ValueError: a value is not allowed.
    """
    lr = group["lr"]
    if isinstance(lr, Tensor) and (lr.numel() != 1 or lr.is_meta):
        raise ValueError(f"lr must be a number or a tensor of one element, got shape {tuple(lr.shape)} on {lr.device}")
    check_number("lr", lr.item() if isinstance(lr, Tensor) else lr)
    if not isinstance(group["betas"], tuple | list) or len(group["betas"]) != 2:
        raise ValueError(f"betas must be two numbers, got {in_short(group['betas'])}")
    for name, beta in zip(("beta1", "beta2"), group["betas"], strict=True):
        check_number(name, beta)
        check_beta(name, beta)
    check_number("eps", group["eps"], strict=True)
    check_number("weight_decay", group["weight_decay"])
    if not isinstance(group.get("non_freeze", False), bool):
        raise ValueError(f"non_freeze must be True or False, got {group['non_freeze']!r}")


def check_number(name: str, value: Any, *, strict: bool = False) -> None:
    """Raise ValueError unless it is a number >= 0, or > 0, that float32 can hold."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_number = is_number and (isinstance(value, int) or math.isfinite(value))  # an int may be too large for a float
    least = "> 0" if strict else ">= 0"
    if not is_number or value < 0 or (strict and value == 0):
        raise ValueError(f"{name} must be a finite number {least}, got {in_short(value)}{_hint(value)}")
    if value > LARGEST or 0 < value < SMALLEST:
        raise ValueError(f"{name} must be a number that float32 can hold, got {in_short(value)}")


def check_integer(name: str, value: Any, minimum: int, extra: str = "") -> None:
    """Raise ValueError unless it is an integer >= ``minimum``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        wanted = f"an integer >= {minimum}{extra}"
        raise ValueError(f"{name} must be {wanted}, got {in_short(value)}{_hint(value)}")


def in_short(value: Any) -> str:
    """What was given in its place, in one line: a tensor's ``repr`` has many."""
    return " ".join(repr(value).split())[:80]


def _hint(value: Any) -> str:
    """A checkpoint could not be loaded again with a number of NumPy's types in it."""
    return ": write .item() behind it for Python's number" if hasattr(value, "item") else ""
