"""Gradients of a run: palette and magnitude, zero variance, workers alike, parts apart, what is skipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from verification.protocol import Array, CommonHyper, Traits
from verification.search.cases import most_workers, workers_after
from verification.search.covering import Row
from verification.search.palettes import (
    ALIKE,
    LARGEST,
    PALETTES,
    TOP,
    TOP_SHARE,
    WARMEST,
    all_agree,
    all_but_one_agree,
    factors,
)

SMALL = 1e-16
"""A warm-up's gradients so small that guards against zero bite, and so large that v is not 0."""

NEARLY = (3e-19, 1e-17, 1e-12)
"""Gradients of which v is subnormal in float32, tiny, and small."""

WORKERS_ALIKE = (*ALIKE.values(), all_but_one_agree)
ALIKE_SHARE = 0.15
"""In so many cases the workers' gradients after the warm-up are alike in one of these ways."""

APART, APART_SHARE = 12.0, 0.3
"""Decades that layers, chunks or blocks may lie apart, and in what share of the cases of size 1 they do."""

CANCELLED_SHARE = 0.2
"""In so many cases two workers have opposite gradients at the coordinates of zero variance, so that the mean is 0."""

WARM = 1e12
"""The warm-up's gradients before late ones near the largest float32: P is so small that x stays finite."""

WARMEST_SHARE = 0.75
"""Of the warm-ups before late gradients near the largest float32, so many are such."""


def gradients(
    row: Row, program: tuple[str, ...], warm_up: int, shape: tuple[int, int], traits: Traits, rng: np.random.Generator,
    hyper: CommonHyper | None = None,
) -> Array:  # fmt: skip
    """Gradients (T, N, D) of the palette and magnitude of the row, those of skipped steps spoiled."""
    (n, dim), taken = shape, [op for op in program if op in ("step", "skip")]
    scale_block = getattr(hyper, "scale_block", None)
    grads_TND = PALETTES[row["gradients"]](rng, (len(taken), most_workers(n, program), dim))
    if not taken:
        return grads_TND.astype(traits.numpy_dtype)
    applied = np.cumsum([op == "step" for op in taken])
    early, at = int(np.searchsorted(applied, warm_up)) + 1, int(np.argmax(applied > 0))
    n_T = _workers_in(program, n)
    # so that v > 0: for good after one step of the warm-up; without eps from the first one on, without beta2 in each
    starts = range(min(early, len(taken))) if row["eps"] == row["beta2"] == 0 else (at,)
    for start in starts:
        begins = grads_TND[start : start + 1] if row["eps"] == 0 else grads_TND[:early]
        low_D = np.abs(begins[:, : n_T[start]].mean(axis=1)).max(axis=0) < 0.05
        grads_TND[start, 0] += np.where(low_D, n_T[start], 0.0)
    dead_D = np.zeros(dim, np.bool_)
    if row["dead"] not in ("none", "nearly"):
        dead_D = _of_zero_variance(dim, rng)
    # in a warm-up of another magnitude m-bar and the errors keep that for long
    warm_D = np.full(dim, {"tiny": SMALL, "subnormal": SMALL, "largest": WARM}.get(row["magnitude"], 1.0))
    if row["dead"] == "nearly":
        nearly = rng.choice(NEARLY[traits.flushes_subnormals :], dim)
        warm_D = np.where(rng.random(dim) < rng.choice([0.3, 1.0]), nearly, warm_D)
    grads_TND[:early] *= warm_D
    if row["magnitude"] == "largest" and rng.random() < WARMEST_SHARE:
        sizes_TND = 0.5 + 0.5 * np.abs(grads_TND[:early]) / np.abs(grads_TND[:early]).max()
        warmest = WARMEST / max(1.0, row["variance_floor"]) ** 0.5  # kappa times the mean of v is finite too
        grads_TND[:early] = sizes_TND * warmest * rng.choice([-1.0, 1.0], dim) * rng.choice([1.0, 1.0, 1e-6], dim)
    late = grads_TND[early:]
    # in the update form P, which may be as large as 1e8, multiplies it
    huge = traits.checked_as.huge if row.get("compress", "momentum") == "momentum" else 1e22
    late *= factors(row["magnitude"], rng, late.shape, huge=huge)
    if row["magnitude"] not in ("huge", "largest"):  # of which a mean may overflow
        late[...] = _perhaps_alike(late, rng.spawn(1)[0], agree=row.get("alike", False))
    if row["magnitude"] == "1":
        grads_TND *= _perhaps_apart(traits.chunks(dim, n), hyper, rng.spawn(1)[0])
    grads_TND[:early, :, dead_D] = _without_variance(grads_TND.shape[1], min(n_T[:early], default=1), rng)
    later = row["dead"] == "some with a later gradient"
    keep = rng.random(int(dead_D.sum())) < (0.6 if later else 0.0)
    late[:, :, dead_D] = np.where(keep, late[:, :, dead_D], 0.0)
    if row["magnitude"] == "largest":
        places = np.flatnonzero(~dead_D | later)

        def alone(place: int, n: int) -> bool:
            parts = [slice(0, dim)]
            if scale_block is not None:
                parts = [block for chunk in traits.chunks(dim, n) for block in traits.blocks(chunk, scale_block)]
            (its_own,) = (part for part in parts if part.start <= place < part.stop)
            return int(np.count_nonzero(~dead_D[its_own])) < 2

        _put_largest(grads_TND, early, taken, n_T, places, alone, rng)
    places = np.flatnonzero(dead_D) if row["skips"] == "on a zero-variance coordinate" else np.arange(dim)
    for step in [step for step, op in enumerate(taken) if op == "skip"]:
        k, here = rng.choice(places), n_T[step]
        grads_TND[step, rng.integers(here), k] = rng.choice([np.nan, np.inf, -np.inf])
        if here > 1 and rng.random() < 0.3:
            grads_TND[step, :2, k] = np.inf, -np.inf
    with np.errstate(over="ignore"):
        return grads_TND.astype(traits.numpy_dtype)


def _of_zero_variance(dim: int, rng: np.random.Generator) -> Array:
    """Which coordinates get no gradient in the warm-up, at least one: a share of them, one, all or all but one."""
    share = rng.choice([0.3, 0.05, 0.8, 0.98, 0.0, 1.0], p=[0.25, 0.2, 0.15, 0.1, 0.2, 0.1])
    dead_D = rng.random(dim) < share
    dead_D[rng.integers(dim)] = share < 1.0 or dim == 1 or rng.random() < 0.7
    return dead_D


def _without_variance(most: int, least: int, rng: np.random.Generator) -> Array:
    """What the workers have (N, 1), of which v becomes 0: zeros, numbers whose squares are, or opposite ones of two."""
    values_N1 = np.full((most, 1), rng.choice([0.0, 0.0, 1e-25]))
    if least > 1 and rng.spawn(1)[0].random() < CANCELLED_SHARE:
        values_N1[:] = 0.0
        values_N1[:2, 0] = 1.0, -1.0
    return values_N1


def _perhaps_alike(late_TND: Array, rng: np.random.Generator, *, agree: bool) -> Array:
    if rng.random() >= ALIKE_SHARE and not agree:
        return late_TND
    make = all_agree if agree else WORKERS_ALIKE[rng.integers(len(WORKERS_ALIKE))]
    (alike_NTD,) = make(rng, late_TND.transpose(1, 0, 2))
    return alike_NTD.transpose(1, 0, 2)


def _perhaps_apart(chunks: list[slice], hyper: CommonHyper | None, rng: np.random.Generator) -> Array:
    """What gradients are multiplied by (D,), one number for each layer, chunk or block."""
    layers, block = getattr(hyper, "layers", ()), getattr(hyper, "scale_block", None)
    parts = [[chunk.stop - chunk.start for chunk in chunks], list(layers)]
    if block is not None:
        parts.append([one.stop - one.start for chunk in chunks for one in Traits.blocks(chunk, block)])
    lengths = [several for several in parts if len(several) > 1]
    if not lengths or rng.random() >= APART_SHARE:
        return np.ones(chunks[-1].stop)
    chosen = lengths[rng.integers(len(lengths))]
    return np.repeat(10.0 ** -rng.uniform(0, APART, len(chosen)), chosen)


def _workers_in(program: tuple[str, ...], n: int) -> list[int]:
    """N in each step and skipped step."""
    found = []
    for operation in program:
        n = workers_after(operation, n)
        if operation in ("step", "skip"):
            found.append(n)
    return found


def _put_largest(
    grads_TND: Array,
    early: int,
    taken: list[str],
    n_T: list[int],
    places: Array,
    alone: Callable[[int, int], bool],
    rng: np.random.Generator,
) -> None:
    """In one late step the largest float32, or two elements near it: apart, of one coordinate, or one worker has both.

    A sum over all elements, over the workers, or over a worker's elements overflows. No sum does that a correct step
    may form: of what the workers send, and of errors. Errors may grow, so the step is one of the last; and no more
    workers come after it, for each would get the mean error, and what they send would add up to more. Where fewer come,
    two of one coordinate would add up to more in that mean, so there are none. What is ``alone``
    in its scale on so many workers is sent as it is: there two are apart, and the largest float32 does not occur.
    """
    late = [step for step in range(early, len(taken)) if taken[step] == "step" and n_T[step] > 1]
    steps = [step for step in late if max(n_T[step:]) <= n_T[step]][-3:]
    if steps and places.size > 1:
        step = steps[rng.integers(len(steps))]
        workers_2, places_2 = rng.choice(n_T[step], 2, replace=False), rng.choice(places, 2, replace=False)
        shared = ("nothing", "coordinate", "worker")[rng.integers(3)]
        if shared == "worker":
            workers_2[1] = workers_2[0]
        elif shared == "coordinate" and min(n_T[step:]) == n_T[step] and not alone(int(places_2[0]), n_T[step]):
            places_2[1] = places_2[0]
        sign = rng.choice([-1.0, 1.0])
        if rng.random() < TOP_SHARE and not alone(int(places_2[0]), n_T[step]):
            grads_TND[step, workers_2[0], places_2[0]] = TOP * sign
        else:
            grads_TND[step][workers_2, places_2] = LARGEST * sign
