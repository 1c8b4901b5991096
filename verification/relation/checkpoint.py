"""Checkpoints as a relation: what must be equal, and what is conserved, between a state and the one loaded from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theory import rounding
from verification.protocol import ARRAYS, Array, Snapshot, Traits
from verification.relation.claims import equal, near
from verification.relation.finding import Finding
from verification.relation.step import same_bits
from verification.relation.tolerances import wide_slack


def same_state(
    before: Snapshot, after: Snapshot, what: str, clause: str = "reload", names: tuple[str, str] = ("before", "after")
) -> Iterator[Finding]:
    """Bitwise equality of two states [L9], which a claim calls by ``names``; the first array that differs."""
    one, other = names
    if before.step != after.step:
        message = f"{what}: step is {after.step}, must be {before.step}"
        yield Finding("L9", clause, message, f"{other}.step == {one}.step")
        return
    for name in ARRAYS:
        arrays = getattr(before, name), getattr(after, name)
        if not same_bits(*arrays):
            claim = equal(f"{other}.{name}", f"{one}.{name}", *arrays)
            yield Finding("L9", clause, f"{what}: {name} is another one{_where(*arrays)}", claim)
            return


def resized(before: Snapshot, after: Snapshot, traits: Traits) -> Iterator[Finding]:
    """N -> N': each new delta_i is the mean of the old ones, so Delta is conserved; the rest is kept bitwise [C11]."""
    if after.step != before.step:
        message = f"resized: step is {after.step}, must be {before.step}"
        yield Finding("L9", "resize", message, "after.step == before.step")
    for name in ("momentum_D", "variance_D", "server_error_D"):
        arrays = getattr(before, name), getattr(after, name)
        if not same_bits(*arrays):
            claim = equal(f"after.{name}", f"before.{name}", *arrays)
            yield Finding("L9", "resize", f"resized: {name} changed", claim)
            return
    for i, row_D in enumerate(after.params_ND):
        if not same_bits(row_D, before.params_ND[0]):
            claim = equal(f"after.params_ND[{i}]", "before.params_ND[0]", row_D, before.params_ND[0])
            yield Finding("L9", "resize", f"resized: worker {i} has other parameters", claim)
            return
    if len(before.worker_errors_ND) == len(after.worker_errors_ND):
        yield from same_state(before, after, "resized to the same number of workers", "resize")
        return
    old_ND = before.worker_errors_ND.astype(np.float64)
    tolerance_D = rounding.average_tolerance(old_ND, traits.dtype) + wide_slack(*old_ND, operations=len(old_ND) + 2)
    tolerance_D += traits.lost(2 * len(old_ND))
    with np.errstate(all="ignore"):
        wrong_ND = ~(np.abs(after.worker_errors_ND - old_ND.mean(axis=0)) <= tolerance_D)
    for i, k in np.argwhere(wrong_ND)[:1]:
        yield Finding(
            "L9",
            "resize",
            f"resized: worker {i} has the error {after.worker_errors_ND[i, k]:.9g} at element {k}, the "
            f"mean of the old ones is {old_ND[:, k].mean():.9g}",
            near(f"after.worker_errors_ND.item({i}, {k})", old_ND[:, k].mean(), tolerance_D[k]),
        )


def _where(a: Array, b: Array) -> str:
    """The first element in which two arrays of one shape differ."""
    if a.shape != b.shape or (a == b).all():
        return ""
    at = [int(i) for i in np.argwhere(a != b)[0]]
    return f", {b[tuple(at)]:.9g} for {a[tuple(at)]:.9g} at {at[0] if len(at) == 1 else at}"
