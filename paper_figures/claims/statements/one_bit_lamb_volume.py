"""P33: 1-bit LAMB sends up to 4.6 times less than LAMB, at the same loss."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.problems import FAMILY, HEADLINE, finals, saved
from paper_figures.claims.statistics import no_worse
from paper_figures.family import LAMB, ONE_BIT_LAMB

PUBLISHED = 4.6


def measure(facts: Facts) -> list[Check]:
    """Final loss against LAMB's; bytes of whole runs, warm-up counted, both in float32."""
    of = "LAMB's final loss"
    checks = [
        no_worse(runs(ONE_BIT_LAMB.label), runs(LAMB.label), problem, of=of, part=problem, required=problem in HEADLINE)
        for problem, runs in finals(facts, FAMILY)
    ]
    return [*checks, *saved(facts, ONE_BIT_LAMB.label, LAMB.label, "bytes", PUBLISHED)]


CLAIM = Claim(
    id="P33",
    title="1-bit LAMB saves like 1-bit Adam",
    statement="1-bit LAMB ends no more than 10 % above LAMB and sends at least 4.6 times fewer bytes over a whole run.",
    where="Li et al. 2021 (arXiv 2104.06069), abstract",
    published="up to 4.6x less volume",
    source="seen",
    conditions=(
        "Where a network learns its data by heart, what is compressed ends far above. The warm-up is 10 % to 15 % of "
        "the steps here, which bounds what can be saved (T10a)."
    ),
    figures=tuple(FAMILY),
    theorems=("T10a",),
    pair=(ONE_BIT_LAMB.label, LAMB.label),
    measure=measure,
)
