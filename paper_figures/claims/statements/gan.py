"""P10: 1-bit Adam trains a generative adversarial network as well as Adam."""

from __future__ import annotations

from paper_figures.algorithms import ADAM, NO_FEEDBACK, ONE_BIT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.facts import freeze_step
from paper_figures.claims.statistics import no_worse, whole_curve, worse

OF = "Adam's distance to held-out digits, geometric mean over the compression stage"


def measure(facts: Facts) -> list[Check]:
    """A game oscillates, so the whole curve after the freeze counts, not its last point."""
    table = facts["gan"]
    adam, one_bit, blind = (
        whole_curve(table, algorithm.label, since=freeze_step(table, ONE_BIT.label))
        for algorithm in (ADAM, ONE_BIT, NO_FEEDBACK)
    )
    return [
        no_worse(one_bit, adam, "GAN on digits", of=OF),
        worse(blind, adam, "GAN on digits, feedback removed", of=OF, required=True),
    ]


CLAIM = Claim(
    id="P10",
    title="Generative adversarial network",
    statement=(
        "In the compression stage the digits generated under 1-bit Adam are no further from real ones than under Adam "
        "with another seed; the same measurement tells the run without error feedback from Adam."
    ),
    where="the experiments on GANs",
    published="",
    source="recalled",
    conditions="",
    figures=("gan",),
    theorems=("T3e",),
    pair=(ONE_BIT.label, NO_FEEDBACK.label),
    measure=measure,
)
