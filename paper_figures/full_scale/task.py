"""What a task is, and which samples a worker sees in a step."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

Index = NDArray[np.int64]


class Task(Protocol):
    """A model and its data; ``train.py`` knows nothing else of them.

    Attributes:
        n_samples: of the training set.
        n_held_out: of the held-out set.
    """

    n_samples: int
    n_held_out: int

    def model(self) -> nn.Module:
        """A model, drawn from torch's random numbers."""
        ...

    def batch(self, index_B: Index, *, held_out: bool = False) -> tuple[Tensor, Tensor]:
        """Inputs and targets (B, ...), on the CPU; of the training set with its augmentation, from torch's numbers."""
        ...

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss () and accuracy () of a batch."""
        ...


def samples_of_step(n_samples: int, batch: int, seed: int, step: int) -> Index:
    """The (batch,) samples of a step, all workers together: each epoch a new order, its remainder left out.

    Raises:
        ValueError: there are fewer samples than the batch has.
    """
    if n_samples < batch:
        raise ValueError(f"a batch of {batch} needs as many training samples, there are {n_samples}")
    epoch, k = divmod(step - 1, n_samples // batch)
    return _order(n_samples, seed, epoch)[k * batch : (k + 1) * batch]


@lru_cache(maxsize=1)
def _order(n_samples: int, seed: int, epoch: int) -> Index:
    return np.random.default_rng([seed, epoch]).permutation(n_samples)


def seed_of(*parts: Any) -> int:
    """One seed from several numbers: what a step draws depends on them alone, so a run can go on anywhere."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)
