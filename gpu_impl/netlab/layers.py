"""The model that the lab trains: square layers with tanh, on numbers that are fixed by the rank."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LAYERS = 8
"""Enough for DDP's buckets of 25 MB to leave while the backward pass goes on."""


def width_for(n_parameters: int) -> int:
    """w, so that LAYERS layers of w^2 weights and w biases come near that."""
    return max(1, round(math.sqrt(n_parameters / LAYERS + 0.25) - 0.5))


class Layers(nn.Sequential):
    """LAYERS layers of equal width, near ``n_parameters`` in all, the same on every worker.

    tanh, not ReLU: each weight has a gradient from the first step on, so no coordinate is dead at the freeze [C6].

    Args:
        n_parameters: how many are wanted.

    Attributes:
        width: of every layer.
        n_parameters: D, how many there are.
    """

    def __init__(self, n_parameters: int) -> None:
        self.width = width_for(n_parameters)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            layers = [nn.Linear(self.width, self.width) for _ in range(LAYERS)]
        super().__init__(*(module for layer in layers for module in (layer, nn.Tanh())))
        self.n_parameters = sum(param.numel() for param in self.parameters())

    def samples(self, batch: int, rank: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a worker, (batch, width) each."""
        random = torch.Generator().manual_seed(1 + rank)
        inputs, targets = torch.randn(2, batch, self.width, generator=random)
        return inputs, targets.tanh()
