"""The line-up of the convergence figures: each algorithm with its hyper-parameters, its name and its look.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; the dashes serve print in black and white.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from reference.experiments import RunConfig


@dataclass(frozen=True)
class Algorithm:
    """One line of a figure."""

    label: str
    optimizer: str
    color: str
    linestyle: Any = "solid"
    hyper: dict[str, Any] = field(default_factory=dict)
    needs_freeze_step: bool = False


ADAM = Algorithm("Adam", "adam", "#000000", hyper={"bias_correction": False})
ONE_BIT = Algorithm("1-bit Adam", "one_bit_adam", "#0072B2", needs_freeze_step=True)
ONE_BIT_NO_FLOOR = Algorithm(
    "1-bit Adam, no variance floor (κ = 0)", "one_bit_adam", "#56B4E9", (0, (5, 2)), {"variance_floor": 0.0}, True
)
FROZEN = Algorithm("v frozen, 32 bits", "frozen_adam", "#009E73", (0, (6, 1.5, 1, 1.5)), needs_freeze_step=True)
NO_FEEDBACK = Algorithm("1-bit, no error feedback", "one_bit_adam_no_feedback", "#D55E00", (0, (1, 1)), {}, True)
NAIVE = Algorithm("naive error-compensated Adam", "naive_adam", "#CC79A7", (0, (3, 1.5)), {"bias_correction": False})

LINE_UP = (ADAM, ONE_BIT, ONE_BIT_NO_FLOOR, FROZEN, NO_FEEDBACK, NAIVE)


def runs(
    problem: str,
    *,
    lr: float,
    steps: int,
    freeze_step: int,
    seeds: Iterable[int],
    record_every: int,
    algorithms: Iterable[Algorithm] = LINE_UP,
    **problem_args: Any,
) -> list[RunConfig]:
    """Algorithms x seeds on ``problem`` with N = 8 workers; all with the same step size, no bias correction."""
    return [
        RunConfig(
            problem=problem,
            problem_args=problem_args,
            optimizer=algorithm.optimizer,
            hyper={
                "lr": lr,
                **algorithm.hyper,
                **({"freeze_step": freeze_step} if algorithm.needs_freeze_step else {}),
            },
            label=algorithm.label,
            steps=steps,
            seed=seed,
            record_every=record_every,
        )
        for algorithm in algorithms
        for seed in seeds
    ]
