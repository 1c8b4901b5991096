"""P36: over slow links 1-bit Adam is at Adam's loss sooner, by the wall clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from gpu_impl.netlab.bandwidth import in_words
from gpu_impl.netlab.entrants import ENTRANTS
from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.statistics import MIN_SEEDS, Runs, better
from paper_figures.netlab.arrivals import arrivals

ADAM, ONE_BIT = ENTRANTS["ddp"].title, ENTRANTS["1-bit-short"].title


def seconds(here: pd.DataFrame, label: str) -> Runs:
    """Logarithm of the seconds until Adam's loss; a seed that never comes there counts as diverged, at the longest."""
    rows = here.loc[here["label"] == label].sort_values("seed")
    if len(rows) < MIN_SEEDS:
        raise EvidenceError(f"{label!r} has {len(rows)} seeds, at least {MIN_SEEDS} are needed")
    seconds_S, finite = rows["seconds"].to_numpy(float), np.isfinite(here["seconds"].to_numpy(float))
    longest = here["seconds"].to_numpy(float)[finite].max()
    never_S = ~np.isfinite(seconds_S)
    return Runs(label, np.log(np.where(never_S, longest, seconds_S)), never_S, rows["seed"].to_numpy())


def measure(facts: Facts) -> list[Check]:
    """Ratio of the seconds until both are within 5 % of Adam's last loss, a check for each bandwidth."""
    checks = []
    for bandwidth, here in arrivals(facts["time_to_loss"]).groupby("bandwidth"):
        setting = f"links of {in_words(float(str(bandwidth)))}"
        check = better(seconds(here, ONE_BIT), seconds(here, ADAM), setting, of="the seconds of Adam under DDP")
        checks.append(replace(check, required=not checks))
    return checks


CLAIM = Claim(
    id="P36",
    title="Sooner at Adam's loss",
    statement=(
        "Over slow links, 1-bit Adam with a warm-up of 30 steps is within 5 % of Adam's last loss in less time than "
        "Adam under DDP needs to be there."
    ),
    where="this project; the paper's abstract has throughput",
    published="",
    source="ours",
    conditions=(
        "Four workers on two processor cores, one small character transformer, gloo. At 100 Mbit/s the wire decides; "
        "at 1 Gbit/s computation weighs more, and less is gained. Not measured with GPUs or NCCL."
    ),
    figures=("time_to_loss",),
    theorems=("T10b", "T10d"),
    pair=(ONE_BIT, ADAM),
    measure=measure,
)
