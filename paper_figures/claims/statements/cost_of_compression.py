"""P27: the arithmetic of compression costs less than it saves on the wire."""

from __future__ import annotations

import pandas as pd

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import ADAM_FUSED, ONE_BIT_FUSED, ONE_BIT_UNFUSED
from theory.theorems.time_model import NETWORKS, fit

WORKERS = 8


def measure(facts: Facts) -> list[Check]:
    """Seconds that compression adds, at most, against seconds that it saves on the paper's two networks."""
    table = facts["measurements"]
    largest = table[(table["n_workers"] == WORKERS) & (table["dim"] == table["dim"].max())]
    checks = []
    for device, rows in largest.groupby("device"):
        for program in (ONE_BIT_FUSED, ONE_BIT_UNFUSED):
            spent = time_of(rows, program, "high") - time_of(rows, ADAM_FUSED, "low")
            for network in NETWORKS:
                bytes_per_second = fit(network).gigabits * 1e9 / 8
                saved = 2 * (WORKERS - 1) / WORKERS * (2 - 1 / 8) * float(rows["dim"].max()) / bytes_per_second
                checks.append(
                    Check(
                        setting=f"{program}, {device}, {network} at {bytes_per_second * 8e-9:.1f} Gbit/s",
                        value=spent / saved, unit="of the time saved is spent on compressing, at most",
                        test="80 % quantile of its time minus 20 % quantile of Adam's, below what the wire saves",
                        bound=1.0, exact=bool(spent < saved), required=program == ONE_BIT_FUSED,
                    )
                )  # fmt: skip
    return checks


def time_of(rows: pd.DataFrame, label: str, quantile: str) -> float:
    """Seconds of ``label``, from its one row."""
    found = rows.loc[rows["label"] == label, quantile]
    if len(found) != 1:
        raise EvidenceError(f"{label!r} has {len(found)} measurements at the largest D, one is needed")
    return float(found.iloc[0])


CLAIM = Claim(
    id="P27",
    title="Compression pays",
    statement=(
        "On the paper's two networks, at their effective bandwidths, a compressed step saves more time on the wire "
        "than its own arithmetic costs beyond fused Adam."
    ),
    where="contradicts Agarwal et al., MLSys 2022 (6 of more than 200 settings)",
    published="compression helped in 6 of more than 200 settings",
    source="seen",
    conditions=(
        "The objection holds for compression written as one operation after another: it spends more than it saves "
        "wherever memory is slow beside the network. The device is the one that was measured, the networks are the "
        "paper's; nothing overlaps with the backward pass."
    ),
    others=("measurements",),
    theorems=("T8c", "T10b"),
    pair=(ONE_BIT_FUSED, ONE_BIT_UNFUSED),
    measure=measure,
)
