"""P7: sample for sample, 1-bit Adam converges like Adam."""

from __future__ import annotations

from paper_figures.algorithms import ADAM, NO_FEEDBACK, ONE_BIT
from paper_figures.claims.claim import MAIN_MARGIN, Check, Claim, Facts
from paper_figures.claims.problems import FIGURES, HEADLINE, curves
from paper_figures.claims.statistics import no_worse, worse

OF = "Adam's loss, geometric mean over the compression stage"


def measure(facts: Facts) -> list[Check]:
    """The whole curve after the freeze against Adam's; the same test must find the run without feedback worse."""
    checks = []
    for problem, runs in curves(facts, ONE_BIT.label):
        adam = runs(ADAM.label)
        checks += [
            no_worse(
                runs(ONE_BIT.label),
                adam,
                problem,
                of=OF,
                margin=MAIN_MARGIN,
                part=problem,
                required=problem in HEADLINE,
            ),
            worse(runs(NO_FEEDBACK.label), adam, f"{problem}, feedback removed", of=OF, part=problem, guard=True),
        ]
    return checks


CLAIM = Claim(
    id="P7",
    title="Sample-wise convergence",
    statement=(
        "At equal samples the loss of 1-bit Adam in the compression stage is at most 5 % above Adam's, each at its own "
        "best step size; the same measurement does tell the run without error feedback from Adam."
    ),
    where="abstract, figure 4",
    published="same convergence as Adam",
    source="seen",
    conditions=(
        "A run that goes on long after the freeze pays for a variance that no longer follows the gradients. The loss "
        "of a network that interpolates its data falls by orders of magnitude after the freeze, and Adam's steps grow "
        "with it while frozen ones don't."
    ),
    figures=FIGURES,
    theorems=("T6a", "T7a"),
    pair=(ONE_BIT.label, NO_FEEDBACK.label),
    measure=measure,
)
