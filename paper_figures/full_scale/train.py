"""The training loop: one entrant, one seed, from its start or its last checkpoint to its last step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist

from paper_figures.full_scale import checkpoint
from paper_figures.full_scale.entrant import Entrant
from paper_figures.full_scale.recipes import Recipe
from paper_figures.full_scale.task import Task, samples_of_step, seed_of

Row = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is trained, where, and how often it is saved.

    Attributes:
        recipe: the settings.
        task: model and data.
        entrant: a name of ``recipe.lr``.
        seed: of the model, the order of the samples, augmentation and dropout.
        device: of this worker.
        folder: of its checkpoints.
        minutes: between two checkpoints.
    """

    recipe: Recipe
    task: Task
    entrant: str
    seed: int
    device: torch.device
    folder: Path
    minutes: float = 10.0


def check(recipe: Recipe, task: Task, n_workers: int) -> None:
    """Refuse settings that don't fit each other.

    Raises:
        ValueError: one sentence.
    """
    share, rest = divmod(recipe.batch, n_workers)
    if rest or share % min(share, recipe.micro_batch):
        raise ValueError(
            f"a batch of {recipe.batch} can't be cut into {n_workers} workers' micro-batches of {recipe.micro_batch}"
        )
    samples_of_step(task.n_samples, recipe.batch, 0, 1)
    if task.n_held_out < n_workers:
        raise ValueError(f"{task.n_held_out} held-out samples are too few for {n_workers} workers")


def train(run: Run, advance: Callable[[int], object] = lambda step: None) -> list[Row]:
    """Train, and return the rows of the table; all workers call it. ``advance`` hears of every step.

    Raises:
        ValueError: the settings don't fit, or the checkpoint is of another number of workers.
    """
    recipe, task, device = run.recipe, run.task, run.device
    check(recipe, task, dist.get_world_size())
    torch.manual_seed(seed_of(run.seed))
    model = task.model().to(device)
    entrant = Entrant(run.entrant, model, recipe)
    progress = _Progress(first=1)
    if saved := checkpoint.load(run.folder, device):
        model.load_state_dict(saved["model"])
        entrant.optimizer.load_state_dict(saved["optimizer"])
        progress = _Progress(**saved["progress"])
    saved_at = time.monotonic()
    for t in range(progress.first, recipe.steps + 1):
        begin = time.perf_counter()
        loss = one_step(run, entrant, t)
        _wait_for(device)
        progress.seconds += time.perf_counter() - begin
        if t == 1:
            progress.rows.append(_row(run, model, entrant, 0, loss, 0.0))
        progress.losses.append(float(loss))
        if t % recipe.record_every == 0 or t == recipe.steps:
            mean = torch.tensor(progress.losses, dtype=torch.float64).mean()
            progress.rows.append(_row(run, model, entrant, t, mean, progress.seconds))
            progress.losses = []
        advance(t)
        if _agreed(time.monotonic() - saved_at > 60 * run.minutes, device):
            progress.first, saved_at = t + 1, time.monotonic()
            own = {"model": model.state_dict(), "optimizer": entrant.optimizer.state_dict()}
            checkpoint.save(run.folder, t, {**own, "progress": vars(progress)})
    return progress.rows


class _Progress:
    """How far a run is: plain data, for a checkpoint."""

    def __init__(
        self, first: int, seconds: float = 0.0, losses: list[float] | None = None, rows: list[Row] | None = None
    ) -> None:
        self.first, self.seconds = first, seconds
        self.losses, self.rows = losses or [], rows or []


def one_step(run: Run, entrant: Entrant, t: int) -> Tensor:
    """Step t; returns this worker's mean loss before it."""
    recipe, rank, n = run.recipe, dist.get_rank(), dist.get_world_size()
    torch.manual_seed(seed_of(run.seed, t, rank))
    share = samples_of_step(run.task.n_samples, recipe.batch, run.seed, t).reshape(n, -1)[rank]
    parts = np.split(share, range(recipe.micro_batch, len(share), recipe.micro_batch))
    total = torch.zeros((), device=run.device)
    entrant.trained.train()
    for k, index in enumerate(parts):
        with entrant.accumulating(last=k == len(parts) - 1):
            loss, _ = _loss(run, entrant.trained, index, held_out=False)
            (loss / len(parts)).backward()
        total += loss.detach() / len(parts)
    entrant.step(t)
    return total


def _loss(run: Run, model: nn.Module, index: Any, *, held_out: bool) -> tuple[Tensor, Tensor]:
    inputs, targets = (part.to(run.device) for part in run.task.batch(index, held_out=held_out))
    with torch.autocast(run.device.type, torch.bfloat16, enabled=run.recipe.autocast and run.device.type == "cuda"):
        return run.task.loss(model, inputs, targets)


def _row(run: Run, model: nn.Module, entrant: Entrant, t: int, loss: Tensor, seconds: float) -> Row:
    """A row of the table, the same on all workers; ``loss`` is averaged over them."""
    loss = loss.to(run.device, torch.float64)
    dist.all_reduce(loss)
    held_out_loss, accuracy = held_out(run, model)
    row = {"step": t, "loss": float(loss) / dist.get_world_size(), "seconds": seconds}
    return row | {"held_out_loss": held_out_loss, "held_out_accuracy": accuracy} | entrant.columns(t)


@torch.no_grad()
def held_out(run: Run, model: nn.Module) -> tuple[float, float]:
    """Mean loss and accuracy over the held-out set, cut among the workers; all use the first one's batch statistics."""
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)
    model.eval()
    share = np.array_split(np.arange(run.task.n_held_out), dist.get_world_size())[dist.get_rank()]
    sums = torch.zeros(3, dtype=torch.float64, device=run.device)
    for start in range(0, len(share), run.recipe.micro_batch):
        index = share[start : start + run.recipe.micro_batch]
        loss, accuracy = _loss(run, model, index, held_out=True)
        sums += torch.tensor([float(loss), float(accuracy), 1.0], dtype=torch.float64, device=run.device) * len(index)
    dist.all_reduce(sums)
    loss, accuracy, count = sums.tolist()
    return loss / count, accuracy / count


def _agreed(mine: bool, device: torch.device) -> bool:
    """What the first worker says, on all: clocks differ."""
    flag = torch.tensor(int(mine), device=device)
    dist.broadcast(flag, 0)
    return bool(flag)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
