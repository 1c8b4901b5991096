"""P25: the fused step is faster than fused Adam on the devices that were measured."""

from __future__ import annotations

import numpy as np
import pandas as pd

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import ADAM_FUSED, ONE_BIT_FUSED, ONE_BIT_STEPS
from paper_figures.claims.statistics import MIN_SEEDS, Runs, better

LARGE = 2**24
"""From here on the state (16 bytes a parameter) is far beyond any cache of the devices measured."""


def measure(facts: Facts) -> list[Check]:
    """Ratio of median times over all D and N, paired by configuration: small and large buffers of each device.

    Where a device has too few of one kind, it is judged by the other.
    """
    times = facts["measurements"].pivot(index=["device", "dim", "n_workers"], columns="label", values="seconds")
    if not {ADAM_FUSED, ONE_BIT_FUSED} <= set(times.columns):
        raise EvidenceError("the measurements lack one of the two programs")
    checks, few = [], []
    for device, rows in times.groupby("device"):
        dims = rows.index.get_level_values("dim")
        for name, part in (("D < 2^24", rows[dims < LARGE]), ("D >= 2^24", rows[dims >= LARGE])):
            if len(part) < MIN_SEEDS:
                few.append(f"{device} has {len(part)} configurations of {name}")
                continue
            adam = _times(part, ADAM_FUSED)
            for label, beside in ONE_BIT_STEPS.items():
                if label in part and part[label].notna().all():
                    setting = f"{device}, {name}{beside}"
                    checks.append(better(_times(part, label), adam, setting, of="the time of fused Adam"))
    if not checks:
        raise EvidenceError(f"{'; '.join(few)}; at least {MIN_SEEDS} are needed")
    return checks


def _times(part: pd.DataFrame, label: str) -> Runs:
    """A program's times, one a configuration."""
    return Runs(label, np.log(part[label].to_numpy(float)), np.zeros(len(part), bool), np.arange(len(part)))


CLAIM = Claim(
    id="P25",
    title="Faster than fused Adam",
    statement="A compressed step, all three kernels together, takes less time than torch's fused Adam.",
    where="this project; an answer to Agarwal et al., MLSys 2022",
    published="",
    source="ours",
    conditions=(
        "The byte counts differ by a tenth only, so a device with noisy memory can't show it on large buffers. One "
        "configuration of D and N is one sample, and a kind of which a device has fewer than five is left out. The "
        "optimizer reads the gradient once before the three kernels, which torch's fused Adam does not (P24). Of "
        "torch's Adam on ordinary and on huge pages the faster one counts."
    ),
    others=("measurements",),
    theorems=("T8b",),
    pair=(ONE_BIT_FUSED, ADAM_FUSED),
    measure=measure,
)
