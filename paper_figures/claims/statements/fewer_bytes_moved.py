"""P24: a fused 1-bit Adam step moves fewer bytes through memory than fused Adam."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import ADAM_FUSED, ONE_BIT_FUSED, ONE_BIT_STEPS


def measure(facts: Facts) -> list[Check]:
    """Counted bytes per parameter of the programs that were timed, for each number of workers: kernels, then a step."""
    counted = facts["measurements"].groupby(["label", "n_workers"])["floor_bytes"].max()
    if not {ADAM_FUSED, ONE_BIT_FUSED} <= set(counted.index.get_level_values("label")):
        raise EvidenceError("the measurements lack one of the two programs")
    return [
        Check(
            setting=f"N = {n_workers}{beside}", value=float(ours), unit="bytes a parameter",
            test="fewer than fused Adam's", bound=float(counted[ADAM_FUSED, n_workers]),
            exact=bool(ours < counted[ADAM_FUSED, n_workers]),
        )
        for label, beside in ONE_BIT_STEPS.items()
        if label in counted.index.get_level_values("label")
        for n_workers, ours in counted[label].items()
    ]  # fmt: skip


CLAIM = Claim(
    id="P24",
    title="Fewer bytes than Adam",
    statement="With fused kernels a step of the compression stage moves fewer bytes through memory than fused Adam.",
    where="this project; an answer to Agarwal et al., MLSys 2022",
    published="",
    source="ours",
    conditions=(
        "From three workers on: at N = 2 the server's share costs as much as the fused passes save. And for the three "
        "kernels of the compression alone. The optimizer reads the gradient once before them, 4 bytes, so that a step "
        "whose gradient is not finite changes nothing (C8). torch's fused Adam does not look."
    ),
    others=("measurements",),
    theorems=("T8a", "T8b"),
    pair=(ONE_BIT_FUSED, ADAM_FUSED),
    measure=measure,
)
