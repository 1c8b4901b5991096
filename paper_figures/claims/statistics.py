"""The statistical tests of the claims: paired by seed, on logarithms, with margins taken from the data's own spread.

Runs with one seed start at the same point and see the same mini-batches, so differences are taken within a seed. Losses
are compared by their ratio, hence the logarithm. Student's t is the distribution throughout: means over a few seeds.

A run that ends above its own start, or at inf or NaN, has learnt nothing: it counts as its start. That makes it the
worst run there can be, without letting one overflow decide the mean; it is never dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from paper_figures.claims.claim import ALPHA, Check, EvidenceError

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
        lost = ~(values < start)
        values = np.where(lost, start, values)
        if len(values) == 0 or not np.all((values > 0) & np.isfinite(values)):
            raise EvidenceError(f"{label}: {column} is not positive and finite where it is compared")
        logs.append(np.log(values).mean())
        diverged.append(lost[-1])
        seeds.append(seed)
    return Runs(label, np.array(logs), np.array(diverged), np.array(seeds))


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


def no_worse(candidate: Runs, baseline: Runs, setting: str, *, of: str, required: bool = False) -> Check:
    """Non-inferiority: rejects "on average worse than a new seed of the baseline could be".

    The margin is the half-width of the 95 % prediction interval of one more seed of the baseline, t s sqrt(1 + 1/S)
    with s the standard deviation of the logarithm over its S seeds: inside it nobody could tell the candidate from the
    baseline with another seed. A candidate that diverges where the baseline does not is worse, whatever the mean.
    """
    d_S = paired(candidate, baseline)
    margin = another_seed(baseline)
    p_value = t_cdf(d_S, margin) if safe(candidate, baseline) else 1.0
    test = f"non-inferior to another seed of {baseline.label}" + diverged_note(candidate)
    return ratio(d_S, setting, of, test, p_value, margin, required=required)


def same(candidate: Runs, baseline: Runs, setting: str, *, of: str) -> Check:
    """Equivalence, two one-sided tests: rejects "differs from the baseline by more than another seed of it would"."""
    d_S = paired(candidate, baseline)
    margin = another_seed(baseline)
    p_value = max(t_cdf(d_S, margin), t_cdf(-d_S, margin)) if safe(candidate, baseline) else 1.0
    test = f"equivalent to another seed of {baseline.label}" + diverged_note(candidate)
    return ratio(d_S, setting, of, test, p_value, margin)


def worse(
    candidate: Runs, baseline: Runs, setting: str, *, of: str, required: bool = False, guard: bool = False
) -> Check:
    """Paired one-sided t-test: rejects "not worse than the baseline"."""
    d_S = paired(candidate, baseline)
    test = f"worse than {baseline.label}, paired t" + diverged_note(candidate)
    return ratio(d_S, setting, of, test, t_cdf(-d_S, 0.0), 0.0, required=required, guard=guard)


def better(candidate: Runs, baseline: Runs, setting: str, *, of: str) -> Check:
    """Paired one-sided t-test: rejects "not better than the baseline"."""
    d_S = paired(candidate, baseline)
    test = f"better than {baseline.label}, paired t" + diverged_note(baseline)
    return ratio(d_S, setting, of, test, t_cdf(d_S, 0.0), 0.0)


def below(values_S: Array, bound: float, setting: str, *, unit: str, test: str, required: bool = False) -> Check:
    """One-sample t-test on plain numbers: rejects "the mean is ``bound`` or more"."""
    mean, low, high = interval(values_S)
    p_value = t_cdf(values_S, bound)
    return Check(
        setting=setting, value=mean, low=low, high=high, unit=unit, test=f"{test}, t", n_seeds=len(values_S),
        bound=bound, p_value=p_value, required=required,
    )  # fmt: skip


def above(values_S: Array, bound: float, setting: str, *, unit: str, test: str, required: bool = False) -> Check:
    """One-sample t-test on plain numbers: rejects "the mean is ``bound`` or less"."""
    mean, low, high = interval(values_S)
    p_value = t_cdf(-values_S, -bound)
    return Check(
        setting=setting, value=mean, low=low, high=high, unit=unit, test=f"{test}, t", n_seeds=len(values_S),
        bound=bound, p_value=p_value, required=required,
    )  # fmt: skip


def paired(candidate: Runs, baseline: Runs) -> Array:
    """Differences of logarithms, seed by seed (S,)."""
    if not np.array_equal(candidate.seeds_S, baseline.seeds_S):
        raise EvidenceError(f"{candidate.label!r} and {baseline.label!r} have not run with the same seeds")
    return candidate.log_S - baseline.log_S


def another_seed(baseline: Runs) -> float:
    """Half-width of the 95 % prediction interval of one more seed, on the logarithm.

    Raises:
        EvidenceError: the baseline itself diverges on a seed, so its spread says nothing.
    """
    if baseline.diverged_S.any():
        raise EvidenceError(f"{baseline.label!r} itself diverges on {int(baseline.diverged_S.sum())} seeds")
    n = len(baseline.log_S)
    return float(stats.t.ppf(1 - ALPHA / 2, n - 1) * baseline.log_S.std(ddof=1) * np.sqrt(1 + 1 / n))


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
    """Whether the candidate diverges nowhere."""
    return not candidate.diverged_S.any() and not baseline.diverged_S.any()


def diverged_note(runs: Runs) -> str:
    """What the mean does not show."""
    count = int(runs.diverged_S.sum())
    return f"; {runs.label} ends above its start in {count} of {len(runs.log_S)} seeds" if count else ""


def ratio(
    d_S: Array,
    setting: str,
    of: str,
    test: str,
    p_value: float,
    margin: float,
    *,
    required: bool = False,
    guard: bool = False,
) -> Check:
    """A check on exp(mean difference of logarithms), the ratio of geometric means."""
    mean, low, high = (float(np.exp(x)) for x in interval(d_S))
    return Check(
        setting=setting, value=mean, low=low, high=high, unit=f"times {of}", test=test, n_seeds=len(d_S),
        bound=float(np.exp(margin)), p_value=p_value, required=required, guard=guard,
    )  # fmt: skip


def holm(p_values: list[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: a null is rejected at family-wise level a if its value is <= a."""
    order = np.argsort(p_values, kind="stable")
    adjusted, worst = np.empty(len(p_values)), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted.tolist()
