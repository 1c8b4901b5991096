"""``DistributedDataParallel`` and 1-bit Adam: whose job the average is.

The optimizer averages gradients itself. DDP would average them in full precision before, and nothing would be left to
save. So a DDP module is refused, unless it was told to leave its gradients local.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from weakref import WeakSet

from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

_counts = {"made": 0}


def _note(parent: nn.Module, *_: object) -> None:
    _counts["made"] += isinstance(parent, DistributedDataParallel)


register_module_module_registration_hook(_note)  # DDP makes the model its submodule


def wrapped_so_far() -> int:
    """How many models have been wrapped in this process: when it changes, look again."""
    return _counts["made"]


PREPARED: WeakSet[nn.Module] = WeakSet()
"""Modules whose hook leaves the average to an optimizer of this package."""


def leave_gradients_local(ddp: DistributedDataParallel) -> DistributedDataParallel:
    """Tell a DDP module not to average its gradients, for the optimizer does; what else DDP does remains.

    It still sends rank 0's parameters to all at the start, and buffers before each forward pass.

    Args:
        ddp: a module without a communication hook.

    Returns:
        The same module.

    Raises:
        TypeError: it is no DistributedDataParallel.
        RuntimeError: it has a communication hook already.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(f"leave_gradients_local takes a DistributedDataParallel module, got {type(ddp).__name__}")
    ddp.register_comm_hook(None, noop_hook)
    PREPARED.add(ddp)
    return ddp


def leave_all_gradients_local(optimizer: Optimizer) -> None:
    """The same for every DDP module that averages this optimizer's gradients; for trainers, which make their own."""
    for module in _averaging(param for group in optimizer.param_groups for param in group["params"]):
        leave_gradients_local(module)


def refuse_double_average(params: Iterable[Tensor]) -> None:
    """Look for a DDP module that averages the gradients of some of ``params``.

    Raises:
        RuntimeError: there is one; the message says what to do.
    """
    if any(True for _ in _averaging(params)):
        raise RuntimeError(
            "DistributedDataParallel averages these gradients in full precision before the optimizer sees them: use "
            "the bare model, or call gpu_impl.leave_gradients_local(ddp_model) before training"
        )


def _averaging(params: Iterable[Tensor]) -> Iterator[DistributedDataParallel]:
    """DDP modules that average the gradients of some of ``params``."""
    ours = {id(param) for param in params}
    for module in gc.get_objects():
        if not issubclass(type(module), DistributedDataParallel) or module in PREPARED:
            continue
        if ours & {id(param) for param in module.parameters()}:
            yield module
