"""P28: the checks that say so are able to say otherwise."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.statistics import fewest_without, share_below

MOST_ALIVE = 0.02
"""The share of bugs, each under a condition that the search was not made with, that may live in a quick search."""


def measure(facts: Facts) -> list[Check]:
    """The share of mutants that no clause finds, estimated from a random sample."""
    mutants = [row for row in facts["mutants"]["mutants"] if row["differs"]]
    if not mutants:
        raise EvidenceError("no mutant was run")
    alive = sum(not row["killed_by"] for row in mutants)
    unit, test = f"of {len(mutants)} sampled mutants found by no clause", f"less than {MOST_ALIVE:.0%} of all"
    return [share_below(alive, len(mutants), MOST_ALIVE, "all families", unit=unit, test=test)]


CLAIM = Claim(
    id="P28",
    title="The checks bite",
    statement=(
        f"More than {100 * (1 - MOST_ALIVE):.0f} % of the mutants of a correct implementation are found, under "
        "whatever condition they bite."
    ),
    where="this project",
    published="",
    source="ours",
    conditions=(
        "A random sample of elementary bugs, among them those of earlier implementations, under conditions that were "
        "held out from the making of the search. A mutant that never differs from the correct class is not counted. "
        f"At least {fewest_without(MOST_ALIVE)} that differ, none of them missed, would decide it; "
        "docs/conformance/kill-score.json is a sample of 200 from an earlier day."
    ),
    others=("mutants",),
    pair=None,
    measure=measure,
)
