"""P32: 0/1 Adam sends up to 87 % less than 1-bit Adam, in up to 54 % fewer rounds, at the same loss."""

from __future__ import annotations

from paper_figures.algorithms import ONE_BIT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.problems import FAMILY, HEADLINE, finals, saved
from paper_figures.claims.statistics import no_worse
from paper_figures.family import ZERO_ONE

FEWER = {"bytes": 1 / (1 - 0.87), "rounds": 1 / (1 - 0.54)}
"""How many times fewer was published."""


def measure(facts: Facts) -> list[Check]:
    """Final loss against 1-bit Adam's; bytes and rounds of whole runs, warm-up counted."""
    of = "1-bit Adam's final loss"
    checks = [
        no_worse(runs(ZERO_ONE.label), runs(ONE_BIT.label), problem, of=of, part=problem, required=problem in HEADLINE)
        for problem, runs in finals(facts, FAMILY)
    ]
    for what, published in FEWER.items():
        checks += saved(facts, ZERO_ONE.label, ONE_BIT.label, what, published)
    return checks


CLAIM = Claim(
    id="P32",
    title="0/1 Adam saves more",
    statement=(
        "0/1 Adam ends no more than 10 % above 1-bit Adam, sends 87 % fewer bytes and takes 54 % fewer rounds over a "
        "whole run."
    ),
    where="Lu et al. 2022 (arXiv 2202.06009), abstract",
    published="up to 87 % less volume, 54 % fewer rounds",
    source="seen",
    conditions=(
        '"Up to", and for pre-training of 100,000 steps and more. However long the run is, v is refreshed in full '
        "precision in a few hundred rounds. They are most of the bill of a run of a thousand steps. Where a network "
        "learns its data by heart, 0/1 Adam ends far above."
    ),
    figures=tuple(FAMILY),
    pair=(ZERO_ONE.label, ONE_BIT.label),
    measure=measure,
)
