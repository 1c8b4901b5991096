"""P18: the convergence rate improves linearly with the number of workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import proved
from paper_figures.claims.statistics import MIN_SEEDS, Array, below
from paper_figures.figures.linear_speedup import points

FEWEST, MOST = 1, 64
MEASURED = "grad_norm_sq_mean"


def measure(facts: Facts) -> list[Check]:
    """Slope of log mean squared gradient norm over log N at the longest horizon, and the bound of T6a everywhere."""
    rows: Any = points(facts["linear_speedup"])
    horizons = sorted(set(rows["horizon"]))
    slope_of = {
        horizon: slopes(rows.loc[rows["horizon"] == horizon].pivot(index="n_workers", columns="seed", values=MEASURED))
        for horizon in horizons
    }
    short, long = horizons[0], horizons[-1]
    mean = rows.groupby(["n_workers", "horizon"])[[MEASURED, "bound"]].mean()
    largest = float((mean[MEASURED] / mean["bound"]).max())
    setting = f"T = {long:g}, N = {FEWEST} to {MOST}"
    unit = "power of N"
    return [
        below(slope_of[long], 0.0, setting, unit=unit, test="more workers make it smaller", required=True),
        below(slope_of[long], -0.5, f"{setting}, all of σ/√(NT)", unit=unit, test="at least as fast as σ/√(NT)"),
        below(
            slope_of[long] - slope_of[short], 0.0, f"T = {long:g} against {short:g}", unit="difference of powers",
            test="steeper in longer runs",
        ),
        Check(
            setting="every N and T", value=largest, unit="of the bound of T6a, at most", n_seeds=len(slope_of[long]),
            test="exact: the mean over seeds is at most the bound, and T6a, T6b and T6g re-checked", bound=1.0,
            exact=bool(largest <= 1 and proved(facts, "T6a", "T6b", "T6g")), guard=True,
        ),
    ]  # fmt: skip


def slopes(values_NS: Any) -> Array:
    """Least-squares slope over log N, seed by seed (S,)."""
    logs = np.log(values_NS.to_numpy(float))
    if logs.shape[1] < MIN_SEEDS or not np.isfinite(logs).all() or {FEWEST, MOST} - set(values_NS.index):
        raise EvidenceError("linear_speedup lacks seeds or numbers of workers")
    return np.polyfit(np.log(values_NS.index.to_numpy(float)), logs, 1)[0]


CLAIM = Claim(
    id="P18",
    title="Linear speed-up",
    statement=(
        "With the step size of the theorem the mean squared gradient norm falls with the number of workers, "
        "compressed as it is; the longer the run, the more like σ/√(NT). It stays below the bound of T6a."
    ),
    where="theorem 1 and its corollary",
    published="σ/√(NT)",
    source="recalled",
    conditions=(
        "Only for long runs: the terms in 1/T and in N E_Δ²/(σ² T) do not fall with N, and the first two terms of "
        "the bound cross at T of order N³ (T6g)."
    ),
    figures=("linear_speedup",),
    others=("proofs",),
    theorems=("T6a", "T6b", "T6g"),
    pair=(FEWEST, MOST),
    pair_column="n_workers",
    measure=measure,
)
