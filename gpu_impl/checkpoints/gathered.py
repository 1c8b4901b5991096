"""Every worker's state in one state_dict, for programs that save what rank 0 has: trainers, plain ``torch.save``."""

from __future__ import annotations

from typing import Any

from torch import distributed as dist
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import Optimizer

from gpu_impl.optimizer.base import OneBitOptimizer, check_ours
from gpu_impl.optimizer.names import OF
from gpu_impl.optimizer.state import of_workers


def gathered_state_dict(optimizer: OneBitOptimizer) -> dict[str, Any]:
    """The state of all workers; all must call it. Rank 0 gets it all, the others their own.

    Every worker can load it, as many as there were or another number [C11]. It holds the errors of all, 8 N bytes a
    parameter, in rank 0's memory; :func:`gpu_impl.save_checkpoint` does not.

    Raises:
        ValueError: parameters are sharded, so that rank 0 can't hold what belongs to other shards; or this is no
            optimizer of ours.
    """
    check_ours("gathered_state_dict(optimizer)", optimizer)
    return _gather(optimizer, optimizer.state_dict())


def gather_on_save(optimizer: OneBitOptimizer) -> None:
    """From now on every ``state_dict()`` is a gathered one, so that all workers must call it together.

    Raises:
        ValueError: this is no optimizer of ours.
    """
    check_ours("gather_on_save(optimizer)", optimizer)
    optimizer.register_state_dict_post_hook(_gather)


def _gather(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(optimizer, OneBitOptimizer)
    collectives = optimizer.collectives
    if collectives.size == 1:
        return state_dict
    if any(isinstance(value, DTensor) for state in state_dict["state"].values() for value in state.values()):
        raise ValueError(
            "the states of all workers can't be gathered on rank 0 where parameters are sharded: use "
            "gpu_impl.save_checkpoint, or torch.distributed.checkpoint with every worker's own state"
        )
    optimizer.meet("a gathered state_dict()")
    for state in state_dict["state"].values():
        own = {name: value.cpu() for name, value in state.items() if OF in name}
        parts: list[Any] | None = [None] * collectives.size if collectives.rank == 0 else None
        dist.gather_object(own, parts, group=collectives.group, group_dst=0)
        for part in parts or ():
            state.update(part)
    if collectives.rank == 0:
        state_dict["param_groups"] = of_workers(state_dict["param_groups"], collectives.size, range(collectives.size))
    return state_dict
