"""Training that survives the death of a process: ``torchrun`` restarts all, and they go on from the last checkpoint.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --standalone --nproc-per-node 2 --max-restarts 3 -m gpu_impl.examples.restartable --checkpoint FOLDER

Kill one of the processes (``kill -9``): the parameters at the end are those of an undisturbed run, to the bit. With
``--result FILE`` their checksums are written (``starts``, how often the run began, is not the same).
``gpu_impl.harness.survive`` does that many times. What it takes: batches that depend on the step and not on what came
before, a checkpoint every few steps, and loading it at the start if there is one. The environment variable gives the
workers a new store at each restart: in torch 2.13 they share torchrun's otherwise, may find the addresses of the dead
in it, and the restart fails with "Connection refused".
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import Tensor
from torch import distributed as dist

from gpu_impl import OneBitAdam, latest_checkpoint, load_checkpoint, save_checkpoint
from gpu_impl.examples.tasks import TASKS, join
from gpu_impl.optimizer.agreement import checksum
from onebit_files import write_atomically

STEPS, FREEZE_STEP, EVERY = 60, 20, 8


def main(
    checkpoint: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    steps: Annotated[int, typer.Option(min=1)] = STEPS,
    freeze_step: Annotated[int, typer.Option(min=1)] = FREEZE_STEP,
    every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = EVERY,
    timeout: Annotated[float, typer.Option(help="Seconds that a worker waits for another.")] = 30.0,
    result: Annotated[Path | None, typer.Option(help="Write checksums of the final state to this file.")] = None,
) -> None:
    """Train a character transformer by 1-bit Adam, with checkpoints."""
    train(checkpoint, steps, freeze_step, every, timeout, result)


def train(
    checkpoint: Path,
    steps: int,
    freeze_step: int,
    every: int,
    timeout: float,
    result: Path | None,
    watch: Callable[[str], object] = lambda moment: None,
) -> None:
    """The same; ``watch`` is told each moment, a step or "save-" and a step, before it begins."""
    device = join(timeout)
    task = TASKS["char"]
    model = task.model(0).to(device)
    optimizer = OneBitAdam(model.parameters(), lr=task.lr, freeze_step=freeze_step)
    watch("0")
    first = 1
    if latest_checkpoint(checkpoint):
        first = load_checkpoint(checkpoint, optimizer, model) + 1
    for t in range(first, steps + 1):
        watch(str(t))
        optimizer.zero_grad()
        task.loss(model, task.batch(0, t, dist.get_rank())).backward()
        optimizer.step()
        if t % every == 0:
            watch(f"save-{t}")
            save_checkpoint(checkpoint, optimizer, model, t)
    digests = [0] * dist.get_world_size()
    dist.all_gather_object(digests, digest(optimizer.state_dict()))
    if dist.get_rank() == 0:
        facts = {"params": checksum(model.parameters()), "states": digests, "starts": attempt() + 1}
        if result:
            write_atomically(result, json.dumps(facts))
    dist.destroy_process_group()


def digest(state: dict[str, Any]) -> int:
    """A checksum of this worker's state."""
    return checksum(value for one in state["state"].values() for value in one.values() if isinstance(value, Tensor))


def attempt() -> int:
    """How often torchrun has restarted the workers."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


if __name__ == "__main__":
    typer.run(main)
