"""P28: the checks that say so are able to say otherwise."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts

MOST_ALIVE = 0.02
"""The share of bugs, each under a condition that the search was not made with, that may live in a quick search."""


def measure(facts: Facts) -> list[Check]:
    """The share of mutants that no clause finds."""
    mutants = [row for row in facts["mutants"]["mutants"] if row["differs"]]
    if not mutants:
        raise EvidenceError("no mutant was run")
    alive = sum(not row["killed_by"] for row in mutants) / len(mutants)
    return [
        Check(
            setting="all families", value=alive, unit=f"of {len(mutants)} mutants found by no clause",
            test="exact: onebit mutants", bound=MOST_ALIVE, exact=alive <= MOST_ALIVE,
        )
    ]  # fmt: skip


CLAIM = Claim(
    id="P28",
    title="The checks bite",
    statement="At least 98 % of the mutants of a correct implementation are found, under whatever condition they bite.",
    where="this project",
    published="",
    source="ours",
    conditions="A sample of elementary bugs, among them those of earlier implementations, under conditions that were "
    "held out from the making of the search.",
    others=("mutants",),
    pair=None,
    measure=measure,
)
