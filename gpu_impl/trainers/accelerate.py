"""Accelerate: ``prepare`` for a model and its optimizer, after which ``save_state`` and ``load_state`` keep all errors.

accelerator = Accelerator()
optimizer = OneBitAdam(model.parameters(), lr=1e-4, freeze_step=1000)
model, optimizer, loader = prepare(accelerator, model, optimizer, loader)
...
accelerator.backward(loss); optimizer.step(); optimizer.zero_grad()
accelerator.save_state("folder")
"""

from __future__ import annotations

from typing import Any

from accelerate import Accelerator

from gpu_impl.checkpoints.gathered import gather_on_save
from gpu_impl.optimizer.base import OneBitOptimizer
from gpu_impl.optimizer.ddp import leave_all_gradients_local
from gpu_impl.optimizer.stepping import SteppingOptimizer
from gpu_impl.trainers.processes import check_processes


def prepare(accelerator: Accelerator, *objects: Any) -> tuple[Any, ...]:
    """``accelerator.prepare``, whose DistributedDataParallel leaves gradients local, and whose states are gathered.

    Args:
        accelerator: as it is.
        objects: what is to be prepared; a :class:`gpu_impl.OneBitAdam` among it.

    Raises:
        TypeError: there is none, or it is one for DDP's hook, which a trainer can't attach.
        RuntimeError: Accelerate counts other processes than there are, so that they would train on the same data.
    """
    ours = [one for one in objects if isinstance(one, OneBitOptimizer)]
    if not ours or not all(isinstance(one, SteppingOptimizer) for one in ours):
        given = ", ".join(type(one).__name__ for one in objects) or "nothing"
        raise TypeError(f"prepare is for a OneBitAdam and its model, got {given}")
    check_processes("Accelerate", accelerator.num_processes, "write Accelerator(cpu=True)")
    prepared = accelerator.prepare(*objects)
    for optimizer in ours:
        leave_all_gradients_local(optimizer)
        gather_on_save(optimizer)
    return prepared
