"""A smaller counterexample: fewer steps, workers and elements, simpler settings, then numbers near 1, and round ones.

Candidates stay in the domain of the clause: a run without rounding keeps the sizes, scale and beta1 that make it so;
hyper-parameters, sizes and numbers of workers stay among those that the class takes; numbers stay below those from
which on a correct step may overflow; and a correct implementation must pass it, for else it shows nothing.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from verification.protocol import Array, Traits
from verification.search.cases import (
    Case,
    CollectiveCase,
    OptimizerCase,
    OtherRun,
    most_workers,
    trimmed,
    workers_after,
)
from verification.search.dyadic import rounds_nowhere
from verification.search.literals import same, seeded
from verification.search.palettes import LARGEST, WARMEST


@np.errstate(all="ignore")  # numbers of a counterexample may be anything
def simplest(case: Any, fails: Callable[[Any], bool], traits: Traits) -> Any:
    """The simplest case that was found and still fails; ``fails`` says False to everything once time is over."""
    passes, tried = (_COLLECTIVE if isinstance(case, CollectiveCase) else _OPTIMIZER), {_key(case)}
    before = None
    while before is not case:
        before = case
        for candidates in passes:
            case = _pass(case, candidates, fails, traits, tried)
    return case


def _pass(case: Any, candidates: Pass, fails: Callable[[Any], bool], traits: Traits, tried: set[bytes]) -> Any:
    """One kind of change, as often as it helps; no case is tried twice."""
    changed = True
    while changed:
        changed = False
        for candidate in candidates(case, traits):
            key = _key(candidate)
            if key in tried or overflows(candidate):
                continue
            tried.add(key)
            if fails(candidate):
                case, changed = candidate, True
                break
    return case


def overflows(case: Case) -> bool:
    """Whether some correct step may overflow: the warm-up squares its gradients, and later ones may be added.

    One alone may be as large as a number gets.
    """
    if isinstance(case, CollectiveCase):
        return any(sum(_beyond(array, LARGEST) for array in inputs) > 1 for inputs in case.calls)
    grads_TND = case.grads_TND
    skipped = ~np.isfinite(grads_TND).all(axis=(1, 2))
    warm = int(np.searchsorted(np.cumsum(~skipped), case.hyper.freeze_step)) + 1
    return _beyond(grads_TND[:warm], WARMEST) > 0 or _beyond(grads_TND, LARGEST) > 1


def _beyond(array: Array, most: float) -> int:
    """How many numbers of it are finite and larger; float64 numbers may be, where the class's own range is wider."""
    sizes = np.abs(array[np.isfinite(array)])
    return int(np.count_nonzero(sizes > most * (1 + 2.0**-20))) if array.dtype == np.float32 else 0


def _key(case: Case) -> bytes:
    """What tells a case from others."""
    digest = hashlib.sha256(pickle.dumps(vars(case)))
    return digest.digest()


def _fewer(size: int, taken: Any) -> Iterator[slice]:
    """Parts of ``range(size)`` to leave out: nearly all, halves, quarters, down to single ones if there are few."""
    for left in (size // 16, size // 4):
        if left >= 1 and (taken is None or left in taken):
            yield from (slice(left, size), slice(0, size - left))
    length = size // 2
    while length >= 1 and length * 32 >= size:
        for start in range(0, size, length):
            left = size - (min(start + length, size) - start)
            if left >= 1 and (taken is None or left in taken):
                yield slice(start, start + length)
        length //= 2


def _simpler_settings_of_calls(case: CollectiveCase, traits: Traits) -> Iterator[CollectiveCase]:
    for r in range(len(case.calls) - 1, -1, -1):
        if len(case.calls) > 1:
            yield replace(case, calls=case.calls[:r] + case.calls[r + 1 :])
    if case.layout != "contiguous":
        yield replace(case, layout="contiguous")
    for factor in (1.0, 2.0):
        if case.factor not in (1.0, factor):
            yield replace(case, factor=factor)
    if case.exact:
        yield replace(case, exact=False)


def _plain_calls(case: CollectiveCase, traits: Traits) -> Iterator[CollectiveCase]:
    """Instead of a call without rounding one of ones, on few elements; and worker errors added to the buffers."""
    (buffers_ND, errors_ND, error_D), *more = case.calls
    if more:
        return
    dims = [dim for dim in 4 ** np.arange(1, 10) if dim < case.dim] if case.exact else []
    for dim in (*dims, case.dim):
        for n in sorted({1, case.n_workers}):
            ones_ND = np.ones((n, dim), buffers_ND.dtype)
            pattern_D = np.resize(np.array([-1, -1, -1, 1], error_D.dtype), dim)
            plain = replace(case, calls=((ones_ND, 0 * ones_ND, pattern_D),))
            taken = all(some is None or at in some for some, at in ((traits.sizes, dim), (traits.workers, n)))
            if taken and case.exact and (buffers_ND.shape != ones_ND.shape or (buffers_ND != ones_ND).any()):
                yield from _exact(plain, traits)
    if errors_ND.any():
        yield from _exact(replace(case, calls=((buffers_ND + errors_ND, 0 * errors_ND, error_D),)), traits)


def _smaller_calls(case: CollectiveCase, traits: Traits) -> Iterator[CollectiveCase]:
    """Fewer elements and workers; a call without rounding must stay one."""
    if len({inputs[0].shape for inputs in case.calls}) > 1:
        return
    for part in _fewer(case.dim, traits.sizes):
        yield from _exact(
            replace(case, calls=tuple(tuple(np.delete(a, part, axis=-1) for a in inputs) for inputs in case.calls)),
            traits,
        )
    for i in range(case.n_workers if case.n_workers > 1 else 0):
        if traits.workers is None or case.n_workers - 1 in traits.workers:
            calls = tuple((np.delete(b, i, 0), np.delete(e, i, 0), s) for b, e, s in case.calls)
            yield from _exact(replace(case, calls=calls), traits)


def _calls_near_one(case: CollectiveCase, traits: Traits) -> Iterator[CollectiveCase]:
    """All inputs of a call times one power of two: what is wrong at any magnitude is shown at that of 1."""
    for r, inputs in enumerate(case.calls):
        for nearer in _near_one(inputs):
            yield from _exact(replace(case, calls=(*case.calls[:r], nearer, *case.calls[r + 1 :])), traits)


def _rounder_calls(case: CollectiveCase, traits: Traits) -> Iterator[CollectiveCase]:
    for r, inputs in enumerate(case.calls):
        for k, array in enumerate(inputs):
            for simpler in _simpler_array(array):
                changed = (*inputs[:k], simpler, *inputs[k + 1 :])
                yield from _exact(replace(case, calls=(*case.calls[:r], changed, *case.calls[r + 1 :])), traits)


def _exact(case: CollectiveCase, traits: Traits) -> Iterator[CollectiveCase]:
    """The case, unless it has to be one without rounding and is none."""
    if not case.exact or all(rounds_nowhere(traits, inputs) for inputs in case.calls):
        yield case


def _plainer_run(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    if case.layout != "contiguous":
        yield replace(case, layout="contiguous")
    if case.begin != "new" or case.other is not None:
        yield replace(case, begin="new", other=None)
    if case.target is not None:
        plain = tuple(operation.removesuffix(" used") for operation in case.program)
        yield replace(case, program=plain, target=None)
    if case.unseen:
        yield replace(case, unseen=frozenset())
    for run in (case.other, case.target):  # where it is the one that fails, it does so alone
        if run is not None and len(run.grads_TND) and not case.exact:
            steps = ("step",) * len(run.grads_TND)
            hyper = run.hyper or case.hyper
            yield trimmed(OptimizerCase(run.params_D, run.grads_TND, run.n_workers, hyper, steps))


def _smaller_run(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    """Fewer elements and workers; in a run without rounding their numbers make it so."""
    if case.exact:
        return
    for part in _fewer(case.dim, traits.sizes):
        target = None if case.target is None else _without(case.target, part)
        arrays = {"params_D": np.delete(case.params_D, part), "grads_TND": np.delete(case.grads_TND, part, axis=-1)}
        yield replace(case, **arrays, target=target, hyper=case.hyper.without(part))
    for n in range(1, case.n_workers):
        if traits.workers is None or n in traits.workers:
            yield trimmed(replace(case, n_workers=n))


def _without(run: OtherRun, part: slice) -> OtherRun:
    """Another run without some of its elements."""
    hyper = None if run.hyper is None else run.hyper.without(part)
    arrays = {"params_D": np.delete(run.params_D, part), "grads_TND": np.delete(run.grads_TND, part, axis=-1)}
    return replace(run, **arrays, hyper=hyper)


def _simpler_other(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    """Fewer steps, workers, elements and settings of the run on the used instance, or beside; then rounder numbers."""
    for name in ("other", "target"):
        run: OtherRun | None = getattr(case, name)
        for simpler in () if run is None else _simpler_run(run, case, traits):
            yield replace(case, **{name: simpler})


def _simpler_run(run: OtherRun, case: OptimizerCase, traits: Traits) -> Iterator[OtherRun]:
    steps = len(run.grads_TND)
    for left in sorted({0, 1, steps // 2, steps - 1} & set(range(steps))):
        yield from (replace(run, grads_TND=run.grads_TND[:left]), replace(run, grads_TND=run.grads_TND[steps - left :]))
    if run.n_workers != case.n_workers and case.n_workers <= run.grads_TND.shape[1]:
        yield replace(run, n_workers=case.n_workers)
    elif run.n_workers > 1 and (traits.workers is None or run.n_workers - 1 in traits.workers):
        yield replace(run, n_workers=run.n_workers - 1)
    if run.hyper is not None:  # else its elements are those of the case
        for name, value in vars(case.hyper).items():
            if getattr(run.hyper, name) != value:
                yield replace(run, hyper=replace(run.hyper, **{name: value}))
        for part in _fewer(run.params_D.size, traits.sizes):
            yield _without(run, part)
    for simpler in _simpler_array(run.params_D):
        yield replace(run, params_D=simpler)
    for simpler in _simpler_array(run.grads_TND) if steps else ():
        yield replace(run, grads_TND=simpler)


def _run_near_one(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    """All gradients times one power of two, then the parameters, then both."""
    for (nearer,) in () if case.exact else _near_one((case.grads_TND,)):
        yield replace(case, grads_TND=nearer)
    for (nearer,) in _near_one((case.params_D,)):
        yield replace(case, params_D=nearer)


def _rounder_run(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    for simpler in _simpler_array(case.params_D):
        yield replace(case, params_D=simpler)
    if not case.exact:
        for simpler in _simpler_array(case.grads_TND):
            yield replace(case, grads_TND=simpler)


def _earlier_freeze(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    """Without the first steps of the warm-up: the freeze comes as much earlier."""
    freeze = case.hyper.freeze_step
    if case.exact or traits.taken("freeze_step") is not None:
        return
    for fewer in sorted({freeze - 1, freeze // 2, 1} - {0}, reverse=True):
        steps = [at for at, operation in enumerate(case.program) if operation == "step"][:fewer]
        if fewer < freeze and len(case.grads_TND) > fewer == len(steps):
            left = [at for at in range(len(case.program)) if at not in steps]
            yield trimmed(
                replace(
                    case,
                    program=tuple(case.program[at] for at in left),
                    grads_TND=case.grads_TND[fewer:],
                    unseen=frozenset(new for new, at in enumerate(left[:-1]) if at in case.unseen),
                    hyper=replace(case.hyper, freeze_step=freeze - fewer),
                )
            )


def _shorter(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    """Without half of the operations, or a quarter, or one of them."""
    length = len(case.program) // 2
    while length >= 1:
        for at in range(len(case.program) - length, -1, -length):
            program = case.program[:at] + case.program[at + length :]
            first = case.program[:at].count("step")
            steps = case.program[at : at + length].count("step")
            if program and len(case.grads_TND) > steps and not (case.exact and first < 2 and steps):
                grads_TND = np.delete(case.grads_TND, slice(first, first + steps), axis=0)
                unseen = frozenset(i if i < at else i - length for i in case.unseen if not at <= i < at + length)
                yield trimmed(replace(case, program=program, grads_TND=grads_TND, unseen=unseen - {len(program) - 1}))
        length //= 2


def _simpler_settings(case: OptimizerCase, traits: Traits) -> Iterator[OptimizerCase]:
    """Hyper-parameters at their defaults, an earlier freeze, resizes to fewer workers."""
    plain = type(case.hyper)(freeze_step=case.hyper.freeze_step)
    kept = {*chain.from_iterable(traits.checked_as.exact), "scale", "freeze_step"} if case.exact else {"freeze_step"}
    if case.exact and case.hyper.compress == "update":
        kept |= {"beta2", "eps", "bias_correction", "compress"}  # P is a power of two
    for name, value in vars(plain).items():
        allowed = traits.taken(name) is None or value in (traits.taken(name) or ())
        if name not in kept and getattr(case.hyper, name) != value and allowed:
            yield replace(case, hyper=replace(case.hyper, **{name: value}))
    if traits.taken("freeze_step") is None and not case.exact:
        for steps in {1, case.hyper.freeze_step // 2, case.hyper.freeze_step - 1} - {0, case.hyper.freeze_step}:
            yield replace(case, hyper=replace(case.hyper, freeze_step=steps))
    for at, operation in enumerate(case.program):
        old = workers_after(operation, 0)
        for n in range(1, min(old, 4)):
            if traits.workers is None or n in traits.workers:
                fewer = operation.replace(str(old), str(n))
                program = (*case.program[:at], fewer, *case.program[at + 1 :])
                if most_workers(case.n_workers, program) <= case.grads_TND.shape[1]:
                    yield trimmed(replace(case, program=program))


def _near_one(arrays: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arrays times one power of two, so that their largest number is about 1, or at least nearer to it."""
    largest = max((float(np.abs(array[np.isfinite(array)]).max(initial=0)) for array in arrays), default=0.0)
    exponent = int(np.frexp(largest)[1])
    for left in (0, exponent // 2, exponent - exponent // 4, exponent - int(np.sign(exponent))):
        if abs(left) < abs(exponent) and abs(exponent) > NEAR_ONE:
            yield tuple(np.ldexp(array, left - exponent) for array in arrays)


def _simpler_array(array: Any) -> Iterator[Any]:
    """All zero, all ones, a pattern, rounded, sorted; then halves, quarters and so on, down to single numbers."""
    with np.errstate(all="ignore"):
        signs = np.copysign(np.ones_like(array), array)
        whole = [np.zeros_like(array), np.ones_like(array), np.resize(np.array([1.0, -1.0]), array.shape), signs]
        whole += [seeded(array)] * (array.size > 16) + [
            np.rint(array),
            np.round(array, 1),
            _one_digit(array),
            np.sort(array),
        ]
    weight = _weight(array)
    for candidate in whole:
        if _weight(candidate) < weight:
            yield candidate.astype(array.dtype)
    length = array.size // 2
    while length >= 1 and length * FINEST >= array.size:
        for start in range(0, array.size, length):
            for value in (0.0, 1.0):
                candidate = array.copy()
                candidate.reshape(-1)[start : start + length] = value
                if _weight(candidate) < weight:
                    yield candidate
        length //= 2
    for position in np.ndindex(array.shape) if array.size <= FINEST else ():
        digit = float(_one_digit(array[position]))
        for value in (-1.0, 2.0, float(np.rint(array[position])), float(np.round(array[position], 1)), digit):
            candidate = array.copy()
            candidate[position] = value
            if _weight(candidate) < weight:
                yield candidate


def _one_digit(array: Any) -> Any:
    """Each number rounded to its first digit; what rounds to no number of the dtype becomes 0 or Inf."""
    wide = np.asarray(array, np.float64)
    with np.errstate(all="ignore"):
        unit = 10.0 ** np.floor(np.log10(np.abs(wide)))
        return np.where(np.isfinite(unit) & (unit > 0), np.rint(wide / unit) * unit, wide).astype(array.dtype)


def _weight(array: Any) -> float:
    """How much there is to read: 0 for zeros, 1 for ones, more with every digit; it decreases, so the loop ends."""
    flat, sizes = array.ravel(), np.abs(array.ravel())
    with np.errstate(all="ignore"):
        tenths, whole = np.rint(10 * flat), np.rint(flat)
        near_tenth = np.abs(flat - tenths / 10) <= 1e-6 * sizes
        one_digit, orders = flat == _one_digit(flat), np.abs(np.log10(sizes))
    kinds = [(flat == 0) & ~np.signbit(flat), flat == 1, flat == -1, (flat == whole) & (sizes < 10), sizes == np.inf]
    weights = np.select([*kinds, near_tenth & (sizes < 10), one_digit], [0.0, 1.0, 1.5, 2.0, 2.0, 4.0, 5.0], 12.0)
    weights += np.where(np.isfinite(flat) & (flat != 0), orders, 0.0) / 10  # 1e-38 is strange to read
    weights += 2.0 * np.isin(flat, array.dtype.type(0)) * np.signbit(flat)
    if same(array, seeded(array)):
        return array.size / 4 + 16
    starts = np.flatnonzero(np.diff(flat, prepend=np.nan) != 0)  # runs of one number are written once
    return float(min(weights.sum(), 0.01 * weights.sum() + (weights[starts] + 2).sum()))


NEAR_ONE = 4
"""Powers of two up to here are near enough to 1."""

FINEST = 64
"""Arrays of so many numbers are changed one by one, larger ones in so many parts."""

Pass = Callable[[Any, Traits], Iterator[Any]]

_COLLECTIVE: tuple[Pass, ...] = (
    *(_simpler_settings_of_calls, _plain_calls, _smaller_calls, _calls_near_one, _rounder_calls),
)
_OPTIMIZER: tuple[Pass, ...] = (
    *(_plainer_run, _earlier_freeze, _shorter, _smaller_run, _simpler_settings, _simpler_other),
    *(_run_near_one, _rounder_run),
)
