"""P28: the checks that say so are able to say otherwise."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts


def measure(facts: Facts) -> list[Check]:
    """Planted bugs that no property finds."""
    mutants = facts["mutants"]["mutants"]
    if not mutants:
        raise EvidenceError("no bug was planted")
    alive = [row["mutant"] for row in mutants if not row["killed_by"] and not row["equivalent"]]
    return [
        Check(
            setting="all families", value=len(alive), unit=f"of {len(mutants)} planted bugs found by no property",
            test="exact: onebit mutants", bound=0, exact=not alive,
        )
    ]  # fmt: skip


CLAIM = Claim(
    id="P28",
    title="The checks bite",
    statement="Every bug that was planted in a correct implementation is found by at least one property.",
    where="this project",
    published="",
    source="ours",
    conditions="Bugs of the kinds that were thought of, among them those of earlier implementations.",
    others=("mutants",),
    pair=None,
    measure=measure,
)
