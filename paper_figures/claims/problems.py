"""The problems of the convergence figures, and the column that is compared there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from paper_figures.algorithms import ADAM, DIGITS, LOGISTIC, ONE_BIT, PATCHES, TEXT
from paper_figures.claims.claim import Check, Facts
from paper_figures.claims.facts import bytes_per_step, freeze_step
from paper_figures.claims.statistics import Runs, final, last, whole_curve

PROBLEMS = {
    TEXT.problem: ("character transformer", "held_out_loss"),
    PATCHES.problem: ("denoising autoencoder", "held_out_loss"),
    DIGITS.problem: ("digits MLP", "loss"),
    LOGISTIC.problem: ("logistic regression", "excess_loss"),
}
"""Problem -> what it is called, and the loss that counts: on held-out data, but for the convex problem, where the
distance to the optimum is known, and the stress test, which is learnt by heart."""

CONVERGENCE = {
    "convergence_logistic_regression": PROBLEMS[LOGISTIC.problem],
    "convergence_digits_mlp": PROBLEMS[DIGITS.problem],
    "convergence_char_transformer": PROBLEMS[TEXT.problem],
    "convergence_denoising": PROBLEMS[PATCHES.problem],
}
"""Figure -> what its problem is called, and the column of its y axis."""

FAMILY = {
    "family_digits": CONVERGENCE["convergence_digits_mlp"],
    "family_text": CONVERGENCE["convergence_char_transformer"],
    "family_patches": CONVERGENCE["convergence_denoising"],
}
"""The same for the figures of the family."""

HEADLINE = ("character transformer", "denoising autoencoder")
"""The problems of at most one pass: what the main claims, P1, P2 and P7, must hold on."""

FIGURES = tuple(CONVERGENCE)


def finals(
    facts: Facts, figures: Mapping[str, tuple[str, str]] = CONVERGENCE
) -> Iterator[tuple[str, Callable[[str], Runs]]]:
    """Each problem, with a function from a label to its final losses."""
    for figure, (problem, column) in figures.items():
        yield problem, partial(final, facts[figure], column=column)


SPENT = {"bytes": "bytes_per_worker", "rounds": "rounds"}
"""What a run sends, and the column that counts it."""


def saved(
    facts: Facts, candidate: str, baseline: str, what: str, bound: float, *, of: str = "", guard: bool = False
) -> Iterator[Check]:
    """On each problem of the family: is what ``candidate`` takes of ``what`` in a run more than ``bound`` times fewer.

    ``of`` is the candidate's name in the setting, where there are several. No guard: it is required on ``HEADLINE``.
    """
    for figure, (problem, _) in FAMILY.items():
        less, more = (float(last(facts[figure], label, SPENT[what]).mean()) for label in (candidate, baseline))
        yield Check(
            setting=", ".join(filter(None, (problem, of, what))),
            value=more / less,
            unit=f"times fewer than {baseline.partition(',')[0]}",
            test="exact: counted over the whole run",
            bound=bound,
            exact=more / less > bound,
            required=not guard and problem in HEADLINE,
            guard=guard,
        )


def curves(facts: Facts, frozen: str) -> Iterator[tuple[str, Callable[[str], Runs]]]:
    """Each problem, with a function from a label to its mean log loss after the step at which ``frozen`` freezes."""
    for figure, (problem, column) in CONVERGENCE.items():
        since = freeze_step(facts[figure], frozen)
        yield problem, partial(whole_curve, facts[figure], column=column, since=since)


def game(facts: Facts) -> Callable[[str], Runs]:
    """A function from a label to its mean log distance in the GAN after the freeze: a game oscillates to its end."""
    table = facts["gan"]
    return partial(whole_curve, table, since=freeze_step(table, ONE_BIT.label))


def traffic(facts: Facts) -> Iterator[Traffic]:
    """What is sent on each problem, uncompressed and compressed."""
    for figure, (problem, _) in CONVERGENCE.items():
        n_workers = int(facts[figure]["n_workers"].max())
        dense, compressed = (bytes_per_step(facts[figure], algorithm.label) for algorithm in (ADAM, ONE_BIT))
        yield Traffic(problem, n_workers, dense, compressed)


@dataclass(frozen=True)
class Traffic:
    """Bytes that a worker sends in a step, as counted by the run.

    Attributes:
        problem: what it is called.
        n_workers: N.
        dense: by Adam, in float32: 2 (N-1)/N 4 D.
        compressed: by 1-bit Adam after the freeze.
    """

    problem: str
    n_workers: int
    dense: float
    compressed: float

    @property
    def dim(self) -> float:
        """D, from what Adam sends."""
        return self.dense * self.n_workers / (8 * (self.n_workers - 1))
