"""The case of a row of the case space of optimizers: what its levels leave open is drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from verification.protocol import Array, CommonHyper, Traits
from verification.search.cases import OptimizerCase, OtherRun, most_workers
from verification.search.covering import Row
from verification.search.dyadic import disturbed, exact_run, tied_run
from verification.search.gradients import gradients
from verification.search.optimizer_space import (
    LARGE,
    allowed_workers,
    dims,
    hyper_levels,
    optimizer_space,
    worker_levels,
    workers,
)

HIDDEN, HIDDEN_LATE = 0.4, 0.15
"""Shares of the operations after which no snapshot is taken; in long runs fewer, so that late steps are judged."""

LOADS = 4
"""The least number of loads in a run that is loaded often."""

UNLIKE = (1e-40, 1e-30, 1e-10, 0.0, 1e4)
"""Sizes of parameters unlike those of the others; the first is subnormal in float32."""

TIED = (*range(1, 9), 12, 16, 24, 32, 64, 128)
"""The N of runs with ties at the server."""

MOST_RESIZED = 32
"""Workers that a run without rounding has before a resize, at most."""

LONG_STAGE, LATE = 50, 5
"""Steps of a stage in whose last few two skipped steps in a row come."""

TRIES = 20
"""So many drawn settings are tried for a run without rounding."""

FEW_WORKERS = 4
"""To at most so many workers half of the resizes go: where elements lie in chunks differs most among these."""

MANY_STEPS = 40
"""The most steps of a run beside the one of a case."""


def optimizer_case(row: Row, traits: Traits, rng: np.random.Generator) -> OptimizerCase:
    """A case of this row: what its levels leave open is drawn."""
    n = workers(row["workers"], traits, rng)
    dim = dims(row, n, traits, rng)
    warm_up, compressed = (int(rng.integers(*row[name], endpoint=True)) for name in ("freeze", "compressed"))
    compressed = row["compressed"][1] if rng.random() < 0.5 else compressed  # what comes late comes in the longest
    hyper = _hyper(row, warm_up, n, dim, traits, rng)
    program = _program(row, warm_up, compressed, (n, dim), traits, rng)
    grads_TND = gradients(row, program, warm_up, (n, dim), traits, rng, hyper)
    target = None
    if any(operation.endswith("used") for operation in program):
        target = _target(row, program, warm_up, (n, dim), traits, rng)
    program = tuple("step" if op == "skip" else op for op in program)
    unseen: frozenset[int] = frozenset()
    if row["snapshots"] == "some steps":
        hidden = rng.random(len(program)) < (HIDDEN if len(program) < 50 else HIDDEN_LATE)
        before = [i for i in range(len(program) - 1) if program[i + 1] != "step"]
        hidden[before] = True
        unseen = frozenset(int(i) for i in np.flatnonzero(hidden[:-1]))
    if row["end"] != "step":
        program += (row["end"] if row["end"] == "reload" else f"resize {_another(n, dim, compressed, traits, rng)}",)
    case = OptimizerCase(
        _parameters(dim, traits, rng, getattr(hyper, "layers", ())),
        grads_TND,
        n,
        hyper,
        program,
        unseen,
        layout=row["layout"],
        target=target,
    )
    return _begun(case, row["begin"], traits, rng)


def _parameters(dim: int, traits: Traits, rng: np.random.Generator, layers: Sequence[int] = ()) -> Array:
    """Parameters (D,) of size 1; in half of the cases some are of other sizes, or the last ones of layers larger."""
    params_D = rng.standard_normal(dim)
    alone = rng.spawn(1)[0]
    if alone.random() < 0.5:  # as large as all others of the layer together: a norm without it is another one
        lengths = np.array(layers or (dim,))
        params_D[lengths.cumsum() - 1] = np.sqrt(lengths) * alone.choice([-1.0, 1.0], lengths.size)
        params_D *= 2.0 ** -alone.integers(5)
    if rng.random() < 0.5:
        params_D *= np.where(rng.random(dim) < 0.3, rng.choice(UNLIKE[traits.flushes_subnormals :], dim), 1.0)
    return params_D.astype(traits.numpy_dtype)


def _hyper(row: Row, warm_up: int, n: int, dim: int, traits: Traits, rng: np.random.Generator) -> CommonHyper:
    """Hyper-parameters of the row; the block is one that fits into a chunk, more often than not."""
    algorithm = traits.checked_as
    values = {name: algorithm.draw(name, row[name], dim, rng) for name in algorithm.levels}
    if isinstance(row["scale_block"], tuple):
        low, high = row["scale_block"]
        chunk = traits.chunks(dim, n)[0].stop
        high = max(low, min(high, chunk)) if rng.random() < 0.75 else high
        values["scale_block"] = 8 * int(rng.integers(low // 8, high // 8, endpoint=True))
    return traits.hyper(freeze_step=warm_up, **values)


def _begun(case: OptimizerCase, begin: str, traits: Traits, rng: np.random.Generator) -> OptimizerCase:
    """The case with the run that its instance has done before, or that goes on beside it."""
    if begin == "new":
        return case
    same = begin == "used with the same shape" or (begin == "beside" and rng.random() < 0.5)
    shape = (case.n_workers, case.dim) if same else None
    return replace(case, begin=begin.partition(" ")[0], other=_other(shape, traits, rng))


BRIEF: Mapping[str, Any] = {
    "workers": lambda level: level[1] <= 8,
    "size": lambda level: level[1] <= 40,
    "freeze": lambda level: level[1] <= 9,
    "compressed": lambda level: level[1] <= 12,
}
"""The levels of another run: short, on few workers and elements."""


def _other(shape: tuple[int, int] | None, traits: Traits, rng: np.random.Generator) -> OtherRun:
    """Another run, unlike that of the case but in its shape (N, D) where that is given; it may end in its warm-up."""
    row = _brief_row({}, traits, rng)
    n = shape[0] if shape else workers(row["workers"], traits, rng)
    dim = shape[1] if shape else dims(row, n, traits, rng)
    warm_up, compressed = (int(rng.integers(*row[name], endpoint=True)) for name in ("freeze", "compressed"))
    program = _program(row, warm_up, compressed, (n, dim), traits, rng)
    grads_TND = gradients(row, program, warm_up, (n, dim), traits, rng)
    most = int(rng.integers(0, warm_up, endpoint=True)) if rng.random() < 0.4 else MANY_STEPS
    return OtherRun(_parameters(dim, traits, rng), grads_TND[:most], n, _hyper(row, warm_up, n, dim, traits, rng))


def _target(
    row: Row, program: tuple[str, ...], warm_up: int, shape: tuple[int, int], traits: Traits, rng: np.random.Generator
) -> OtherRun:
    """What the instance has done into which a run is loaded: on its hyper-parameters, often as many steps as it."""
    n, dim = shape
    other = _another(n, dim, 0, traits, rng) if any(one.startswith("resize") for one in program) else n
    fixed = (*traits.checked_as.levels, "workers", "size", "freeze")
    brief = _brief_row({name: row[name] for name in fixed}, traits, rng)
    loads = [at for at, operation in enumerate(program) if operation.endswith("used")]
    till = program[: int(rng.choice(loads))].count("step")
    steps = (till, warm_up + int(rng.integers(1, 4)) * traits.compresses, warm_up // 2)[rng.integers(3)]
    steps = min(steps, MANY_STEPS if dim < LARGE[0] else 3)
    done = _program(brief, warm_up, max(0, steps - warm_up), (other, dim), traits, rng)
    while done.count("step") > steps:
        done = done[:-1]
    most = max(other, most_workers(n, program))
    grads_TND = gradients(brief, done, warm_up, (most, dim), traits, rng)
    longest = None if traits.compresses else warm_up  # what is skipped with one N may be a step with another
    return OtherRun(np.zeros(dim, traits.numpy_dtype), grads_TND[:longest], other)


def _brief_row(fixed: Row, traits: Traits, rng: np.random.Generator) -> Row:
    """Any allowed row with these levels, short, on few workers and elements, and without checkpoints."""
    space = optimizer_space(traits, can_save=False)
    features = {**space.features, **{name: (fixed[name],) for name in fixed}}
    for name, takes in BRIEF.items():
        features[name] = tuple(level for level in features[name] if name in fixed or takes(level)) or features[name][:1]
    given = fixed if space.exclusion(fixed) else None  # a pair that is too long for other rows
    while True:
        row = {name: levels[rng.integers(len(levels))] for name, levels in features.items()}
        if space.allows(row, given=given):
            return row


def _most(dim: int, compressed: int) -> int:
    """The most workers that a run on so many elements, and of so many compressed steps, is given."""
    return 4 if dim >= 16385 else 16 if dim >= 257 or compressed > 12 else 64 if dim >= 41 else 128


def _another(n: int, dim: int, compressed: int, traits: Traits, rng: np.random.Generator) -> int:
    """Another number of workers, half of the time one of the few; the same where the class takes no other."""
    levels = [level for level in worker_levels(traits) if level != (n, n) and level[1] <= _most(dim, compressed)]
    few = [level for level in levels if level[1] <= FEW_WORKERS]
    levels = few if few and rng.random() < 0.5 else levels
    return workers(levels[rng.integers(len(levels))], traits, rng) if levels else n


def _program(
    row: Row, warm_up: int, compressed: int, shape: tuple[int, int], traits: Traits, rng: np.random.Generator
) -> tuple[str, ...]:
    """Steps and skipped steps, and the checkpoints among them."""
    events, last = _events(row, warm_up, compressed, shape, traits, rng), warm_up + compressed
    skips = _skips(row, warm_up, compressed, events, rng)
    program: list[str] = []
    for step in range(last + 1):
        here = [*events.get(step, []), *["skip"] * skips.get(step, 0)]
        program += [here[at] for at in rng.permutation(len(here))]
        program += ["step"] if step < last else []
    return tuple(program)


def _events(
    row: Row, warm_up: int, compressed: int, shape: tuple[int, int], traits: Traits, rng: np.random.Generator
) -> dict[int, list[str]]:
    """The checkpoints before each step; now and then several at once."""
    kind, last = row["checkpoint"], warm_up + compressed
    if kind == "none":
        return {}

    def operation(kind: str) -> str:
        if kind == "reload used":
            return "reload used" if rng.random() < 0.5 else "roll back"
        if kind == "resize" and len(allowed_workers(traits)) > 1:
            return f"resize {_another(*shape, compressed, traits, rng)}" + (" used" if rng.random() < 0.5 else "")
        return "reload" if kind in ("reload often", "resize") else kind

    def some(kinds: Sequence[str]) -> list[str]:
        count = 1 if rng.random() < 0.7 else int(rng.integers(2, 4))
        return [operation(kinds[int(rng.integers(len(kinds)))]) for _ in range(count)]

    first = {"in the warm-up": warm_up // 2, "at the freeze": warm_up}.get(row["when"])
    at = int(rng.integers(warm_up + 1, max(warm_up + 2, last))) if first is None else first
    at = min(at, last)
    if kind == "several":
        kinds = ("save", "reload", "reload used", "resize")
        places = {at, *(int(step) for step in rng.integers(at, last, rng.integers(1, 4), endpoint=True))}
        return {step: some(kinds) for step in sorted(places)}
    if kind == "reload often":  # after most steps, so that some load is beside any step
        events = {step: ["reload"] for step in range(at, last + 1) if step == at or rng.random() < 0.75}
        events[last] = ["reload"] * max(len(events.get(last, [])), LOADS - len(events) + (last in events))
        return events
    if kind.startswith("resize"):
        events = {at: [operation("resize")]}
        if kind == "resize twice":
            events.setdefault(min(at + int(rng.integers(4)), last), []).append(operation("resize"))
        return events
    return {at: some([kind]), int(rng.integers(warm_up, last)) if compressed else at: some([kind])}


def _skips(
    row: Row, warm_up: int, compressed: int, events: Collection[int], rng: np.random.Generator
) -> dict[int, int]:
    """Before which steps how many gradients arrive that are not finite; often beside a checkpoint, or several at once.

    After the last step of its stage is one of the places. Near the end of a long stage two come in a row.
    """
    if row["skips"] == "none":
        return {}
    low, high = (0, warm_up) if row["skips"] == "in the warm-up" else (warm_up, warm_up + compressed)
    places = {int(at) for at in rng.integers(low, high, rng.integers(1, 4 + (high - low) // 8), endpoint=True)}
    beside = [at for at in events if low <= at <= high]
    if beside and rng.random() < 0.5:
        places.add(int(rng.choice(beside)))
    if rng.random() < 0.3:
        places.add(low if rng.random() < 0.5 else high)
    counts = {at: 1 if rng.random() < 0.6 else int(rng.integers(2, 4)) for at in sorted(places)}
    late = {int(high - rng.integers(LATE)): 2} if high - low >= LONG_STAGE else {}
    return counts | late


def exact_case(traits: Traits, seed: int, *, can_save: bool = False) -> OptimizerCase | None:
    """A run with ties at the server, the other features at random; None where the class takes none.

    The seeds go through N, both scales and the algorithm's kinds of such runs. Where N is a power of two, nothing
    rounds. The ties come in the first exchanges or later ones, of 0/1 Adam before or after T_w, and where it can be
    after a load, a resize or a skipped step.
    """
    counts = [n for n in TIED if n in allowed_workers(traits)]
    if not counts or not traits.compresses:
        return None
    n, scales = counts[seed % len(counts)], hyper_levels("scale", ("l2", "l1"), traits)
    make = tied_run if n & (n - 1) else exact_run
    more = {"beta1": 0.0} if make is tied_run else {}
    kinds = [{**kind, **more} for kind in traits.checked_as.exact]
    kinds = [one for one in kinds if all(value in (traits.taken(name) or (value,)) for name, value in one.items())]
    if not kinds:
        return None
    turn, scale = divmod(seed // len(counts), len(scales))
    fixed = {**kinds[turn % len(kinds)], "scale": scales[scale]}
    rng = np.random.default_rng(seed)
    for _ in range(TRIES):
        row = optimizer_space(traits, can_save=False).random_row(rng)
        if (times := _quiet(n, traits, rng)) is None:
            continue
        before, freeze = times
        values = vars(_hyper(row, freeze, n, 16, traits, rng)) | fixed
        # so that P is a power of two: sqrt(v) = 1.5 and the denominator 2, or 4 and 8 with the correction, which
        # some multiply by: 1 over it is 4
        even = {"beta2": 3 / 4, "eps": 4.0} if row.get("bias_correction") else {"beta2": 1 - 9 / 64, "eps": 0.5}
        if row.get("compress") == "update" and all(one in (traits.taken(of) or (one,)) for of, one in even.items()):
            values |= even
            if values["variance_floor"] > 1:  # it raises v, and P is another number
                continue
        if (case := make(traits, n, traits.hyper(**values), seed, before)) is not None:
            case = disturbed(case, [n for n in counts if n <= MOST_RESIZED], traits, rng, can_save=can_save)
            return _begun(case, row["begin"], traits, rng)
    return None


def _quiet(n: int, traits: Traits, rng: np.random.Generator) -> tuple[int, int] | None:
    """How many exchanges or steps of Adam come before those with ties, and T_w; with policies it may be later.

    None where the class takes no such T_w.
    """
    before = int(rng.choice((0, 0, 1, 2, 5, 11, 40) if n <= 8 else (0, 0, 1, 2, 5)))
    later = 4 if traits.checked_as.compresses_at_once else 0
    allowed = [t for t in traits.taken("freeze_step") or range(1, 64) if 1 <= t <= before + 1 + later]
    return (before, int(rng.choice(allowed))) if allowed else None
