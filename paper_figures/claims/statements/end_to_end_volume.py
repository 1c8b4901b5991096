"""P13: up to five times less communication over a whole run, warm-up included."""

from __future__ import annotations

from paper_figures.algorithms import ADAM, ONE_BIT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.problems import FIGURES, traffic
from theory.theorems.communication_volume import volume_ratio

PUBLISHED = 5


def measure(facts: Facts) -> list[Check]:
    """1/(w + (1-w) r): w as published, r as the runs count a compressed step against half a float32 step (fp16)."""
    largest = max(traffic(facts), key=lambda sent: sent.dim)
    fp16_over_one_bit = largest.dense / 2 / largest.compressed
    return [
        Check(
            setting=f"{task}, warm-up {share:.1%}",
            value=(value := volume_ratio(share, fp16_over_one_bit)),
            unit=f"times fewer bytes than fp16, {fp16_over_one_bit:.1f} in a compressed step of {largest.problem}",
            test="rounds to the published 5",
            bound=PUBLISHED,
            exact=round(value) >= PUBLISHED,
        )
        for task, share in facts["published"]["warmup_share"].items()
    ]


CLAIM = Claim(
    id="P13",
    title="Up to 5x less volume",
    statement="With the published warm-ups a whole run of 1-bit Adam sends up to five times less than fp16 Adam.",
    where="abstract",
    published="up to 5x",
    source="seen",
    conditions=(
        '"Up to": the warm-up caps it at 1/w. SQuAD\'s short fine-tuning, a fifth of which is warm-up, stays below.'
    ),
    figures=FIGURES,
    shown_in=("volume",),
    others=("published",),
    theorems=("T10a",),
    pair=(ONE_BIT.label, ADAM.label),
    measure=measure,
)
