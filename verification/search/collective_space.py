"""The case space of collectives: features and levels, what is not combined and why, and the case of a row."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from verification.protocol import Array, Traits
from verification.search.cases import Call, CollectiveCase, Maker, always, anew
from verification.search.covering import Row, Rule, Space
from verification.search.dyadic import exact_round, exact_sizes
from verification.search.optimizer_space import (
    LARGE,
    NO_MEANING,
    TOO_LONG,
    allowed_edges,
    allowed_layouts,
    allowed_sizes,
    allowed_workers,
    an_edge,
    corner_rows,
    dims,
    edge_rules,
    large_rows,
    worker_levels,
    workers,
)
from verification.search.palettes import (
    ALIKE,
    HUGE,
    LARGEST,
    PALETTES,
    TOP,
    TOP_SHARE,
    absorbing,
    factors,
    few,
    gaussian,
    magnitudes,
    one_spike,
)

BUFFERS = {**PALETTES, "one spike": one_spike, "few": few, **dict.fromkeys(ALIKE, gaussian)}
"""What the numbers of a call look like."""

OTHER_BUFFERS = 0.5
"""The share of the later calls that have other buffers than the first."""

ALONE = ("nothing", "the server's alone")
"""Residuals beside buffers of zeros: none, where a round changes nothing, and that of the server."""


def collective_space(traits: Traits) -> Space:
    """Features and levels for a class with these traits."""
    features: dict[str, tuple[Any, ...]] = {
        "workers": worker_levels(traits),
        "size": allowed_sizes(traits),
        "edge": allowed_edges(traits),
        "calls": ((1, 1), (2, 4), (11, 13)),
        "sizes": ("one", "several"),
        "buffers": tuple(BUFFERS),
        "magnitude": (*magnitudes(flushes=traits.flushes_subnormals), *["largest"] * (traits.dtype == "float32")),
        "residual": ("yes", "none", "cancels", *(ALONE if traits.has_server_error else ALONE[:1])),
        "layout": allowed_layouts(traits),
        "factor": (1.0, 2.0**20, 2.0**-20, -1.0),
    }
    return Space(features, (*edge_rules(traits), *EXCLUDED))


EXCLUDED: tuple[Rule, ...] = (
    ("size", lambda size: size[0] >= 16385, "workers", lambda n: n[1] > 4, TOO_LONG),
    ("size", lambda size: size[0] >= 257, "workers", lambda n: n[1] > 16, TOO_LONG),
    ("size", lambda size: size[0] >= 16385, "calls", lambda calls: calls[1] > 1, TOO_LONG),
    ("size", lambda size: size[0] >= 16385, "sizes", partial(operator.eq, "several"), TOO_LONG),
    ("size", lambda size: size[0] >= 4096, "calls", lambda calls: calls[1] > 4, TOO_LONG),
    (
        "magnitude",
        lambda magnitude: magnitude != "1",
        "factor",
        lambda factor: factor != 1,
        "products would overflow, or be subnormal",
    ),
    ("calls", lambda calls: calls[1] == 1, "sizes", partial(operator.eq, "several"), NO_MEANING),
    ("workers", partial(operator.eq, (1, 1)), "buffers", lambda buffers: buffers in ALIKE, NO_MEANING),
    ("residual", lambda residual: residual in ALONE, "buffers", partial(operator.ne, "gaussian"), NO_MEANING),
    ("residual", partial(operator.eq, "nothing"), "magnitude", partial(operator.ne, "1"), NO_MEANING),
)


def collective_case(row: Row, traits: Traits, rng: np.random.Generator) -> CollectiveCase:
    """A case of this row: what its levels leave open is drawn."""
    n = workers(row["workers"], traits, rng)
    dim = dims(row, n, traits, rng)
    count = int(rng.integers(*row["calls"], endpoint=True))
    shapes = [(n, dim)] * count
    if row["sizes"] == "several":
        others = [dim, 2 * dim, max(1, dim // 2), 9]
        if traits.sizes is not None:
            others = [dim, *rng.choice([size for size in traits.sizes if size <= 2 * dim], len(others) - 1)]
        for i in range(count - 1):
            other = rng.choice([m for m in allowed_workers(traits) if m <= max(4, n)] or [n])
            shapes[i] = (int(rng.choice([other, n])), int(rng.choice(others)))
    calls = tuple(_call(_later(row, rng) if i else row, shape, traits, rng) for i, shape in enumerate(shapes))
    return CollectiveCase(calls, row["layout"], row["factor"])


def _later(row: Row, rng: np.random.Generator) -> Row:
    """The row of a call after the first: some have other buffers, so that more of them meet other levels.

    Half of these have workers that are alike, for that shows in the server's work alone.
    """
    if rng.random() >= OTHER_BUFFERS or row["residual"] in ALONE or row["workers"] == (1, 1):
        return row
    return {**row, "buffers": rng.choice(list(ALIKE if rng.random() < 0.5 else BUFFERS))}


def _call(row: Row, shape: tuple[int, int], traits: Traits, rng: np.random.Generator) -> Call:
    """(buffers, worker errors, server error); without residuals, the first compressed step of a run."""
    palette, residual = BUFFERS[row["buffers"]], row["residual"] != "none"
    times = factors(row["magnitude"], rng, shape, huge=HUGE[traits.dtype])
    arrays = [palette(rng, shape) * times, palette(rng, shape) * times * residual, palette(rng, shape)[-1] * residual]
    if row["magnitude"] != "mixed":
        arrays[2] = arrays[2] * times[-1]
    if row["buffers"] == "one idle worker" and residual:
        arrays[1] = rng.standard_normal(shape) * times  # a worker without a gradient may still have a residual
    if row["residual"] == "cancels":  # x + -x is +0.0, and -0.0 + -0.0 is -0.0
        arrays[1] = np.where(rng.random(shape) < 0.3, -arrays[0], arrays[1])
        negative_ND = rng.random(shape) < 0.1
        arrays[:2] = (np.where(negative_ND, -0.0, array) for array in arrays[:2])
    if row["buffers"] in ALIKE:
        arrays[:2] = ALIKE[row["buffers"]](rng, *arrays[:2])
    if row["residual"] in ALONE:  # w is the old error, whatever the arithmetic: 0 is a tie
        share = 0.0 if row["residual"] == "nothing" else 0.5
        arrays = [np.zeros(shape), np.zeros(shape), np.where(rng.random(shape[1]) < share, arrays[2], 0.0)]
    if row["magnitude"] == "largest":
        arrays = _with_largest(arrays, traits, rng, residual=residual)
    if not traits.has_server_error:
        arrays[2] = np.zeros(shape[1])
    buffers_ND, errors_ND, error_D = (array.astype(traits.numpy_dtype) for array in arrays)
    return buffers_ND, errors_ND, error_D


def _with_largest(arrays: list[Array], traits: Traits, rng: np.random.Generator, *, residual: bool) -> list[Array]:
    """The largest float32, or up to two numbers near it, in one row of the buffers or errors, or one of the server's.

    The double of one overflows, and its square; two have a sum of magnitudes and of squares that does. No sum does over
    the workers, nor of a buffer and an error. The largest itself is nowhere alone in its scale, for that may round up.
    """
    which = np.atleast_2d(arrays[int(rng.integers(len(arrays) if residual else 1))])
    count = 1 if which is not arrays[0] else int(rng.integers(1, 3))
    places = rng.choice(which.shape[1], min(count, which.shape[1]), replace=False)
    row, signs = rng.integers(len(which)), rng.choice([-1.0, 1.0], places.size)
    if rng.random() < TOP_SHARE and not _alone(int(places[0]), arrays[0].shape, traits):
        which[row, places[0]] = TOP * signs[0]
    else:
        which[row, places] = LARGEST * signs
    return arrays


def _alone(place: int, shape: tuple[int, ...], traits: Traits) -> bool:
    """Whether an element has a server chunk, or a block, to itself."""
    n, dim = shape
    parts = [part for chunk in traits.chunks(dim, n) for part in traits.blocks(chunk, traits.scale_block)]
    return any((part.start, part.stop) == (place, place + 1) for part in parts)


def large_cases(traits: Traits, seed: int = 0) -> list[Maker]:
    """Few cases that no row holds: a long sum that stands still, all zeros, ends, and D to 2^20.

    The last ones hold every level of every other feature that is not too long with so many elements, and the pairs of
    levels that are too long for other rows.
    """
    n, dtype = allowed_workers(traits)[0], traits.numpy_dtype
    found: list[Maker] = []
    least = 8 if traits.takes_size(8) else min(traits.sizes or ())
    plain = [(np.zeros((n, least), dtype), 2)]
    if traits.takes_size(2**18):
        plain.append((np.broadcast_to(absorbing(2**18, traits.scale or "l2").astype(dtype), (n, 2**18)), 1))
    for buffers_ND, calls in plain:
        call = (buffers_ND, np.zeros_like(buffers_ND), np.zeros_like(buffers_ND[0]))
        found.append(partial(always, CollectiveCase((call,) * calls)))
    space = collective_space(traits)
    large = large_rows(space, seed) if traits.takes_size(*LARGE) else ()
    rows = (*large, *corner_rows(space, seed), *end_rows(space, seed))
    return [*found, *(partial(anew, collective_case, row, traits, rng) for row, rng in rows)]


def large_exact_cases(traits: Traits) -> list[CollectiveCase]:
    """Rounds without rounding, of many elements."""
    allowed = allowed_workers(traits)
    rounds = (exact_round(traits, n, 4**7, seed) for n, seed in ((1, 1), (4, 2)) if n in allowed)
    return [case for case in rounds if case is not None]


def end_rows(space: Space, seed: int) -> list[tuple[Row, np.random.Generator]]:
    """Rows of many elements whose weight is in those that are left over at the end; nothing else hides it."""
    plain = {name: levels[0] for name, levels in space.features.items()} | {"edge": an_edge(space, seed)}
    rows = [plain | {"size": size, "buffers": name} for size in END_SIZES for name in ("last spike", "few")]
    return [(row, np.random.default_rng([seed, number])) for number, row in enumerate(rows)]


END_SIZES = ((4097, 16384), (16385, 131072))


def exact_case(traits: Traits, seed: int) -> CollectiveCase | None:
    """A round without rounding, on each power of two of workers in turn; None where the class takes none."""
    counts = [2**k for k in range(8) if 2**k in allowed_workers(traits)]
    if not counts:
        return None
    n = counts[seed % len(counts)]
    dims = exact_sizes(traits, n, traits.scale or "l2")
    return exact_round(traits, n, dims[seed // len(counts) % len(dims)], seed) if dims else None
