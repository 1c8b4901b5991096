"""The case space of optimizers: features and their levels, and what is not combined and why."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import combinations, product
from typing import Any

import numpy as np

from verification.protocol import LARGEST_SIZE, LAYOUTS, Traits
from verification.search.covering import Row, Rule, Space, rows_of_each_level
from verification.search.layouts import MIXED
from verification.search.palettes import PALETTES, magnitudes

Range = tuple[int, int]
"""From and to."""

WORKERS: tuple[Range, ...] = (
    *((n, n) for n in range(1, 9)), (12, 12), (16, 16), (9, 16), (17, 32), (33, 64), (65, 127), (128, 128),
)  # fmt: skip
"""Levels of N: those that are common each for itself, and the one from which on eight bits can't count all votes."""

SIZES: tuple[Range, ...] = (
    (1, 1),
    (2, 7),
    (8, 40),
    (41, 256),
    (257, 1024),
    (1025, 4095),
    (4096, 16384),
    (16385, 131072),
)
"""Levels of D of which every pair with another level occurs."""

LARGE: Range = (131073, LARGEST_SIZE)
"""The D of few cases, which hold every level of every other feature once."""

EDGES: dict[str, int | None] = {"any": None, "on": 0, **{f"{k} over": k for k in range(1, 8)}}
"""How far D lies beyond a multiple of the number of chunks times ``chunk_multiple``; "any": anywhere."""

CHECKPOINTS = ("none", "save", "reload", "reload used", "reload often", "resize", "resize twice", "several")
"""What is done beside steps; "reload used" also goes back to an earlier step of the same instance."""

ENDS = ("step", "reload", "resize")
"""The last operation of a run: what is lost in a checkpoint is lost there, whatever came before."""

DEAD = ("none", "some", "nearly")
"""Coordinates without a gradient in the warm-up; "nearly": one so small that v is tiny or subnormal, and not 0 [C6]."""

FREEZE = ((1, 1), (2, 3), (4, 9), (10, 16), (17, 40))
"""Levels of T_w."""

COMPRESSED = ((2, 4), (5, 12), (60, 70))
"""Levels of the number of compressed steps; the longest pass through every number below theirs."""

LONG = (300, 300)

TRIPLES = (
    "bias_correction",
    "variance_floor",
    "weight_decay",
    "dead",
    "skips",
    "checkpoint",
    "when",
    "end",
    "begin",
    "snapshots",
    "compress",
    "frozen_dtype",
    "local_limit",
    "layers",
)
"""The features of which ``ci`` covers every triple."""

UNBLOCKED = ("workers", "edge", "scale_block")
"""Features of which every profile covers every triple without blocks: what goes wrong at an edge goes wrong there."""

LATE = ("workers", "magnitude", "compressed")
"""The features of which every profile covers every triple: small and large scales in late steps, at every N."""

EVENTFUL = (("size", "compressed", "skips"), ("size", "compressed", "checkpoint"))
"""Features of which every profile covers every triple at every size: rare events, in late steps too."""


@cache
def optimizer_space(traits: Traits, *, can_save: bool, thorough: bool = False) -> Space:
    """Features and levels for a class with these traits; ``thorough`` adds runs of 300 steps."""
    takes = {name: hyper_levels(name, values, traits) for name, values in traits.checked_as.levels.items()}
    freeze = traits.taken("freeze_step")
    features: dict[str, tuple[Any, ...]] = {
        "workers": worker_levels(traits),
        "size": allowed_sizes(traits),
        "edge": allowed_edges(traits),
        "freeze": tuple((n, n) for n in freeze) if freeze else FREEZE,
        "compressed": (*COMPRESSED, *((LONG,) if thorough else ())) if traits.compresses else ((0, 0),),
        **takes,
        "gradients": tuple(PALETTES),
        "magnitude": _magnitudes(traits),
        "dead": (*DEAD, "some with a later gradient") if traits.compresses else DEAD,
        "skips": ("none", "in the warm-up", "compressed", "on a zero-variance coordinate"),
        "checkpoint": CHECKPOINTS if can_save else ("none",),
        "when": ("in the warm-up", "at the freeze", "compressed") if can_save else ("in the warm-up",),
        "end": ENDS if can_save else ENDS[:1],
        "begin": ("new", "used", "used with the same shape", "beside"),
        "snapshots": ("every step", "some steps"),
        "layout": allowed_layouts(traits),
    }
    if len(allowed_workers(traits)) == 1:
        for name in ("checkpoint", "end"):
            features[name] = tuple(level for level in features[name] if not level.startswith("resize"))
    if not traits.compresses:
        features["skips"], features["when"] = ("none", "in the warm-up"), ("in the warm-up",)
    empty = [
        (low, partial(operator.eq, least), high, partial(operator.eq, most), "a range would be empty")
        for low, high in traits.checked_as.ranges
        for least, most in product(features[low], features[high])
        if least > most
    ]
    return Space(features, (*edge_rules(traits), *EXCLUDED, *traits.checked_as.excluded, *empty))


def allowed_layouts(traits: Traits) -> tuple[str, ...]:
    """How the inputs lie in memory; as the class declares."""
    return (*LAYOUTS, MIXED) if traits.layouts is None else traits.layouts


def _magnitudes(traits: Traits) -> tuple[str, ...]:
    """Those of gradients; no sum of float32 numbers overflows float64."""
    if not traits.compresses:
        return ("1",)
    more = max(allowed_workers(traits)) > 1 and traits.dtype == "float32"
    found = (*magnitudes(flushes=traits.flushes_subnormals), *(("largest",) if more else ()))
    none = traits.checked_as.no_magnitudes
    if traits.refresh_policy is not None:  # of its own, so that v may take late gradients
        none = (*none, "huge", "largest")
    return tuple(name for name in found if name not in none)


def allowed_workers(traits: Traits) -> Sequence[int]:
    """The N that a class is tried with; those that it declares."""
    return range(1, WORKERS[-1][1] + 1) if traits.workers is None else traits.workers


def an_edge(space: Space, seed: int) -> str:
    """D a few elements beyond a multiple, how many says the seed; anywhere if the class takes no such D."""
    over = [edge for edge in space.features["edge"] if edge.endswith("over")]
    return over[seed % len(over)] if over else "any"


def worker_levels(traits: Traits) -> tuple[Range, ...]:
    """Levels of N that hold one that the class takes."""
    return _inside(WORKERS, allowed_workers(traits))


def allowed_sizes(traits: Traits) -> tuple[Range, ...]:
    """Levels of D that hold one that the class takes."""
    if traits.sizes is None:
        return SIZES
    return _inside(SIZES, traits.sizes)


def allowed_edges(traits: Traits) -> tuple[str, ...]:
    """Levels of where D lies beside a multiple; of a class that declares its sizes those that some size has."""
    if traits.sizes is None:
        return tuple(EDGES)
    return _edges_of(traits.sizes, (1, LARGEST_SIZE), traits.chunk_multiple)


@cache
def _edges_of(sizes: tuple[int, ...] | range, level: Range, unit: int) -> tuple[str, ...]:
    """Where the sizes of a level of D lie beside a multiple of ``unit``; cached, for every space of a class asks."""
    inside = [size for size in sizes if level[0] <= size <= level[1]]
    return tuple(edge for edge in EDGES if any(_fits(size, edge, unit) for size in inside))


def _fits(size: int, edge: str, unit: int) -> bool:
    """Whether D lies so far beyond a multiple of ``unit``."""
    off = EDGES[edge]
    return off is None or (size >= unit + off and (size - off) % unit == 0)


def edge_rules(traits: Traits) -> tuple[Rule, ...]:
    """What is not combined with where D lies; also levels of D in which no size that the class declares lies there."""
    if traits.sizes is None:
        return EDGE_RULES
    missing = [
        ("size", partial(operator.eq, level), "edge", partial(operator.eq, edge), NO_ROOM)
        for level in allowed_sizes(traits)
        for edge in allowed_edges(traits)
        if edge not in _edges_of(traits.sizes, level, traits.chunk_multiple)
    ]
    return (*EDGE_RULES, *missing)


@cache
def _inside(ranges: tuple[Range, ...], allowed: Sequence[int]) -> tuple[Range, ...]:
    """The ranges that hold an allowed number, and some of those that are beyond them all; cached like the edges."""
    inside = [(low, high) for low, high in ranges if any(low <= one <= high for one in allowed)]
    beyond = [one for one in allowed if one > ranges[-1][1]]
    return (*inside, *((one, one) for one in beyond[:4]))


def hyper_levels(name: str, values: tuple[Any, ...], traits: Traits) -> tuple[Any, ...]:
    """Of a hyper-parameter: all values that the class declares, in the order of ours where they are among them."""
    taken = traits.taken(name)
    if taken is None:
        return values
    return (*(value for value in values if value in taken), *(value for value in taken if value not in values))


TOO_LONG = "too long for a row; few cases have such a pair"
NO_MEANING = "there is no such case"
NO_NUMBER = "without eps a gradient of 0 divides by 0"

NO_ROOM = "no such size is short enough"
OVERFLOW = "x or the errors would overflow"

EDGE_RULES: tuple[Rule, ...] = (
    ("size", lambda size: size[1] < 8, "edge", lambda edge: edge != "any", NO_ROOM),
    ("workers", lambda n: n[1] > 16, "edge", lambda edge: edge != "any", NO_ROOM),
)

EXCLUDED: tuple[Rule, ...] = (
    ("size", lambda size: size[0] >= 16385, "workers", lambda n: n[1] > 4, TOO_LONG),
    ("size", lambda size: size[0] >= 257, "workers", lambda n: n[1] > 16, TOO_LONG),
    ("size", lambda size: size[0] >= 41, "workers", lambda n: n[1] > 64, TOO_LONG),
    ("workers", lambda n: n[1] > 16, "compressed", lambda steps: steps[1] > 12, TOO_LONG),
    ("size", lambda size: size[0] >= 16385, "freeze", lambda steps: steps[1] > 3, TOO_LONG),
    ("size", lambda size: size[0] >= 16385, "compressed", lambda steps: steps[1] > 4, TOO_LONG),
    ("size", lambda size: size[0] >= 4096, "compressed", lambda steps: steps[1] > 12, TOO_LONG),
    ("size", lambda size: size[0] >= 4096, "freeze", lambda steps: steps[1] > 9, TOO_LONG),
    ("size", lambda size: size[0] >= 257, "compressed", lambda steps: steps[1] > 100, TOO_LONG),
    ("size", lambda size: size[0] >= 16385, "scale_block", partial(operator.eq, (8, 8)), TOO_LONG),
    ("magnitude", lambda size: size in ("huge", "largest"), "compressed", lambda steps: steps[1] > 12, OVERFLOW),
    ("magnitude", lambda size: size in ("huge", "largest"), "dead", partial(operator.eq, "nearly"), OVERFLOW),
    ("magnitude", partial(operator.eq, "largest"), "workers", partial(operator.eq, (1, 1)), NO_MEANING),
    ("magnitude", partial(operator.eq, "largest"), "size", partial(operator.eq, (1, 1)), OVERFLOW),
    ("eps", partial(operator.eq, 0.0), "dead", lambda dead: dead != "none", NO_NUMBER),
    ("eps", partial(operator.eq, 0.0), "skips", lambda skips: "zero-variance" in skips, NO_NUMBER),
    ("eps", partial(operator.eq, 0.0), "magnitude", lambda size: size in ("tiny", "subnormal"), NO_NUMBER),
    (
        "dead",
        lambda dead: dead in ("none", "nearly"),
        "skips",
        partial(operator.eq, "on a zero-variance coordinate"),
        NO_MEANING,
    ),
    ("checkpoint", partial(operator.eq, "none"), "when", lambda when: when != "in the warm-up", NO_MEANING),
)


def large_rows(space: Space, seed: int) -> Iterator[tuple[Row, np.random.Generator]]:
    """Few rows of ``LARGE`` size, each with its generator, that hold every other level that is not too long with it."""
    large = Space({**space.features, "size": (LARGE,)}, space.rules)
    for number, row in enumerate(rows_of_each_level(large, seed)):
        most = LARGE[1] // row["workers"][1]
        size = (most if number == 0 else LARGE[0], max(most, LARGE[0]))
        yield {**row, "size": size}, np.random.default_rng([seed, number])


def corner_rows(space: Space, seed: int) -> Iterator[tuple[Row, np.random.Generator]]:
    """Rows of the pairs of levels that are too long for any other row, each with its generator; of D near the low end.

    One row of a pair has the first level of every other feature, one has drawn ones. With more than 16 workers there
    are both once more with workers that agree, after the longest warm-up: where all vote alike, a counter of the server
    is the first to overflow.
    """
    first = {name: levels[0] for name, levels in space.features.items()}
    first["size"] = next((size for size in space.features["size"] if size[0] >= 8), first["size"])
    first["workers"] = next((n for n in space.features["workers"] if n[0] > 1), first["workers"])
    for number, pair in enumerate(_too_long(space)):
        rng = np.random.default_rng([seed, number])

        def those_that_fit(row: Row, name: str, pair: Row = pair) -> list[Any]:
            return [level for level in space.features[name] if space.allows({**row, name: level}, given=pair)]

        plain, drawn = {**first, **pair}, {**first, **pair}
        for name in rng.permutation(list(space.features)):
            if name not in (*pair, "size", "workers") and (levels := those_that_fit(drawn, name)):
                drawn[name] = levels[rng.integers(len(levels))]
        rows = [row for row in (plain, drawn) if space.allows(row, given=pair)]
        if plain["workers"][1] > 16 and "freeze" in first:
            alike = {"magnitude": first["magnitude"], "alike": True}
            rows += [{**row, "freeze": those_that_fit(row, "freeze")[-1], **alike} for row in rows]
        elif plain["workers"][1] > 16:
            rows.append({**plain, "buffers": "all workers agree"})
        for row in rows:
            low, high = row["size"]
            yield {**row, "size": (low, min(high, low + low // 4))}, rng.spawn(1)[0]


def _too_long(space: Space) -> Iterator[Row]:
    """The pairs of two features' last levels that are too long; of sizes each one that is too long with some level."""
    for a, b in combinations(sorted(space.features, key="size".__ne__), 2):
        found: dict[Any, Row] = {}
        for pair in ({a: level, b: other} for level, other in product(space.features[a], space.features[b])):
            n_workers = pair[b][0] if b == "workers" else 2  # a row of two other features has several
            few = a != "size" or n_workers * pair[a][0] <= MOST_NUMBERS
            if few and space.exclusion(pair) == TOO_LONG:
                found[pair[a] if a == "size" else None] = pair
        yield from found.values()


MOST_NUMBERS = 2**18
"""N times D of a row whose size is too long for another level, at most."""


def workers(level: Range, traits: Traits, rng: np.random.Generator) -> int:
    """N within its level."""
    return int(rng.choice([n for n in allowed_workers(traits) if level[0] <= n <= level[1]]))


def dims(row: Row, n: int, traits: Traits, rng: np.random.Generator) -> int:
    """D within its level: anywhere, if large nearer its low end, or beside a multiple of chunks * ``chunk_multiple``.

    Where the level has no such multiple, beside one of ``chunk_multiple`` alone. Of declared sizes it is one of them;
    where none lies within, the next larger one.
    """
    (low, high), off = row["size"], EDGES[row["edge"]]
    if traits.sizes is not None:
        inside = [size for size in traits.sizes if low <= size <= high]
        if not inside:
            inside = [min((size for size in traits.sizes if size > high), default=max(traits.sizes))]
        units = ((traits.server_chunks or n) * traits.chunk_multiple, traits.chunk_multiple)
        there = ([size for size in inside if _fits(size, row["edge"], unit)] for unit in units)
        return int(rng.choice(next(filter(None, there), inside)))
    size = int(low * (high / low) ** rng.random()) if low > 256 else int(rng.integers(low, high, endpoint=True))
    if off is None and rng.random() < 0.5:
        return size
    off = int(rng.integers(-1, 2)) if off is None else off
    for unit in ((traits.server_chunks or n) * traits.chunk_multiple, traits.chunk_multiple):
        least, most = max(1, -((off - low) // unit)), (high - off) // unit
        if least <= most:
            return min(max(round(size / unit), least), most) * unit + off
    return size
