"""P15: the published l2 scale trains at least as well as l1, although only l1 contracts."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.statistics import better, final, last
from paper_figures.figures.scale_and_sparsity import LOOKS

L2, L1 = LOOKS["l2"][0], LOOKS["l1"][0]


def measure(facts: Facts) -> list[Check]:
    """Final losses at every density; the largest factor by which a compression left more or less than it was given."""
    table = facts["scale_and_sparsity"]
    checks = []
    for batch_size in sorted(set(table["batch_size"])):
        here = where(table, batch_size=batch_size)
        share = float(here["density"].iloc[0])
        of = "the final loss with the l1 scale"
        checks.append(better(final(here, L2), final(here, L1), f"{share:.1%} non-zeros", of=of))
    l1, l2 = (float(last(table, label, "contraction_max").max()) for label in (L1, L2))
    unit = "of a vector's norm left over, at most"
    checks += [
        Check(
            setting="l1 scale", value=l1, unit=unit, test="exact: below 1 (T1a)", bound=1.0, exact=l1 < 1, guard=True
        ),
        Check(
            setting="l2 scale", value=l2, unit=unit, test="exact: above 1 (T1b)", bound=1.0, exact=l2 > 1, guard=True
        ),
    ]
    return checks


CLAIM = Claim(
    id="P15",
    title="l2 or l1 scale",
    statement=(
        "The published l2 scale ends at a lower loss than the l1 scale of EF-signSGD, at every sparsity of the "
        "gradients, although its compressor is no contraction and that of l1 always is one."
    ),
    where="this project; the paper uses l2",
    published="",
    source="ours",
    conditions=(
        "Contraction is sufficient for bounded errors, not necessary: T5d bounds those of l2, and lower than those of "
        "l1."
    ),
    figures=("scale_and_sparsity",),
    theorems=("T1a", "T1b", "T1c", "T5d"),
    laws=("C1", "L10"),
    properties=("collective.worker_scale",),
    pair=(L2, L1),
    measure=measure,
)
