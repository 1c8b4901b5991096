"""Simplify a failing case by hand, after Hypothesis: fewer steps, workers and elements, then rounder numbers.

Hypothesis shrinks the sizes and the seed that were drawn. What a person wants to read are arrays with few numbers, most
of them 0 or 1; so the arrays are simplified greedily, keeping every change under which the case still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from verification.cases import Case, CollectiveCase, OptimizerCase
from verification.protocol import Hyper

Fails = Callable[[Any], bool]


def simplify(case: Case, fails: Fails, budget: int = 300) -> Case:
    """The simplest case that was found within ``budget`` tries and still fails."""
    changed = True
    while changed and budget > 0:
        changed = False
        for candidate in _simpler(case):
            budget -= 1
            if fails(candidate):
                case, changed = candidate, True
                break
            if budget <= 0:
                break
    return case


def _simpler(case: Case) -> Iterator[Case]:
    """Candidates, boldest first."""
    yield from (_simpler_collective(case) if isinstance(case, CollectiveCase) else _simpler_optimizer(case))


def _halves(size: int) -> Iterator[slice]:
    """Parts of ``range(size)`` to leave out: halves first, then quarters, down to single ones if there are few."""
    length = size // 2
    while length >= 1 and (length * 32 >= size):
        for start in range(0, size, length):
            yield slice(start, start + length)
        length //= 2


def _simpler_collective(case: CollectiveCase) -> Iterator[CollectiveCase]:
    for r in range(len(case.rounds) - 1, -1, -1):
        if len(case.rounds) > 1:
            yield replace(case, rounds=case.rounds[:r] + case.rounds[r + 1 :])
    shapes = {inputs[0].shape for inputs in case.rounds}
    if case.exact:  # the sizes make it exact
        shapes = set()
    for part in _halves(case.dim) if len(shapes) == 1 else ():
        if case.dim - (min(part.stop, case.dim) - part.start) >= 1:
            yield replace(
                case, rounds=tuple(tuple(np.delete(a, part, axis=-1) for a in inputs) for inputs in case.rounds)
            )
    for i in range(case.n_workers if len(shapes) == 1 and case.n_workers > 1 else 0):
        yield replace(case, rounds=tuple((np.delete(b, i, 0), np.delete(e, i, 0), s) for b, e, s in case.rounds))
    for r, inputs in enumerate(case.rounds if not case.exact else ()):
        for k, array in enumerate(inputs):
            for simpler in _simpler_array(array):
                changed = (*inputs[:k], simpler, *inputs[k + 1 :])
                yield replace(case, rounds=(*case.rounds[:r], changed, *case.rounds[r + 1 :]))


def _simpler_optimizer(case: OptimizerCase) -> Iterator[OptimizerCase]:
    operations = case.operations
    for at in range(len(operations) - 1, -1, -1):
        program = operations[:at] + operations[at + 1 :]
        grads_TND = case.grads_TND
        if operations[at] == "step":
            grads_TND = np.delete(grads_TND, operations[:at].count("step"), axis=0)
        if len(grads_TND):
            yield replace(case, program=program, grads_TND=grads_TND)
    for part in _halves(case.dim) if not case.exact else ():
        if case.dim - (min(part.stop, case.dim) - part.start) >= 1:
            grads_TND = np.delete(case.grads_TND, part, axis=-1)
            yield replace(case, params_D=np.delete(case.params_D, part), grads_TND=grads_TND)
    for i in range(case.n_workers if case.n_workers > 1 and not case.exact else 0):
        yield replace(case, grads_TND=np.delete(case.grads_TND, i, axis=1))
    if case.hyper.freeze_step > 1:
        yield replace(case, hyper=replace(case.hyper, freeze_step=1))
    plain = Hyper(freeze_step=case.hyper.freeze_step)
    for name in ("weight_decay", "eps", "lr", "beta2", "beta1", "scale", "variance_floor", "bias_correction"):
        if getattr(case.hyper, name) != getattr(plain, name):
            yield replace(case, hyper=replace(case.hyper, **{name: getattr(plain, name)}))
    if case.exact:
        return
    for simpler in _simpler_array(case.grads_TND):
        yield replace(case, grads_TND=simpler)
    for simpler in _simpler_array(case.params_D):
        yield replace(case, params_D=simpler)


def _simpler_array(array: Any) -> Iterator[Any]:
    """All zero, all ones, rounded to integers or one digit; then element by element, if there are few."""
    with np.errstate(all="ignore"):
        signs = np.copysign(np.ones_like(array), array)
        candidates = [np.zeros_like(array), np.ones_like(array), signs, np.rint(array), np.round(array, 1)]
    for candidate in candidates:
        if candidate.tobytes() != array.tobytes() and _weight(candidate) < _weight(array):
            yield candidate.astype(array.dtype)
    if array.size > 64:
        return
    for position in np.ndindex(array.shape):
        for value in (0.0, 1.0, -1.0, 2.0, float(np.round(array[position], 1))):
            candidate = array.copy()
            candidate[position] = value
            if _weight(candidate) < _weight(array):
                yield candidate


def _weight(array: Any) -> float:
    """How much there is to read: 0 for zeros, 1 for ones, more with every digit; it decreases, so the loop ends."""
    return float(
        sum(0.0 if v == 0 and not np.signbit(v) else 1.0 if v == 1 else 0.5 + len(f"{v:.9g}") for v in array.flat)
    )
