"""P17: without a floor under the frozen variance one-bit steps throw coordinates; with the default one they don't."""

from __future__ import annotations

from paper_figures.algorithms import FROZEN, ONE_BIT
from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.statistics import final, no_worse, worse

DEFAULT = 1e-3
OF = "the final loss with 32 bits and no floor"


def measure(facts: Facts) -> list[Check]:
    """Final loss against 32 bits without a floor, for every κ from the default on, and for κ = 0."""
    table = facts["variance_floor"]
    frozen = final(table, FROZEN.label)
    swept = sorted(float(value) for value in table["kappa"].dropna().unique())
    if DEFAULT not in swept or 0.0 not in swept:
        raise EvidenceError(f"variance_floor has no κ = 0 or no κ = {DEFAULT:g}")
    enough = [kappa for kappa in swept if kappa >= DEFAULT]
    checks = [worse(final(where(table, kappa=0.0), ONE_BIT.label), frozen, "κ = 0, as published", of=OF, required=True)]
    checks += [
        no_worse(
            final(where(table, kappa=kappa), ONE_BIT.label), frozen, f"κ = {kappa:g}", of=OF, required=kappa == DEFAULT
        )
        for kappa in enough
    ]
    return checks


CLAIM = Claim(
    id="P17",
    title="Variance floor",
    statement=(
        "Without a floor (κ = 0, as published) one-bit momentum diverges or ends higher than the same frozen variance "
        "with 32 bits; with the default κ of 1e-3, or above it, it ends at most 10 % above that."
    ),
    where="this project; the paper has no floor",
    published="",
    source="ours",
    conditions=(
        "Shown on a network with units that rarely fire. At P1's step sizes κ = 0 does no harm on "
        "the transformer and the autoencoder; in `robustness` it makes runs of the autoencoder diverge too. Theory "
        "gives this κ for the l1 scale (T7e, T7l). For the l2 scale, which these runs use, it does so only while what "
        "is compressed is flat (T7j). With noise whose size differs much from coordinate to coordinate, l2 steps "
        "exceed Adam's worst step at this κ."
    ),
    figures=("variance_floor",),
    theorems=("T7d", "T7e", "T7f", "T7j", "T7l"),
    laws=("C6", "C7"),
    properties=("optimizer.floor", "optimizer.dead", "optimizer.dead_params"),
    pair=(0.0, DEFAULT),
    pair_column="kappa",
    measure=measure,
)
