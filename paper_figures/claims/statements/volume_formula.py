"""P11: a compressed step sends 2 (N-1)/N D/8 bytes a worker, and next to nothing else."""

from __future__ import annotations

from paper_figures.algorithms import ADAM, ONE_BIT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.problems import FIGURES, traffic
from theory.theorems.communication_volume import wire_bytes


def measure(facts: Facts) -> list[Check]:
    """Bytes counted by the runs over the formula's; the scales and the last byte of a chunk are all that may be added.

    Each of the N chunks carries a scale of 4 bytes either way, and together they round D/8 up by less than one byte.
    """
    checks = []
    for sent in traffic(facts):
        formula = wire_bytes(int(sent.dim), sent.n_workers)
        most = wire_bytes(int(sent.dim) + 8, sent.n_workers, n_blocks=sent.n_workers) / formula
        value = sent.compressed / formula
        checks.append(
            Check(
                setting=f"{sent.problem}, D = {sent.dim:,.0f}", value=value, unit="times the formula's bytes",
                test="exact count: at least 1, at most 1 + (1 + 4N) 8/D", bound=most, exact=1 <= value <= most,
            )
        )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P11",
    title="Volume of a compressed step",
    statement="A worker sends 2(N-1)/N · D/8 bytes in a compressed step, beside one scale a chunk and direction.",
    where="Algorithm 1, figure 3",
    published="",
    source="seen",
    conditions="",
    figures=FIGURES,
    shown_in=("volume",),
    theorems=("T10d",),
    properties=("collective.wire_bytes",),
    pair=(ONE_BIT.label, ADAM.label),
    measure=measure,
)
