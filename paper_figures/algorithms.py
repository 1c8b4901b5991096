"""The comparison of the figures: each algorithm with its hyper-parameters, its name and its look.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; the dashes serve print in black and white.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from paper_figures.figure import Scale
from reference import problems
from reference.experiments import RunConfig

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"


@dataclass(frozen=True)
class Algorithm:
    """One line of a figure.

    Attributes:
        label: its name in tables and legends.
        optimizer: key of ``reference.optimizers.OPTIMIZERS``.
        color, linestyle: its look.
        hyper: its hyper-parameters but the step size and T_w.
        needs_freeze_step: whether it has a T_w.
        needs_shapes: whether it treats the arrays of the parameters one by one.
        shares: hyper-parameters that are numbers of steps, as shares of those of the run.
    """

    label: str
    optimizer: str
    color: str
    linestyle: Any = "solid"
    hyper: dict[str, Any] = field(default_factory=dict)
    needs_freeze_step: bool = False
    needs_shapes: bool = False
    shares: dict[str, float] = field(default_factory=dict)


ADAM = Algorithm("Adam", "adam", BLACK, hyper={"bias_correction": False})
ONE_BIT = Algorithm("1-bit Adam", "one_bit_adam", BLUE, needs_freeze_step=True)
ONE_BIT_NO_FLOOR = Algorithm("1-bit Adam, κ = 0", "one_bit_adam", SKY, (0, (5, 2)), {"variance_floor": 0.0}, True)
FROZEN = Algorithm("v frozen, 32 bits", "frozen_adam", GREEN, (0, (6, 1.5, 1, 1.5)), {}, True)
NO_FEEDBACK = Algorithm("1-bit, no feedback", "one_bit_adam_no_feedback", VERMILION, (0, (1, 1)), {}, True)
NAIVE = Algorithm("naive compressed Adam", "naive_adam", PURPLE, (0, (3, 1.5)), {"bias_correction": False})
ADAM_FAMILY = (ADAM, ONE_BIT, ONE_BIT_NO_FLOOR, FROZEN, NO_FEEDBACK, NAIVE)

SGD = Algorithm("SGD", "sgd", ORANGE)
MOMENTUM = Algorithm("momentum SGD", "momentum_sgd", GREEN, (0, (6, 1.5, 1, 1.5)))
DOUBLE_SQUEEZE = Algorithm("two-sided EF-SGD", "double_squeeze", VERMILION, (0, (4, 1.5)))
LOCAL = Algorithm("local SGD, H = 5", "local_sgd", SKY, (0, (1, 1)), {"sync_every": 5})
SGD_FAMILY = (SGD, MOMENTUM, DOUBLE_SQUEEZE, LOCAL)

LINE_UP = (*ADAM_FAMILY, *SGD_FAMILY)

ADAM_CORRECTED = Algorithm("Adam, bias correction", "adam", BLACK, (0, (5, 2)))
SHORT = Algorithm(
    "1-bit Adam, T_w = 30", "one_bit_adam", ORANGE, (0, (6, 1.5, 1, 1.5)), {"freeze_step": 30, "bias_correction": True}
)
"""The longest warm-up, in tens of steps, that leaves a run of 900 steps a fifteenth of Adam's bytes; with C5."""
ONE_BIT_CORRECTED = Algorithm(
    "1-bit Adam, bias correction", "one_bit_adam", GREEN, (0, (1, 1)), {"bias_correction": True}, needs_freeze_step=True
)
SHORT_WARMUP = (ADAM_CORRECTED, SHORT, ONE_BIT_CORRECTED)

TUNED_FILE = Path(__file__).with_name("tuned.json")
TUNED: dict[str, dict[str, float]] = json.loads(TUNED_FILE.read_text(encoding="utf-8"))
"""Step sizes, problem -> label -> the best of the grid of ``tuning.py``, for the figures' problems and lengths."""


@dataclass(frozen=True)
class Experiment:
    """What the algorithms are compared on, all with N = 8 workers and no bias correction.

    The digits are a stress test: 178 passes over 1,438 pictures, which the network comes to know by heart. Text and
    patches are drawn at most once on average.

    Attributes:
        problem, problem_args: of ``RunConfig``.
        steps, freeze_step, record_every: of the runs; T_w.
        lr: the step size of every algorithm; None: each has its own best, of ``TUNED``.
        n_seeds: at quick scale.
    """

    problem: str
    steps: int
    freeze_step: int
    record_every: int
    problem_args: dict[str, Any] = field(default_factory=dict)
    lr: float | None = None
    n_seeds: int = 5

    def run(self, algorithm: Algorithm, seed: int, hyper: dict[str, Any] | None = None, **changes: Any) -> RunConfig:
        """One run; ``hyper`` is added to the algorithm's own, ``changes`` are other fields of ``RunConfig``."""
        lengths = {name: round(share * self.steps) for name, share in algorithm.shares.items()}
        hyper = {**algorithm.hyper, **lengths, **(hyper or {})}
        if algorithm.needs_shapes:
            hyper["shapes"] = self.shapes()
        if "lr" not in hyper:
            hyper["lr"] = TUNED[self.problem][algorithm.label] if self.lr is None else self.lr
        freeze = {"freeze_step": self.freeze_step} if algorithm.needs_freeze_step else {}
        config = RunConfig(
            problem=self.problem,
            problem_args=self.problem_args,
            optimizer=algorithm.optimizer,
            hyper={**freeze, **hyper},
            label=algorithm.label,
            steps=self.steps,
            seed=seed,
            record_every=self.record_every,
        )
        return replace(config, **changes)

    def shapes(self) -> list[list[int]] | None:
        """Shapes of the parameter arrays of the problem; None where they are one vector."""
        return _shapes(self.problem, json.dumps(self.problem_args))

    def runs(self, scale: Scale, algorithms: Iterable[Algorithm], **changes: Any) -> list[RunConfig]:
        """Algorithms x seeds."""
        return [self.run(algorithm, seed, **changes) for algorithm in algorithms for seed in seeds(scale, self.n_seeds)]


@cache
def _shapes(problem: str, arguments: str) -> list[list[int]] | None:
    """Of :meth:`Experiment.shapes`; a problem takes long to make, and every run asks."""
    layout = getattr(problems.make(problem, **json.loads(arguments)), "layout", None)
    return None if layout is None else [list(shape) for shape in layout.shapes.values()]


def seeds(scale: Scale, quick: int = 5) -> range:
    """``quick`` seeds, or 20 at full scale: the same ones for every algorithm, so that comparisons are paired."""
    return range(quick if scale is Scale.QUICK else 20)


LOGISTIC = Experiment("logistic_regression", steps=1500, freeze_step=200, record_every=50)
DIGITS = Experiment("mlp", steps=2000, freeze_step=200, record_every=50, problem_args={"held_out": 5})
TEXT = Experiment(
    "char_transformer", steps=1000, freeze_step=150, record_every=50,
    problem_args={"context": 16, "n_windows": 64_000, "manual": True, "held_out": 100, "measured": 128},
)  # fmt: skip
PATCHES = Experiment("denoising", steps=900, freeze_step=135, record_every=50)
