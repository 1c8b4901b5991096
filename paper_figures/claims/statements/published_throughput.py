"""P22: the published profile leaves room for the published speed-up."""

from __future__ import annotations

import numpy as np
import pandas as pd

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from theory.profile import ProfileRow
from theory.theorems.communication_volume import end_to_end_speedup
from theory.theorems.time_model import fit

PUBLISHED = 3.3


def measure(facts: Facts) -> list[Check]:
    """The most that 1/16 of the wire time can give at 64 GPUs, end to end, on each network."""
    share = facts["published"]["warmup_share"]["BERT-Large"]
    checks = []
    for network in ("Ethernet", "InfiniBand"):
        row = largest(facts["profile"], network)
        model = fit(network)
        stage = row.step / (row.compute + model.allreduce(row, bits=1))
        value = float(end_to_end_speedup(share, stage))
        checks.append(
            Check(
                setting=f"{network}, {row.gpus} GPUs, batch {row.batch} x {row.accumulation}", value=value,
                unit=f"times faster at most, {stage:.2f} after the warm-up",
                test="the time model's upper bound is at least the published speed-up", bound=PUBLISHED,
                exact=round(value, 1) >= PUBLISHED,
            )
        )  # fmt: skip
    return checks


def largest(profile: pd.DataFrame, network: str) -> ProfileRow:
    """The row with the most nodes at batch 16 without accumulation."""
    rows = profile[(profile["network"] == network) & (profile["batch"] == 16) & (profile["accumulation"] == 1)]
    if rows.empty:
        raise EvidenceError(f"the profile has no row of {network} at batch 16 without accumulation")
    row = rows.iloc[int(np.argmax(rows["nodes"]))]
    return ProfileRow(**{name: row[name] for name in ProfileRow.__dataclass_fields__})


CLAIM = Claim(
    id="P22",
    title="Throughput",
    statement=(
        "With the published profile at 64 GPUs, batch 16, and a warm-up of 15 %, sending one bit for sixteen can make "
        "BERT-Large pre-training 3.3 times faster."
    ),
    where="abstract, table 1",
    published="up to 3.3x",
    source="seen",
    conditions=(
        "An upper bound from the time model (nothing but the wire time changes), not a measurement. It reaches 3.3 on "
        "Ethernet; on InfiniBand the all-reduce is too small a share of the step."
    ),
    others=("profile", "published"),
    shown_in=("throughput_against_gpus",),
    theorems=("T10b", "T10c", "T10f"),
    pair=None,
    measure=measure,
)
