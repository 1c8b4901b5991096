"""The case space of optimizers: features and levels, what is not combined and why, and the case of a row."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from verification.protocol import EXTENSIONS, LAYOUTS, Array, Traits
from verification.search.cases import OptimizerCase, most_workers
from verification.search.covering import Row, Space
from verification.search.dyadic import exact_run
from verification.search.palettes import PALETTES, absorbing, factors, magnitudes

WORKERS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 33, 64)

LONG_D = 257
"""From here on the work is that of D."""

SIZES = ((1, 1), (2, 7), (8, 40), (41, 256), (257, 1024), (1025, 4095), (4096, 16384), (65536, 131072))
"""Levels of D, from and to."""

HYPERS: dict[str, tuple[Any, ...]] = {
    "scale": ("l2", "l1"),
    "bias_correction": (False, True),
    "variance_floor": (0.0, 1e-3, 0.5),
    "weight_decay": (0.0, 0.1),
    "eps": (1e-8, 1e-3, 0.0),
    "lr": (1e-3, 0.5),
    "beta1": (0.9, 0.5, 0.0, 0.99),
    "beta2": (0.999, 0.5, 0.9, 0.0),
    "compress": ("momentum", "update"),
    "scale_block": (None, 8, 40, 1024),
    "frozen_dtype": ("float32", "bfloat16"),
}
CHECKPOINTS = ("none", "save", "reload", "reload used", "reload often", "resize", "resize twice")
DEAD = ("none", "some", "nearly")
"""Coordinates without a gradient in the warm-up; "nearly": one so small that v is tiny or subnormal, and not 0 [C6]."""

FREEZE = ((1, 1), (2, 3), (4, 9), (17, 40))
COMPRESSED = ((2, 4), (5, 12), (60, 70))
LONG = (300, 300)

TRIPLES = (
    "bias_correction",
    "variance_floor",
    "weight_decay",
    "dead",
    "skips",
    "checkpoint",
    "when",
    "begin",
    "snapshots",
    "compress",
    "frozen_dtype",
)
"""The features of which ``ci`` covers every triple."""

LATE = ("workers", "magnitude", "compressed")
"""The features of which every profile covers every triple: small and large scales in late steps, at every N."""


def optimizer_space(traits: Traits, *, can_save: bool, thorough: bool = False) -> Space:
    """Features and levels for a class with these traits; ``thorough`` adds runs of 300 steps."""
    takes = {name: _levels(name, values, traits) for name, values in HYPERS.items()}
    freeze = traits.taken("freeze_step")
    features: dict[str, tuple[Any, ...]] = {
        "workers": allowed_workers(traits),
        "size": allowed_sizes(traits),
        "freeze": tuple((n, n) for n in freeze) if freeze else FREEZE,
        "compressed": (*COMPRESSED, *((LONG,) if thorough else ())) if traits.compresses else ((0, 0),),
        **takes,
        "gradients": tuple(PALETTES),
        "magnitude": magnitudes(flushes=traits.flushes_subnormals) if traits.compresses else ("1",),
        "dead": (*DEAD, "some, gradient later") if traits.compresses else DEAD,
        "skips": ("none", "in the warm-up", "compressed", "on a zero-variance coordinate"),
        "checkpoint": CHECKPOINTS if can_save else ("none",),
        "when": ("in the warm-up", "at the freeze", "compressed") if can_save else ("in the warm-up",),
        "begin": ("new", "used", "used, other N", "beside"),
        "snapshots": ("every step", "some steps"),
        "layout": allowed_layouts(traits),
    }
    if len(features["workers"]) == 1:
        features["checkpoint"] = tuple(level for level in features["checkpoint"] if not level.startswith("resize"))
        features["begin"] = tuple(level for level in features["begin"] if level != "used, other N")
    if not traits.compresses:
        features["skips"], features["when"] = ("none", "in the warm-up"), ("in the warm-up",)
    return Space(features, _excluded)


def allowed_layouts(traits: Traits) -> tuple[str, ...]:
    """How the inputs lie in memory; as the class declares."""
    return LAYOUTS if traits.layouts is None else traits.layouts


def allowed_workers(traits: Traits) -> tuple[int, ...]:
    """Levels of N; those that the class declares."""
    return WORKERS if traits.workers is None else traits.workers


def allowed_sizes(traits: Traits) -> tuple[tuple[int, int], ...]:
    """Levels of D that hold one that the class takes."""
    if traits.sizes is None:
        return SIZES
    inside = [(low, high) for low, high in SIZES if any(low <= size <= high for size in traits.sizes)]
    beyond = [size for size in traits.sizes if not any(low <= size <= high for low, high in inside)]
    return (*inside, *((size, size) for size in beyond[:4]))


def _levels(name: str, values: tuple[Any, ...], traits: Traits) -> tuple[Any, ...]:
    taken = traits.taken(name)
    return values if taken is None else tuple(value for value in values if value in taken) or taken


SMALL = 1e-16
"""A warm-up's gradients so small that guards against zero bite, and so large that v is not 0."""

HIDDEN, HIDDEN_LATE = 0.4, 0.15
"""Shares of the operations after which no snapshot is taken; in long runs fewer, so that late steps are judged."""

LOADS = 4
"""The least number of loads in a run that is loaded often."""

NEARLY = (3e-19, 1e-17, 1e-12)
"""Gradients of which v is subnormal in float32, tiny, and small."""

TOO_LONG = "too long for one case"
NO_MEANING = "there is no such case"
NO_NUMBER = "without eps a gradient of 0 divides by 0"

EXCLUDED: tuple[tuple[str, Callable[[Any], bool], str, Callable[[Any], bool], str], ...] = (
    ("size", lambda size: size[0] >= 65536, "workers", lambda n: n > 4, TOO_LONG),
    ("size", lambda size: size[0] >= 257, "workers", lambda n: n > 16, TOO_LONG),
    ("workers", lambda n: n > 16, "compressed", lambda steps: steps[1] > 12, TOO_LONG),
    ("size", lambda size: size[0] >= 65536, "freeze", lambda steps: steps[1] > 3, TOO_LONG),
    ("size", lambda size: size[0] >= 65536, "compressed", lambda steps: steps[1] > 4, TOO_LONG),
    ("size", lambda size: size[0] >= 4096, "compressed", lambda steps: steps[1] > 12, TOO_LONG),
    ("size", lambda size: size[0] >= 4096, "freeze", lambda steps: steps[1] > 9, TOO_LONG),
    ("size", lambda size: size[0] >= 257, "compressed", lambda steps: steps[1] > 100, TOO_LONG),
    ("size", lambda size: size[0] >= 65536, "scale_block", partial(operator.eq, 8), TOO_LONG),
    ("magnitude", partial(operator.eq, "huge"), "compressed", lambda steps: steps[1] > 12, "the errors would overflow"),
    (
        "magnitude",
        partial(operator.eq, "huge"),
        "dead",
        partial(operator.eq, "nearly"),
        "x would overflow",
    ),
    ("eps", partial(operator.eq, 0.0), "dead", lambda dead: dead != "none", NO_NUMBER),
    ("eps", partial(operator.eq, 0.0), "skips", lambda skips: "zero-variance" in skips, NO_NUMBER),
    ("eps", partial(operator.eq, 0.0), "beta2", partial(operator.eq, 0.0), NO_NUMBER),
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


def _excluded(pair: Row) -> str:
    for a, of_a, b, of_b, reason in EXCLUDED:
        if a in pair and b in pair and of_a(pair[a]) and of_b(pair[b]):
            return reason
    return ""


def dims(level: tuple[int, int], n: int, traits: Traits, rng: np.random.Generator) -> int:
    """D within its level: anywhere, if large near its low end, or beside a multiple of N * ``chunk_multiple``."""
    low, high = level
    if traits.sizes is not None:
        return int(rng.choice([size for size in traits.sizes if low <= size <= high]))
    unit = n * traits.chunk_multiple
    beside = [unit * k + shift for k in range(max(1, low // unit), high // unit + 1) for shift in (-1, 0, 1)]
    beside = [size for size in beside[:300] if low <= size <= high]
    if beside and rng.random() < 0.5:
        return int(rng.choice(beside))
    return int(low + (high - low) * rng.random() ** 3) if low >= LONG_D else int(rng.integers(low, high, endpoint=True))


def optimizer_case(row: Row, traits: Traits, rng: np.random.Generator) -> OptimizerCase:
    """A case of this row: what its levels leave open is drawn."""
    n = row["workers"]
    dim = dims(row["size"], n, traits, rng)
    warm_up, compressed = (int(rng.integers(*row[name], endpoint=True)) for name in ("freeze", "compressed"))
    hyper = traits.hyper(freeze_step=warm_up, **{name: row[name] for name in HYPERS})
    others = [other for other in allowed_workers(traits) if other != n and other <= _most(dim, compressed)]
    program = _program(row, warm_up, compressed, others, rng)
    steps = len([op for op in program if op in ("step", "skip")])
    shape = (steps, most_workers(n, program), dim)
    grads_TND, dead_D = _gradients(row, program, warm_up, shape, traits, rng)
    _put_skips(row, program, grads_TND, dead_D, n, rng)
    program = tuple("step" if op == "skip" else op for op in program)
    unseen: frozenset[int] = frozenset()
    if row["snapshots"] == "some steps":
        hidden = rng.random(len(program)) < (HIDDEN if len(program) < 50 else HIDDEN_LATE)
        before = [i for i in range(len(program) - 1) if program[i + 1] != "step"]
        hidden[before] = True
        unseen = frozenset(int(i) for i in np.flatnonzero(hidden[:-1]))
    params_D = rng.standard_normal(dim).astype(traits.numpy_dtype)
    with np.errstate(over="ignore"):
        grads = grads_TND.astype(traits.numpy_dtype)
    return OptimizerCase(params_D, grads, n, hyper, program, unseen, row["begin"], row["layout"])


def _program(
    row: Row, warm_up: int, compressed: int, others: Sequence[int], rng: np.random.Generator
) -> tuple[str, ...]:
    """Steps and skipped steps, and the checkpoints among them."""
    events: dict[int, list[str]] = {}
    kind, last = row["checkpoint"], warm_up + compressed
    if kind != "none":
        first = {"in the warm-up": warm_up // 2, "at the freeze": warm_up}.get(row["when"])
        at = int(rng.integers(warm_up + 1, max(warm_up + 2, last))) if first is None else first
        at = min(at, last)
        if kind.startswith("resize") and others:
            events[at] = [f"resize {rng.choice(others)}"]
            if kind == "resize twice":
                events.setdefault(min(at + 1 + int(rng.integers(3)), last), []).append(f"resize {rng.choice(others)}")
        elif kind == "reload often":  # after most steps, so that some load is beside any step
            for step in range(at, last + 1):
                if step == at or rng.random() < 0.75:
                    events[step] = ["reload"]
            events[last] = ["reload"] * max(len(events.get(last, [])), LOADS - len(events) + (last in events))
        elif not kind.startswith("resize"):
            events[at] = [kind]
            events.setdefault(int(rng.integers(warm_up, last)) if compressed else at, [kind])
    skips = {at: ["skip"] for at in _skipped_before(row, warm_up, compressed, events, rng)}
    program: list[str] = []
    for step in range(last + 1):
        here, skipped = events.get(step, []), skips.get(step, [])
        program += [*skipped, *here] if rng.random() < 0.5 else [*here, *skipped]
        program += ["step"] if step < last else []
    return tuple(program)


def _skipped_before(
    row: Row, warm_up: int, compressed: int, events: Collection[int], rng: np.random.Generator
) -> set[int]:
    """Before which steps a gradient that is not finite arrives; often one of them is beside a checkpoint."""
    if row["skips"] == "none":
        return set()
    low, high = (0, warm_up) if row["skips"] == "in the warm-up" else (warm_up, warm_up + compressed)
    found = {int(at) for at in rng.integers(low, high, rng.integers(1, 4 + (high - low) // 8))}
    beside = [at for at in events if low <= at < high]
    return found | {int(rng.choice(beside))} if beside and rng.random() < 0.5 else found


def _most(dim: int, compressed: int) -> int:
    """The most workers that a run on so many elements, and of so many compressed steps, is given."""
    return 4 if dim >= 65536 else 16 if dim >= 257 or compressed > 12 else max(WORKERS)


def _gradients(
    row: Row,
    program: tuple[str, ...],
    warm_up: int,
    shape: tuple[int, int, int],
    traits: Traits,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Gradients (T, N, D) of the palette and magnitude of the row, and which coordinates will be dead (D,)."""
    grads_TND = PALETTES[row["gradients"]](rng, shape)
    dim = shape[-1]
    taken = np.cumsum([op == "step" for op in program if op in ("step", "skip")])
    early = int(np.searchsorted(taken, warm_up)) + 1
    at, n = int(np.argmax(taken > 0)), row["workers"]
    for operation in program[: program.index("step")]:
        n = int(operation.split()[1]) if operation.startswith("resize") else n
    begins = grads_TND[at : at + 1] if row["eps"] == 0 else grads_TND[:early]
    low_D = np.abs(begins[:, :n].mean(axis=1)).max(axis=0) < 0.05
    grads_TND[at, 0] += np.where(low_D, n, 0.0)  # so that v > 0
    dead_D = np.zeros(dim, np.bool_)
    if row["dead"] not in ("none", "nearly"):
        dead_D = rng.random(dim) < rng.choice([0.3, 0.05, 1.0], p=[0.5, 0.4, 0.1])
        dead_D[rng.integers(dim)] = True
    warm_D = np.ones(dim)
    if row["magnitude"] in ("tiny", "subnormal"):  # m-bar and the errors would keep the warm-up's magnitude for long
        warm_D[:] = SMALL
    if row["dead"] == "nearly":
        nearly = rng.choice(NEARLY[traits.flushes_subnormals :], dim)
        warm_D = np.where(rng.random(dim) < rng.choice([0.3, 1.0]), nearly, warm_D)
    grads_TND[:early] *= warm_D
    late = grads_TND[early:]
    # in the update form P, which may be as large as 1e8, multiplies it
    late *= factors(row["magnitude"], rng, late.shape, huge=1e28 if row["compress"] == "momentum" else 1e22)
    grads_TND[:early, :, dead_D] = rng.choice([0.0, 0.0, 1e-25])
    keep = rng.random(int(dead_D.sum())) < (0.6 if row["dead"] == "some, gradient later" else 0.0)
    late[:, :, dead_D] = np.where(keep, late[:, :, dead_D], 0.0)
    return grads_TND, dead_D


def _put_skips(
    row: Row, program: tuple[str, ...], grads_TND: Array, dead_D: Array, n: int, rng: np.random.Generator
) -> None:
    """Spoil the gradients of skipped steps: one or two elements, of a worker that is there."""
    taken = 0
    for op in program:
        if op.startswith("resize"):
            n = int(op.split()[1])
        if op == "skip":
            places = (
                np.flatnonzero(dead_D) if row["skips"] == "on a zero-variance coordinate" else np.arange(dead_D.size)
            )
            k, bad = rng.choice(places), rng.choice([np.nan, np.inf, -np.inf])
            grads_TND[taken, rng.integers(n), k] = bad
            if n > 1 and rng.random() < 0.3:
                grads_TND[taken, :2, k] = np.inf, -np.inf
        taken += op in ("step", "skip")


def large_cases(traits: Traits, *, can_save: bool) -> list[OptimizerCase]:
    """Few cases that no row holds: a long sum that stands still, and D = 2^20."""
    if not traits.compresses or traits.sizes is not None:
        return []
    found = []
    hyper = {name: _levels(name, values, traits)[0] for name, values in HYPERS.items()}
    freeze = (traits.taken("freeze_step") or (1,))[0]
    rng, dtype, n, steps = np.random.default_rng(0), traits.numpy_dtype, allowed_workers(traits)[0], freeze + 1
    for scale in _levels("scale", HYPERS["scale"], traits):
        grads_TND = np.broadcast_to(absorbing(2**18, scale).astype(dtype), (steps, n, 2**18))
        case_hyper = traits.hyper(**{**hyper, "scale": scale, "freeze_step": freeze})
        found.append(OptimizerCase(np.zeros(2**18, dtype), grads_TND, n, case_hyper, ("step",) * steps))
    grads_TND = rng.standard_normal((steps, n, 2**20), np.float32).astype(dtype)
    program = (*("step",) * steps, *(("reload",) if can_save else ()))
    last = {name: _levels(name, HYPERS[name], traits)[-1] for name in EXTENSIONS}
    for extended in [{}, last] if traits.extensions else [{}]:
        case_hyper = traits.hyper(**{**hyper, **extended, "freeze_step": freeze})
        found.append(OptimizerCase(np.zeros(2**20, dtype), grads_TND, n, case_hyper, program))
    return found


def exact_case(traits: Traits, seed: int) -> OptimizerCase | None:
    """A run without rounding, on 1, 2 or 4 workers, the other features at random; None where the class takes none."""
    n, beta1, freeze = (1, 2, 4)[seed % 3], traits.taken("beta1") or (0.5,), traits.taken("freeze_step") or (1,)
    if n not in allowed_workers(traits) or 0.5 not in beta1 or 1 not in freeze or not traits.compresses:
        return None
    row = optimizer_space(traits, can_save=False).random_row(np.random.default_rng(seed))
    values = {name: row[name] for name in HYPERS} | {"beta1": 0.5, "freeze_step": 1}
    if row["compress"] == "update" and not (traits.taken("eps") or traits.taken("beta2")):
        # so that P is a power of two: sqrt(v) = 1.5, or 4 with the correction, and the denominator is 2 or 8
        values |= {"beta2": 1 - 9 / 64, "eps": 4.0 if row["bias_correction"] else 0.5}
    case = exact_run(traits, n, traits.hyper(**values), seed)
    return None if case is None else replace(case, begin=row["begin"])
