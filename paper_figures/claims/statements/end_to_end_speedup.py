"""P21: 3.3x and 2.9x end to end follow from the speed-up of the compression stage and the warm-up's share."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, Facts
from theory.theorems.communication_volume import end_to_end_speedup

PUBLISHED = {"BERT-Large": 3.3, "SQuAD": 2.9}


def measure(facts: Facts) -> list[Check]:
    """T10c at the published numbers, rounded as the abstract rounds."""
    shares, gains = facts["published"]["warmup_share"], facts["published"]["compressed_speedup"]
    checks = []
    for task, printed in PUBLISHED.items():
        value = end_to_end_speedup(shares[task], gains[task])
        checks.append(
            Check(
                setting=f"{task}, warm-up {shares[task]:.1%}, {gains[task]}x after it",
                value=value, unit="times faster",
                test=f"rounds to the published {printed}", bound=printed, exact=round(value, 1) == printed,
            )
        )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P21",
    title="End-to-end speed-up, arithmetic",
    statement=(
        "Compression stages 5.48x and 6.17x faster, after warm-ups of 15 % and 21.6 % of the steps, make whole runs "
        "3.3x and 2.9x faster."
    ),
    where="abstract",
    published="3.3x and 2.9x",
    source="seen",
    conditions="A consistency check: the stage speed-ups are recalled, and nothing here was timed.",
    others=("published",),
    theorems=("T10c",),
    pair=None,
    measure=measure,
)
