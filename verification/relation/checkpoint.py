"""Checkpoints as a relation: what must be equal, and what is conserved, between a state and the one loaded from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from theory import rounding
from verification.algorithms.base import array_names
from verification.protocol import Array, Traits
from verification.relation.claims import equal, near
from verification.relation.finding import Finding
from verification.relation.tolerances import wide_slack
from verification.relation.transition import SYMBOLS, same_bits


def same_state(
    before: Any, after: Any, what: str, clause: str = "reload", names: tuple[str, str] = ("before", "after")
) -> Iterator[Finding]:
    """Bitwise equality of two states [L9], which a claim calls by ``names``; the first array that differs."""
    one, other = names
    if before.step != after.step:
        message = f"{what}: step is {after.step}, must be {before.step}"
        yield Finding("L9", clause, message, f"{other}.step == {one}.step")
        return
    for name in array_names(before):
        arrays = getattr(before, name), getattr(after, name)
        if not same_bits(*arrays):
            claim = equal(f"{other}.{name}", f"{one}.{name}", *arrays)
            yield Finding("L9", clause, f"{what}: {name} is another one{_where(*arrays)}", claim)
            return


def resized(before: Any, after: Any, traits: Traits) -> Iterator[Finding]:
    """N -> N': each new row of what every worker has is the mean of the old ones, so Delta is conserved [C11].

    The rest is kept bitwise, as is an x that all workers share.
    """
    if after.step != before.step:
        message = f"resized: step is {after.step}, must be {before.step}"
        yield Finding("L9", "resize", message, "after.step == before.step")
    names, one_x = array_names(before), not hasattr(before, "shared_D")
    for name in names:
        arrays = getattr(before, name), getattr(after, name)
        if not name.endswith("_ND") and not same_bits(*arrays):
            claim = equal(f"after.{name}", f"before.{name}", *arrays)
            yield Finding("L9", "resize", f"resized: {name} changed", claim)
            return
    for i, row_D in enumerate(after.params_ND if one_x else ()):
        if not same_bits(row_D, before.params_ND[0]):
            claim = equal(f"after.params_ND[{i}]", "before.params_ND[0]", row_D, before.params_ND[0])
            yield Finding("L9", "resize", f"resized: worker {i} has other parameters", claim)
            return
    if len(before.worker_errors_ND) == len(after.worker_errors_ND):
        yield from same_state(before, after, "resized to the same number of workers", "resize")
        return
    for name in names:
        if name.endswith("_ND") and not (name == "params_ND" and one_x):
            yield from _means(name, before, after, traits)


def _means(name: str, before: Any, after: Any, traits: Traits) -> Iterator[Finding]:
    """Each new row is the mean of the old ones.

    Where x_i is kept as a way from the last meeting, the ways are averaged: they are the differences of what is
    reported to one rounding, and so is what is read off after it.
    """
    old_ND, what = getattr(before, name).astype(np.float64), SYMBOLS[name]
    tolerance_D = rounding.average_tolerance(old_ND, traits.dtype) + wide_slack(*old_ND, operations=len(old_ND) + 2)
    if name == "params_ND":
        once, sizes_ND = rounding.gamma(1, traits.dtype), np.abs(old_ND)
        ways_ND = np.abs(before.shared_D - old_ND) + once * sizes_ND
        tolerance_D += rounding.average_tolerance(ways_ND, traits.dtype) + 3 * once * sizes_ND.mean(axis=0)
    tolerance_D += traits.lost(2 * len(old_ND))
    with np.errstate(all="ignore"):
        wrong_ND = ~(np.abs(getattr(after, name) - old_ND.mean(axis=0)) <= tolerance_D)
    for i, k in np.argwhere(wrong_ND)[:1]:
        yield Finding(
            "L9",
            "resize",
            f"resized: worker {i} has the {what} {getattr(after, name)[i, k]:.9g} at element {k}, the "
            f"mean of the old ones is {old_ND[:, k].mean():.9g}",
            near(f"after.{name}.item({i}, {k})", old_ND[:, k].mean(), tolerance_D[k]),
        )


def _where(a: Array, b: Array) -> str:
    """The first element in which two arrays of one shape differ."""
    if a.shape != b.shape or (a == b).all():
        return ""
    at = [int(i) for i in np.argwhere(a != b)[0]]
    return f", {b[tuple(at)]:.9g} for {a[tuple(at)]:.9g} at {at[0] if len(at) == 1 else at}"
