"""The statistical tests of the claims: paired by seed, on logarithms, with margins that are fixed beforehand.

Runs with one seed start at the same point and see the same mini-batches, so differences are taken within a seed. Losses
are compared by their ratio, hence the logarithm. Student's t is the distribution throughout: means over a few seeds.

A value above the run's own start, or inf or NaN, counts as the start: the worst that there can be, without letting one
overflow decide the mean. A run *diverged* if that is so of most of the last quarter of its recorded steps, and of its
last one; it is never dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from paper_figures.claims.claim import ALPHA, OTHER_MARGIN, Check, EvidenceError

Array = NDArray[Any]
MIN_SEEDS = 5


@dataclass(frozen=True)
class Runs:
    """One algorithm's result, a number a seed.

    Attributes:
        label: the algorithm.
        log_S: logarithm of the result (S,), diverged runs at their start.
        diverged_S: which runs diverged (S,).
        seeds_S: their seeds (S,), by which runs are paired.
    """

    label: str
    log_S: Array
    diverged_S: Array
    seeds_S: Array


def final(table: pd.DataFrame, label: str, column: str = "loss") -> Runs:
    """``column`` at the last step of every seed of ``label``.

    Raises:
        EvidenceError: fewer than five seeds, or a result that has no logarithm.
    """
    return summarise(table, label, column, lambda rows: rows[-1:])


def whole_curve(table: pd.DataFrame, label: str, column: str = "loss", *, since: int) -> Runs:
    """Geometric mean of ``column`` over the recorded steps after step ``since``: the whole curve, not its end."""
    return summarise(table, label, column, lambda rows: rows[rows.index > since])


def summarise(table: pd.DataFrame, label: str, column: str, part: Callable[[Any], Any]) -> Runs:
    """Mean logarithm of a part of every seed's curve, every value held below the curve's own start."""
    logs, diverged, seeds = [], [], []
    for seed, rows in select(table, label).sort_values("step").groupby("seed"):
        curve = pd.Series(np.asarray(rows[column], float), index=rows["step"])
        start = float(curve.iloc[0])
        values = np.asarray(part(curve))
        values = np.where(values < start, values, start)
        if len(values) == 0 or not np.all((values > 0) & np.isfinite(values)):
            raise EvidenceError(f"{label}: {column} is not positive and finite where it is compared")
        logs.append(np.log(values).mean())
        diverged.append(has_diverged(np.asarray(curve)))
        seeds.append(seed)
    return Runs(label, np.array(logs), np.array(diverged), np.array(seeds))


def has_diverged(curve_T: Array) -> bool:
    """Whether a run ends, and for most of its last quarter was, at or above its start, or not finite."""
    lost_T = ~(curve_T < curve_T[0])
    return bool(lost_T[-1] and lost_T[-max(1, len(curve_T) // 4) :].mean() > 0.5)


def last(table: pd.DataFrame, label: str, column: str) -> Array:
    """``column`` at the last step of every seed of ``label`` (S,), by seed, as it stands.

    Raises:
        EvidenceError: fewer than five seeds, or a value that is not finite.
    """
    rows = select(table, label).sort_values("step").drop_duplicates("seed", keep="last").sort_values("seed")
    values_S = np.asarray(rows[column], float)
    if not np.isfinite(values_S).all():
        raise EvidenceError(f"{label}: {column} is not finite at the last step")
    return values_S


def select(table: Any, label: str) -> Any:
    """The rows of ``label``.

    Raises:
        EvidenceError: fewer than five seeds.
    """
    rows = table.loc[table["label"] == label]
    if (n_seeds := len(set(rows["seed"]))) < MIN_SEEDS:
        raise EvidenceError(f"{label!r} has {n_seeds} seeds, at least {MIN_SEEDS} are needed")
    return rows


def no_worse(
    candidate: Runs, baseline: Runs, setting: str, *, of: str, margin: float = OTHER_MARGIN, part: str = "",
    required: bool = False,
) -> Check:  # fmt: skip
    """Non-inferiority: rejects "on average worse by ``margin`` (0.05 is 5 %) or more".

    A candidate that diverges where the baseline does not is worse, whatever the mean.
    """
    d_S, limit = paired(candidate, baseline), float(np.log1p(margin))
    well = safe(candidate, baseline)
    return ratio(
        d_S, setting, of=of, test=f"at most {margin:.0%} above {baseline.label}" + diverged_note(candidate),
        p_value=t_cdf(d_S, limit) if well else 1.0, p_contrary=t_cdf(-d_S, -limit) if well else 0.0,
        margin=limit, part=part, required=required, tolerant=True,
    )  # fmt: skip


def same(
    candidate: Runs, baseline: Runs, setting: str, *, of: str, margin: float = OTHER_MARGIN, part: str = "",
    required: bool = False,
) -> Check:  # fmt: skip
    """Equivalence, two one-sided tests: rejects "differs from the baseline by ``margin`` or more"."""
    d_S, limit = paired(candidate, baseline), float(np.log1p(margin))
    well = safe(candidate, baseline)
    return ratio(
        d_S, setting, of=of, test=f"within {margin:.0%} of {baseline.label}" + diverged_note(candidate),
        p_value=max(t_cdf(d_S, limit), t_cdf(-d_S, limit)) if well else 1.0,
        p_contrary=min(t_cdf(-d_S, -limit), t_cdf(d_S, -limit)) if well else 0.0,
        margin=limit, part=part, required=required, tolerant=True,
    )  # fmt: skip


def worse(
    candidate: Runs, baseline: Runs, setting: str, *, of: str, part: str = "", required: bool = False,
    guard: bool = False,
) -> Check:  # fmt: skip
    """Paired one-sided t-test: rejects "not worse than the baseline"."""
    d_S, tested_S = paired(candidate, baseline), bounded(candidate, baseline)
    return ratio(
        d_S, setting, of=of, test=f"worse than {baseline.label}, paired t" + diverged_note(candidate),
        p_value=t_cdf(-tested_S, 0.0), p_contrary=t_cdf(tested_S, 0.0), part=part, required=required, guard=guard,
    )  # fmt: skip


def better(candidate: Runs, baseline: Runs, setting: str, *, of: str, part: str = "") -> Check:
    """Paired one-sided t-test: rejects "not better than the baseline"."""
    d_S, tested_S = paired(candidate, baseline), bounded(candidate, baseline)
    return ratio(
        d_S, setting, of=of, test=f"better than {baseline.label}, paired t" + diverged_note(baseline),
        p_value=t_cdf(tested_S, 0.0), p_contrary=t_cdf(-tested_S, 0.0), part=part,
    )  # fmt: skip


def below(values_S: Array, bound: float, setting: str, *, unit: str, test: str, required: bool = False) -> Check:
    """One-sample t-test on plain numbers: rejects "the mean is ``bound`` or more"."""
    mean, low, high = interval(values_S)
    return Check(
        setting=setting, value=mean, low=low, high=high, unit=unit, test=f"{test}, t", n_seeds=len(values_S),
        bound=bound, p_value=t_cdf(values_S, bound), p_contrary=t_cdf(-values_S, -bound), required=required,
    )  # fmt: skip


def above(values_S: Array, bound: float, setting: str, *, unit: str, test: str, required: bool = False) -> Check:
    """One-sample t-test on plain numbers: rejects "the mean is ``bound`` or less"."""
    mean, low, high = interval(values_S)
    return Check(
        setting=setting, value=mean, low=low, high=high, unit=unit, test=f"{test}, t", n_seeds=len(values_S),
        bound=bound, p_value=t_cdf(-values_S, -bound), p_contrary=t_cdf(values_S, bound), required=required,
    )  # fmt: skip


def share_below(hits: int, trials: int, bound: float, setting: str, *, unit: str, test: str) -> Check:
    """Binomial test on a random sample: rejects "the share is ``bound`` or more". The interval is Clopper-Pearson's."""
    span = stats.binomtest(hits, trials).proportion_ci(1 - ALPHA, method="exact")
    return Check(
        setting=setting, value=hits / trials, low=float(span.low), high=float(span.high), unit=unit,
        test=f"{test}, binomial", n_seeds=None, bound=bound, p_value=float(stats.binom.cdf(hits, trials, bound)),
        p_contrary=float(stats.binom.sf(hits - 1, trials, bound)),
    )  # fmt: skip


def fewest_without(bound: float) -> int:
    """The size of the smallest sample without a hit that shows a share below ``bound``: (1 - bound)^n <= ALPHA."""
    return int(np.ceil(np.log(ALPHA) / np.log1p(-bound)))


def paired(candidate: Runs, baseline: Runs) -> Array:
    """Differences of logarithms, seed by seed (S,)."""
    if not np.array_equal(candidate.seeds_S, baseline.seeds_S):
        raise EvidenceError(f"{candidate.label!r} and {baseline.label!r} have not run with the same seeds")
    return candidate.log_S - baseline.log_S


def bounded(candidate: Runs, baseline: Runs) -> Array:
    """The same for a test of which one is lower: where a run diverged, ratios beyond 2 count as 2.

    How far beyond its start a diverged run is says nothing, and its size would hide what the other seeds say.
    """
    d_S = paired(candidate, baseline)
    diverged = candidate.diverged_S.any() or baseline.diverged_S.any()
    return np.clip(d_S, -np.log(2), np.log(2)) if diverged else d_S


def interval(values_S: Array) -> tuple[float, float, float]:
    """Mean and 95 % confidence interval (Student)."""
    mean, n = float(values_S.mean()), len(values_S)
    half = float(stats.t.ppf(1 - ALPHA / 2, n - 1) * values_S.std(ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half


def t_cdf(values_S: Array, bound: float) -> float:
    """P-value of "the mean is ``bound`` or more". Without any spread it is 0 or 1 by the mean alone."""
    n = len(values_S)
    error, distance = float(values_S.std(ddof=1) / np.sqrt(n)), float(values_S.mean() - bound)
    if error == 0:
        return 0.0 if distance < 0 else 1.0
    return float(stats.t.cdf(distance / error, n - 1))


def safe(candidate: Runs, baseline: Runs) -> bool:
    """Whether the candidate diverges nowhere.

    Raises:
        EvidenceError: the baseline itself diverges on a seed, so that nothing can be no worse than it.
    """
    if baseline.diverged_S.any():
        raise EvidenceError(f"{baseline.label!r} itself diverges on {int(baseline.diverged_S.sum())} seeds")
    return not candidate.diverged_S.any()


def diverged_note(runs: Runs) -> str:
    """What the mean does not show."""
    count = int(runs.diverged_S.sum())
    return f"; {runs.label} ends above its start in {count} of {len(runs.log_S)} seeds" if count else ""


def ratio(
    d_S: Array, setting: str, *, of: str, test: str, p_value: float, p_contrary: float, part: str, margin: float = 0.0,
    required: bool = False, guard: bool = False, tolerant: bool = False,
) -> Check:  # fmt: skip
    """A check on exp(mean difference of logarithms), the ratio of geometric means."""
    mean, low, high = (float(np.exp(x)) for x in interval(d_S))
    return Check(
        setting=setting, value=mean, low=low, high=high, unit=f"times {of}", test=test, n_seeds=len(d_S),
        bound=float(np.exp(margin)), p_value=p_value, p_contrary=p_contrary, part=part, required=required, guard=guard,
        measurably_worse=tolerant and low > 1,
    )  # fmt: skip


def holm(p_values: list[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: a null is rejected at family-wise level a if its value is <= a."""
    order = np.argsort(p_values, kind="stable")
    adjusted, worst = np.empty(len(p_values)), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted.tolist()
