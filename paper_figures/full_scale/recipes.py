"""The settings of the paper's experiments, each with where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from paper_figures.algorithms import ADAM, MOMENTUM, ONE_BIT, ONE_BIT_NO_FLOOR, SGD, Algorithm

ENTRANTS: dict[str, Algorithm] = {
    "adam": ADAM,
    "one_bit_adam": ONE_BIT,
    "one_bit_adam_no_floor": ONE_BIT_NO_FLOOR,
    "sgd": SGD,
    "momentum_sgd": MOMENTUM,
}
"""By the name on the command line; labels and colours are those of the small problems."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an experiment is run.

    Attributes:
        name: on the command line, in file names and in tables.
        shape: of the model: arguments of its task.
        lr: largest step size by entrant; these are the algorithms that run.
        schedule: step -> factor of the step size.
        steps: T.
        batch: samples a step, all workers together.
        micro_batch: samples that a worker computes at once, at most.
        freeze_step: T_w.
        weight_decay: decoupled, of every entrant.
        max_grad_norm: clipping [C9]; None: none.
        autocast: bfloat16 arithmetic in the model, on a GPU.
        record_every: steps between two rows of the table.
        seeds: how many.
    """

    name: str
    shape: dict[str, int]
    lr: dict[str, float]
    schedule: Callable[[int], float]
    steps: int
    batch: int
    micro_batch: int
    freeze_step: int
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    autocast: bool = False
    record_every: int
    seeds: int = 5

    def changed(self, assignments: Iterable[str]) -> Recipe:
        """This recipe with other whole numbers, ``["steps=8", "width=4"]``, for a trial.

        Raises:
            ValueError: not NAME=NUMBER, no such name, or less than 1.
        """
        numbers = {name for name, value in vars(self).items() if type(value) is int}
        fields, shape = {}, dict(self.shape)
        for text in assignments:
            name, _, number = text.partition("=")
            if name not in numbers | set(shape):
                raise ValueError(
                    f"--set takes NAME=NUMBER, NAME of {', '.join(sorted(numbers | set(shape)))}; got {text!r}"
                )
            if not number.isdecimal() or int(number) < 1:
                raise ValueError(f"--set {name} takes a whole number from 1, got {number!r}")
            (shape if name in shape else fields)[name] = int(number)
        return replace(self, shape=shape, **fields)

    def settings(self) -> dict[str, Any]:
        """What must be equal for runs to be comparable, as JSON."""
        return {name: value for name, value in vars(self).items() if name not in {"name", "schedule", "seeds"}}


EPOCH = 50_000 // 1024
"""Steps of CIFAR-10's training set; the rest of an epoch is dropped."""


def tenth_every_hundred_epochs(step: int) -> float:
    """1, and a tenth of that after each 100 epochs: ours, a usual choice."""
    return 0.1 ** ((step - 1) // (100 * EPOCH))


def bert_schedule(step: int) -> float:
    """Linear to 1 in 12,500 steps, then 1 % less every 520 steps: recalled from the paper, not checked."""
    return step / 12_500 if step <= 12_500 else 0.99 ** ((step - 12_500) // 520)


CIFAR10 = Recipe(
    name="cifar10",
    shape={"width": 64},
    # Recalled, not checked: 1e-4 and 1e-1, and a warm-up of 13 of 200 epochs. Ours: the batch, no weight decay.
    lr={"adam": 1e-4, "one_bit_adam": 1e-4, "one_bit_adam_no_floor": 1e-4, "sgd": 0.1, "momentum_sgd": 0.1},
    schedule=tenth_every_hundred_epochs,
    steps=200 * EPOCH,
    batch=1024,
    micro_batch=128,
    freeze_step=13 * EPOCH,
    record_every=EPOCH,
)


def bert(name: str, *, steps: int, freeze_step: int, width: int, layers: int, heads: int) -> Recipe:
    """Pre-training at sequence length 128: batch, step size, decay and clipping as published; no bias correction."""
    family = ("adam", "one_bit_adam", "one_bit_adam_no_floor")
    return Recipe(
        name=name,
        shape={"width": width, "layers": layers, "heads": heads, "length": 128},
        lr=dict.fromkeys(family, 4e-4),
        schedule=bert_schedule,
        steps=steps,
        batch=4096,
        micro_batch=64,
        freeze_step=freeze_step,
        weight_decay=0.01,
        max_grad_norm=1.0,
        autocast=True,
        record_every=500,
        seeds=1,
    )


# The warm-ups are published; the totals are recalled. The second phase, sequences of 512, is left out.
BERT_BASE = bert("bert-base", steps=118_000, freeze_step=16_000, width=768, layers=12, heads=12)
BERT_LARGE = bert("bert-large", steps=152_000, freeze_step=23_000, width=1024, layers=24, heads=16)
RECIPES = {recipe.name: recipe for recipe in (CIFAR10, BERT_BASE, BERT_LARGE)}
