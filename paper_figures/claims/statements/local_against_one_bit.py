"""P34: who meets every 50 steps sends less than 1-bit Adam, at the same loss."""

from __future__ import annotations

from paper_figures.algorithms import SHORT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.problems import FAMILY, HEADLINE, SPENT, finals, saved
from paper_figures.claims.statistics import no_worse
from paper_figures.family import DILOCO, SPARSE_LOCO


def measure(facts: Facts) -> list[Check]:
    """Final losses against 1-bit Adam with a short warm-up and bias correction; bytes and rounds of whole runs."""
    of, checks = "1-bit Adam's final loss", list[Check]()
    for one in (DILOCO, SPARSE_LOCO):
        for problem, runs in finals(facts, FAMILY):
            setting, required = f"{problem}, {one.label}", problem in HEADLINE
            checks.append(no_worse(runs(one.label), runs(SHORT.label), setting, of=of, part=problem, required=required))
        for what in SPENT:
            checks += saved(facts, one.label, SHORT.label, what, 1, of=one.label, guard=True)
    return checks


CLAIM = Claim(
    id="P34",
    title="Meeting rarely instead",
    statement=(
        "DiLoCo and SparseLoCo, which meet every 50 steps, end no more than 10 % above 1-bit Adam with a warm-up of 30 "
        "steps, and send fewer bytes in fewer rounds."
    ),
    where="this project; Douillard et al. 2023 (arXiv 2311.08105), Sarfi et al. 2025 (arXiv 2508.15706)",
    published="",
    source="ours",
    conditions=(
        "DiLoCo does on the digits, which are learnt by heart, and SparseLoCo on none of the three. Runs of a thousand "
        "steps have twenty meetings, too few for the outer optimizer; the published runs are a hundred times as long."
    ),
    figures=tuple(FAMILY),
    pair=(DILOCO.label, SHORT.label),
    measure=measure,
)
