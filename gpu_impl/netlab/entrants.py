"""Who runs the race to Adam's loss, and the race itself as a worker sees it: a character transformer on real text.

Every entrant trains the same network from the same start on the same batches, on links of one speed. The learning rate
of each is the best of ``GRID`` by its last loss, on a seed that no race uses (``onebit netlab race --tune``), so all
had the same budget.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from functools import cache
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional

from gpu_impl.examples.tasks import CharTransformer, text_windows
from gpu_impl.netlab.contestants import CONTESTANTS, Build, Recipe, Training
from gpu_impl.optimizer.zero_one_adam import ZeroOneAdam

WIDTH = 128
BATCH = 8
"""Windows of 32 characters, of a worker and step."""
LAP = 20
"""Steps between two looks at the loss, and DiLoCo's interval: its workers are at one point when one looks."""
HELD_OUT = 20
"""Every so-manyth window is kept for measuring."""
MEASURED = 256
GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SHORT = 30
"""T_w of the short warm-up, with bias correction (docs/choosing.md)."""
PUBLISHED = 0.15
"""T_w over all steps, as published: 14 % to 22 %."""
DOUBLING = 0.23
"""Steps in which 0/1 Adam's interval doubles, over all steps: that of the paper's run of BERT-Base."""


@dataclass(frozen=True)
class Entrant:
    """One of the race.

    Attributes:
        title: in tables and pictures.
        build: sets it up.
        lr: its learning rate, tuned.
        short: whether its warm-up is SHORT steps; else it is PUBLISHED of the run.
    """

    title: str
    build: Build = field(repr=False)
    lr: float
    short: bool = False

    def recipe(self, n_steps: int) -> Recipe:
        """For a run of that length."""
        return Recipe(
            lr=self.lr,
            freeze_step=SHORT if self.short else round(PUBLISHED * n_steps),
            bias_correction=True,
            local_doubling=round(DOUBLING * n_steps),
            sync_every=LAP,
            loss=character_loss,
        )


def character_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of a batch, ()."""
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def _entrant(name: str, lr: float, *, title: str = "", short: bool = False) -> Entrant:
    return Entrant(title or CONTESTANTS[name].title, CONTESTANTS[name].build, lr, short)


ENTRANTS: dict[str, Entrant] = {
    "ddp": _entrant("ddp", 3e-3),
    "ddp-fp16": _entrant("ddp-fp16", 3e-3),
    "ddp-bf16": _entrant("ddp-bf16", 3e-3),
    "powersgd": _entrant("powersgd", 1e-3, short=True),
    "1-bit": _entrant("1-bit", 3e-3),
    "1-bit-short": _entrant("1-bit", 3e-3, title="1-bit Adam, T_w = 30", short=True),
    "1-bit-update-short": _entrant("1-bit-update", 3e-3, title="1-bit Adam, update form, T_w = 30", short=True),
    "1-bit-hook-short": _entrant("1-bit-hook", 3e-3, title="1-bit Adam, DDP hook, T_w = 30", short=True),
    "1-bit-lamb": _entrant("1-bit-lamb", 1e-2),
    "0/1": _entrant("0/1", 3e-4, title="0/1 Adam"),
    "diloco": _entrant("diloco", 1e-3, title=f"DiLoCo, H = {LAP}"),
}
"""In the order of the tables."""


@dataclass
class Running:
    """What a worker holds between two laps.

    Attributes:
        network: the model itself.
        training: trains it.
        seed: of the batches.
    """

    network: nn.Module
    training: Training
    seed: int


_running: list[Running] = []


def running() -> Running:
    """What this worker trains."""
    return _running[0]


def enter(name: str, seed: int, n_steps: int, lr: float | None = None) -> int:
    """Take up an entrant at its start; D. ``lr`` takes the place of its own."""
    _running.clear()
    entrant, group = ENTRANTS[name], dist.group.WORLD
    assert group is not None
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = CharTransformer(WIDTH)
    recipe = replace(entrant.recipe(n_steps), lr=entrant.lr if lr is None else lr)
    _running.append(Running(network, entrant.build(network, group, recipe), seed))
    return sum(param.numel() for param in network.parameters())


def lap(first: int, last: int) -> tuple[float, float]:
    """Steps ``first`` to ``last``; when they began and ended, on the clock that all workers share."""
    ours = running()
    dist.barrier()
    began = perf_counter()
    for t in range(first, last + 1):
        ours.training.step(*batch(ours.seed, t, dist.get_rank()))
    return began, perf_counter()


@torch.no_grad()
def look() -> float:
    """The loss on text that nobody trains on, where the workers last met."""
    ours = running()
    optimizer = ours.training.optimizer
    here = optimizer.at_last_meeting() if isinstance(optimizer, ZeroOneAdam) else contextlib.nullcontext()
    with here:
        inputs, targets = _windows()[1]
        loss = float(character_loss(ours.network(inputs), targets))
    return loss if math.isfinite(loss) else math.inf


def batch(seed: int, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one worker in one step."""
    inputs, targets = _windows()[0]
    index = torch.from_numpy(np.random.default_rng((seed, step, rank)).integers(len(inputs), size=BATCH))
    return inputs[index], targets[index]


@cache
def _windows() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Windows to train on, and MEASURED held out, spread over the text."""
    inputs, targets = text_windows()
    held_out = torch.arange(len(inputs)) % HELD_OUT == HELD_OUT - 1
    kept = held_out.nonzero().flatten()
    measured = kept[torch.arange(MEASURED) * len(kept) // MEASURED]
    return (inputs[~held_out], targets[~held_out]), (inputs[measured], targets[measured])
