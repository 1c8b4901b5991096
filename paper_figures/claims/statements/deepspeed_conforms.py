"""P29: the implementation that was published and maintained computes what is published."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.facts import broken

AS_PUBLISHED = ("optimizer.conservation", "optimizer.apply", "optimizer.replicas", "collective.one_bit")


def measure(facts: Facts) -> list[Check]:
    """The core of the algorithm first, then everything that was checked."""
    core, n_core = broken(facts, "conformance", AS_PUBLISHED)
    failing, checked = broken(facts, "conformance")
    return [
        Check(
            setting="one bit, conservation, update, replicas", value=len(core), unit=f"of {n_core} properties broken",
            test="exact: onebit verify", bound=0, exact=not core,
        ),
        Check(
            setting="all properties", value=len(failing), unit=f"of {checked} properties broken",
            test="exact: onebit verify", bound=0, exact=not failing, required=True,
        ),
    ]  # fmt: skip


CLAIM = Claim(
    id="P29",
    title="The published implementation",
    statement="DeepSpeed 0.19.6, the last release with 1-bit Adam, obeys the laws of the algorithm.",
    where="the paper's code release",
    published="",
    source="ours",
    conditions=(
        "The first step, padding, -0.0, bias correction, coordinates without gradient, NaN and resuming are wrong: "
        "docs/conformance."
    ),
    others=("conformance",),
    laws=("L1", "L5", "L6"),
    properties=AS_PUBLISHED,
    pair=None,
    measure=measure,
)
