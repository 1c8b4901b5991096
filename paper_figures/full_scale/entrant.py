"""One entrant of a comparison: its model as it is trained, and its optimizer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from gpu_impl import OneBitAdam
from paper_figures.algorithms import MOMENTUM
from paper_figures.full_scale.recipes import ENTRANTS, Recipe

MOMENTUM_FACTOR = 0.9


class Entrant:
    """An algorithm on a model.

    Adam is ``OneBitAdam`` that is never frozen: the same arithmetic without bias correction, the same all-reduce, so
    what differs from 1-bit Adam is what comes after the freeze. The SGD family is torch's under
    ``DistributedDataParallel``.

    Attributes:
        trained: what computes the loss.
        optimizer: takes the steps.
    """

    def __init__(self, name: str, model: nn.Module, recipe: Recipe) -> None:
        self.lr, self.schedule = recipe.lr[name], recipe.schedule
        self.optimizer: OneBitAdam | SGD
        if name in {"sgd", "momentum_sgd"}:
            momentum = MOMENTUM_FACTOR if ENTRANTS[name] is MOMENTUM else 0.0
            self.trained = DistributedDataParallel(model, broadcast_buffers=False)
            self.optimizer = SGD(model.parameters(), self.lr, momentum, weight_decay=recipe.weight_decay)
        else:
            self.trained = model
            self.optimizer = OneBitAdam(
                model.parameters(),
                self.lr,
                weight_decay=recipe.weight_decay,
                freeze_step=recipe.steps + 1 if name == "adam" else recipe.freeze_step,
                max_grad_norm=recipe.max_grad_norm,
                **ENTRANTS[name].hyper,
            )

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        """Where a micro-batch is computed: gradients are averaged with those of the last one of a step."""
        if isinstance(self.trained, DistributedDataParallel) and not last:
            return self.trained.no_sync()
        return nullcontext()

    def step(self, t: int) -> None:
        """Step t, at its step size."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * self.schedule(t)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def columns(self, t: int) -> dict[str, float]:
        """Bytes sent, errors and phase after step t; all workers must ask. DDP's bytes are a ring all-reduce's."""
        if isinstance(self.optimizer, SGD):
            size = sum(4 * param.numel() for param in self.trained.parameters())
            n = dist.get_world_size()
            return {"bytes_per_worker": t * 2 * (n - 1) * size / n, "frozen": 0, "skipped_steps": 0}
        stats = self.optimizer.stats()
        squares = torch.tensor(
            [stats.worker_error_norm**2, stats.server_error_norm**2, float(stats.bytes_sent)], dtype=torch.float64
        ).to(next(self.trained.parameters()).device)
        dist.all_reduce(squares)
        n, (worker, server, sent) = dist.get_world_size(), squares.tolist()
        return {
            "worker_error_norm": (worker / n) ** 0.5,
            "server_error_norm": server**0.5,
            "bytes_per_worker": sent / n,
            "frozen": int(stats.frozen_at is not None),
            "skipped_steps": stats.skipped_steps,
        }
