"""What captions and pages say of a table: measured numbers in words, made by the statistics of the claims.

Three digits, as in the tables of the claims. A difference whose 95 % interval holds 0 is said not to be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paper_figures.algorithms import Algorithm
from paper_figures.claims.claim import number
from paper_figures.claims.statistics import MIN_SEEDS, Runs, final, interval, last, paired

Array = NDArray[Any]


def against(
    table: pd.DataFrame, algorithms: Iterable[Algorithm], base: Algorithm, column: str, name: str = "Adam"
) -> dict[str, str]:
    """Where each of ``algorithms`` ends beside ``base``, which is called ``name``.

    By label: in percent, or that it is not told; and behind the label and a comma ``times``, ``within`` (the same with
    its interval), ``bytes`` (a share of those of ``base``), ``fewer`` (how many times) and ``diverge`` (of the seeds).
    Of one with fewer than five seeds all of these say so.
    """
    found = {}
    for one in algorithms:
        names = (one.label, *(f"{one.label}, {what}" for what in ("times", "within", "bytes", "fewer", "diverge")))
        if min(table.loc[table["label"] == both.label, "seed"].nunique() for both in (one, base)) < MIN_SEEDS:
            found |= dict.fromkeys(names, TOO_FEW)
            continue
        runs = final(table, one.label, column)
        log_S, saved = paired(runs, final(table, base.label, column)), fewer(table, one, base)
        values = (
            beside(log_S, name),
            times(log_S),
            times_within(log_S),
            percent(1 / saved),
            number(saved),
            diverged(runs),
        )
        found |= dict(zip(names, values, strict=True))
    return found


TOO_FEW = "(too few seeds)"


def over(table: pd.DataFrame, one: Algorithm, base: Algorithm, column: str) -> Array:
    """Logarithms of the final loss of ``one`` over that of ``base``, seed by seed (S,)."""
    return paired(final(table, one.label, column), final(table, base.label, column))


def prefixed(name: str, numbers: Mapping[str, str]) -> dict[str, str]:
    """The same numbers, of one of several problems."""
    return {f"{name}: {key}": value for key, value in numbers.items()}


def times(log_S: Array) -> str:
    """The ratio of geometric means: ``1.07``."""
    return number(float(np.exp(log_S.mean())))


def times_within(log_S: Array) -> str:
    """The same with its 95 % interval: ``1.07 (1.04 to 1.09)``."""
    mean, low, high = (number(float(np.exp(value))) for value in interval(log_S))
    return f"{mean} ({low} to {high})"


def beside(log_S: Array, name: str) -> str:
    """Where a loss ends: ``1.7 % below Adam``, ``40 times as high as Adam``, or that the two are not told apart."""
    mean, low, high = (float(np.expm1(value)) for value in interval(log_S))
    if low <= 0 <= high:
        return f"where {len(log_S)} seeds do not tell it from {name} ({signed(low)} to {signed(high)})"
    if mean >= 1:
        return f"{number(1 + mean)} times as high as {name}"
    return f"{percent(abs(mean))} {'above' if mean > 0 else 'below'} {name}"


def percent(share: float) -> str:
    """``1.7 %``; whole from ten percent on."""
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.0995 else f"{100 * share:.0f} %"


def signed(share: float) -> str:
    """``−0.2 %``."""
    return ("−" if share < 0 else "+") + percent(abs(share))


def fewer(table: pd.DataFrame, one: Algorithm, base: Algorithm, column: str = "bytes_per_worker") -> float:
    """How many times more of ``column`` a whole run of ``base`` takes than one of ``one``."""
    more, less = (float(last(table, algorithm.label, column).mean()) for algorithm in (base, one))
    return more / less


def diverged(runs: Runs) -> str:
    """How many of the seeds do: ``4 of 5``."""
    return share_of(runs.diverged_S)


def share_of(true_S: Array) -> str:
    """``4 of 5``."""
    return f"{int(np.sum(true_S))} of {len(true_S)}"


def listed(values: Iterable[float]) -> str:
    """``1, 2 and 3``, from small to large."""
    ordered = [number(value) for value in sorted(values)]
    return " and ".join(filter(None, (", ".join(ordered[:-1]), *ordered[-1:])))
