"""Small stand-ins for the full-scale data, in the very same formats, and what the worker processes run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from paper_figures.full_scale.cifar10 import FOLDER, TEST, TRAINING, Cifar10
from paper_figures.full_scale.recipes import CIFAR10, Recipe
from paper_figures.full_scale.train import Run, train

STRIPES = 16
"""Images of a file."""


def make_cifar10(folder: Path, per_file: int = STRIPES) -> Path:
    """``cifar-10-batches-bin``: images whose brightness is their label, with noise."""
    random = np.random.default_rng(0)
    (folder / FOLDER).mkdir(parents=True)
    for name in (*TRAINING, *TEST):
        labels = random.integers(0, 10, per_file)
        noise = random.integers(0, 30, (per_file, 3072))
        records = np.concatenate([labels[:, None], 20 * labels[:, None] + noise], axis=1).astype(np.uint8)
        records.tofile(folder / FOLDER / name)
    return folder


TEXT = ("the cat sat on the mat.\n" * 20 + "\n" + "a dog ran.\n" * 30) * 12


def make_text(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text(TEXT)
    (folder / "b.txt").write_text("über die brücke\n" * 40)
    return folder


def tiny_cifar10() -> Recipe:
    return CIFAR10.changed(
        ["width=2", "steps=6", "batch=16", "micro_batch=4", "freeze_step=3", "record_every=2", "seeds=1"]
    )


class Line:
    """Least squares on a line, w x = y, in numbers for which every operation in float32 is exact."""

    n_samples, n_held_out = 16, 4

    def __init__(self):
        self.x = np.arange(16, dtype=np.float32) % 3 - 1
        self.y = np.arange(16, dtype=np.float32) % 5 - 2

    def model(self):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 0.5)
        return model

    def batch(self, index_B, *, held_out=False):
        return torch.from_numpy(self.x[index_B])[:, None], torch.from_numpy(self.y[index_B])[:, None]

    def loss(self, model, inputs, targets):
        error = model(inputs) - targets
        return (error**2).mean() / 2, error.mean()


def half_from_step_2(step: int) -> float:
    return 1.0 if step == 1 else 0.5


def line_recipe() -> Recipe:
    """Three steps of 8 samples, 2 at once: 2 micro-batches for each of two workers."""
    recipe = replace(CIFAR10, lr={"sgd": 0.25}, schedule=half_from_step_2, shape={})
    return recipe.changed(["steps=3", "batch=8", "micro_batch=2", "record_every=1", "freeze_step=1"])


def train_line(folder: Path) -> float:
    """Train on one of the workers; the weight at the end."""
    kept = []

    class Watched(Line):
        def model(self):
            kept.append(super().model())
            return kept[-1]

    train(Run(recipe=line_recipe(), task=Watched(), entrant="sgd", seed=3, device=torch.device("cpu"), folder=folder))
    return float(kept[-1].weight.detach())


class Breaks(Cifar10):
    """Fails in the middle of a step."""

    def __init__(self, folder, width, after):
        super().__init__(folder, width)
        self.left = after

    def batch(self, index_B, *, held_out=False):
        if not held_out:
            self.left -= 1
        if self.left < 0:
            raise InterruptedError("pulled the plug")
        return super().batch(index_B, held_out=held_out)


def train_cifar10(data: Path, folder: Path, entrant: str, breaks_after: int | None = None, **changes) -> list:
    """Train on one of the workers; a checkpoint after every step."""
    torch.use_deterministic_algorithms(True)
    recipe = replace(tiny_cifar10(), **changes)
    width = recipe.shape["width"]
    task = Cifar10(data, width) if breaks_after is None else Breaks(data, width, breaks_after)
    run = Run(recipe=recipe, task=task, entrant=entrant, seed=0, device=torch.device("cpu"), folder=folder, minutes=0.0)
    return train(run)
