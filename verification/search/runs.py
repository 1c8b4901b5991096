"""Runs of a class under test, and what the relations find in them.

A run with everything in its case (snapshots, checkpoints, a used instance, overwritten arguments, a run beside it) is
judged step by step, and must end bitwise where the plain run ends. Where it does not, each disturbance is tried alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from theory import rounding
from verification import originals
from verification.algorithms.base import array_names
from verification.protocol import Array, CommonHyper
from verification.relation import relation_of
from verification.relation.checkpoint import resized, same_state
from verification.relation.collective import collective_round
from verification.relation.compression import CompressionRound
from verification.relation.finding import Finding, Misbehaved, not_finite
from verification.relation.transition import same_bits, started
from verification.search.cases import Call, Case, CollectiveCase, OptimizerCase, kind, workers_after
from verification.search.driver import Driver
from verification.search.layouts import MIXED, is_spoilt, overwrite, placed, spoil, spoil_returned

DISTURBANCES = {
    "snapshots": "observation",
    "arguments": "arguments",
    "used": "start_again",
    "beside": "beside",
    "save": "save",
    "reload": "resume",
    "reload used": "resume_used",
    "roll back": "resume_used",
    "resize used": "resize",
}
"""What must not change where a run ends -> the clause that says so."""

WATCHING = ("snapshots", "arguments")
"""The disturbances that every case has."""


def check(driver: Driver, case: Case, judged: set[str]) -> Iterator[Finding]:
    """Findings of one case, in the order in which they come up; ``judged`` collects the names of clauses that were."""
    run = _collective if isinstance(case, CollectiveCase) else _optimizer
    try:
        yield from run(driver, case, judged)  # pyright: ignore[reportArgumentType]
        if replaced := originals.put_back():
            others = f" and {len(replaced) - 1} more" if len(replaced) > 1 else ""
            text = f"the class replaced {replaced[0]}{others}, with which it is judged too; it was put back"
            yield Finding("protocol", "raises", text)
        judged.add("raises")
    except Misbehaved as error:
        is_plain = case.layout == "contiguous" or " raised " not in str(error)
        where = "" if is_plain else f", with inputs {case.layout} in memory (layouts declares them)"
        yield Finding("protocol", "raises", f"{error}{where}")


@dataclass
class Move:
    """One operation of a run: the state before and after, where it was looked at, and what was done."""

    operation: str
    before: Any
    after: Any
    grads_ND: Array | None = None
    findings: list[Finding] = field(default_factory=list)


def follow(driver: Driver, case: OptimizerCase, disturbances: Collection[str]) -> Iterator[Move]:
    """Run the program of ``case`` with these disturbances of it alone; a resize into a new instance is none."""
    n, dim, taken, last = case.n_workers, case.dim, 0, len(case.program) - 1
    watch, spoils = "snapshots" in disturbances, "arguments" in disturbances
    instance, other, beside = driver.new(), case.other, None

    def goes_on(hyper: CommonHyper | None, taken: int) -> bool:
        return driver.traits.compresses or taken < (hyper or case.hyper).freeze_step

    if other is not None and case.begin == "used" and "used" in disturbances:
        driver.use(instance, other, other.hyper or case.hyper, other.n_workers)
    given_D, given_ND, found = placed(case.layout, case.params_D, 0), None, []
    driver.start_in_place(instance, given_D, n, case.hyper)
    passed: dict[str, Array] = {}
    if spoils:
        found += _modified("start", "params_D", given_D, case.params_D)
        spoil(given_D)
        passed["params_D"] = given_D
    if other is not None and case.begin == "beside" and "beside" in disturbances:
        beside = driver.start(other.params_D, other.n_workers, other.hyper or case.hyper)
    raw, before = driver.look(instance, n, dim) if watch else (None, None)
    spoilt: set[str] = set()
    for index, operation in enumerate(case.program):
        grads_ND = None
        if operation == "step":
            grads_ND = case.grads_TND[taken, :n]
            given_ND = _given(case.layout, grads_ND, taken + 1, given_ND if spoils and taken % 2 else None)
            if beside is not None and other is not None and len(other.grads_TND) and goes_on(other.hyper, taken):
                driver.step(beside, other.grads_TND[taken % len(other.grads_TND), : other.n_workers])
            driver.step_in_place(instance, given_ND)
            taken += 1
            if spoils:
                found += _modified("step", "grads_ND", given_ND, grads_ND)
                spoil(given_ND)
                passed[f"the gradients of step {taken}"] = given_ND
        else:
            n = workers_after(operation, n)
            more = goes_on(case.hyper, taken)
            instance = _checkpoint(driver, case, instance, operation, n, disturbances, goes_on=more)
        if raw is not None and before is not None:
            found += _changed(raw, before, spoilt)
        raw, after, spoilt = None, None, set[str]()
        if index == last or (watch and index not in case.unseen):
            raw, after = driver.look(instance, n, dim)
        if watch and raw is not None and index != last and index % 2:
            spoilt = {name for name in array_names(raw) if spoil_returned(getattr(raw, name))}
        if index == last:
            found += _written("arguments", passed)
        yield Move(operation, before, after, grads_ND, found)
        before, found = after, []


def _checkpoint(
    driver: Driver,
    case: OptimizerCase,
    instance: Any,
    operation: str,
    n: int,
    disturbances: Collection[str],
    *,
    goes_on: bool,
) -> Any:
    """The instance that goes on after saving, reloading or resizing; ``goes_on``: it may be asked for another step."""
    event, resizes = kind(operation), operation.startswith("resize")
    if event not in disturbances and not resizes:
        return instance
    data = driver.save(instance)
    if event == "save":
        return instance
    own_way = np.ones((n, case.dim), case.params_D.dtype)  # of the instance that was saved
    if event == "roll back":
        if goes_on:
            driver.step(instance, own_way)
        driver.look(instance, n, case.dim)
        driver.load(instance, data, n)
        return instance
    other = driver.new()
    if event.endswith("used") and event in disturbances and case.target is not None:
        driver.use(other, case.target, case.hyper, case.target.n_workers if resizes else n)
    else:  # the parameters given here are wrong on purpose: they must come from the checkpoint
        driver.start(np.zeros_like(case.params_D), n, case.hyper, other)
    driver.load(other, data, n)
    if goes_on and not resizes:
        driver.step(instance, own_way)
    return other


def _given(layout: str, values: Array, number: int, before: Array | None) -> Array:
    """An array with these numbers: the very one that was given before, where that has their shape, or a new one."""
    if before is not None and layout != MIXED and before.shape == values.shape:
        return overwrite(before, values)
    return placed(layout, values, number)


def _written(clause: str, passed: dict[str, Array]) -> list[Finding]:
    """Arrays of earlier calls, spoilt since, into which somebody has written."""
    names = [name for name, array in passed.items() if not is_spoilt(array)]
    return [Finding("purity", clause, f"a later call wrote into {name}") for name in names[:1]]


def _modified(method: str, name: str, given: Array, original: Array) -> list[Finding]:
    if same_bits(np.ascontiguousarray(given), np.ascontiguousarray(original)):
        return []
    return [Finding("purity", "arguments", f"{method} modified {name}")]


def _changed(raw: Any, copies: Any, spoilt: Collection[str]) -> list[Finding]:
    """Whether a later call wrote into a snapshot; ``spoilt`` are those of its arrays that were overwritten here."""
    for name in array_names(copies):
        array = getattr(raw, name)
        if not (is_spoilt(array) if name in spoilt else same_bits(array, getattr(copies, name))):
            return [Finding("purity", "observation", f"{name} of an older snapshot changed")]
    return []


def _optimizer(driver: Driver, case: OptimizerCase, judged: set[str]) -> Iterator[Finding]:
    """Every transition by its relation; then the end, against that of the plain run.

    What starts from NaN or Inf is not judged: whatever made them is what fails.
    """
    end, found = None, False
    for place, move in enumerate(follow(driver, case, DISTURBANCES)):
        findings = list(move.findings)
        if place == 0 and move.before is not None:
            findings += started(move.before, case.params_D, driver.traits.checked_as.at_start)
            judged.add("start")
        if move.before is not None and move.after is not None:
            if not (where := not_finite({name: getattr(move.before, name) for name in array_names(move.before)})):
                # what rounds nowhere was made for a run that is right up to here
                findings += _transition(driver, replace(case, exact=case.exact and not found), move, judged)
            elif not found:
                text = f"before step {move.before.step + 1} {', '.join(where.values())}"
                findings.append(Finding("protocol", "raises", text))
        found |= bool(findings)
        yield from (replace(one, place=place) for one in findings)
        end = move.after
    names = {"determinism", "together", "observation", "arguments", *_events(case)}
    plain = _end(driver, case, ())
    judged |= names
    if end is not None and next(same_state(plain, end, "", ""), None) is not None:
        yield from _explained(driver, case, plain, end)


def findings(under_test: type, case: Case) -> list[Finding]:
    """What ``case`` finds in the class; the same relation and tolerances as those of ``onebit verify``."""
    return list(check(Driver(under_test), case, set()))


def _events(case: OptimizerCase) -> list[str]:
    """The clauses whose disturbance the case holds, beside snapshots and arguments."""
    present = {case.begin, *map(kind, case.program)}
    return [clause for event, clause in DISTURBANCES.items() if event in present]


def _end(driver: Driver, case: OptimizerCase, disturbances: Collection[str]) -> Any:
    """Where a run ends."""
    end = None
    for move in follow(driver, case, disturbances):
        end = move.after
    assert end is not None
    return end


def _explained(driver: Driver, case: OptimizerCase, plain: Any, end: Any) -> Iterator[Finding]:
    """Which disturbance alone makes the run end elsewhere."""
    names = "plain", "end"
    again = list(same_state(plain, _end(driver, case, ()), "at the end of the same run", "determinism", names))
    yield from (replace(one, event="nothing") for one in again)
    if again:
        return
    explained = False
    for event, clause in DISTURBANCES.items():
        if event in WATCHING or clause in _events(case):
            what = f"at the end of the run that differs in {event!r} alone"
            found = list(same_state(plain, _end(driver, case, {event}), what, clause, names))
            explained |= bool(found)
            yield from (replace(one, event=event) for one in found)
    if not explained:
        yield from same_state(plain, end, "at the end of the run with everything in its case", "together")


def _transition(driver: Driver, case: OptimizerCase, move: Move, judged: set[str]) -> Iterable[Finding]:
    """What the relation of this operation finds."""
    assert move.before is not None
    assert move.after is not None
    if move.grads_ND is not None:
        relation, about = relation_of(driver.traits), (case.hyper, driver.traits)
        return relation(move.before, move.grads_ND, move.after, *about, exact=case.exact).findings(
            judged, advises=driver.advises
        )
    if move.operation.startswith("resize"):
        judged.add("resize")
        return resized(move.before, move.after, driver.traits)
    clause = DISTURBANCES[kind(move.operation)]
    judged.add(clause)
    return same_state(move.before, move.after, move.operation, clause)


INPUTS = ("buffers_ND", "worker_errors_ND", "server_error_D")
OUTPUTS = ("output_D", "worker_errors_ND", "server_error_D")


def _collective(driver: Driver, case: CollectiveCase, judged: set[str]) -> Iterator[Finding]:
    """Every call by the relation of its round; then the last one again, on both instances, and scaled."""
    instance, given = driver.new(), None
    kept: list[tuple[tuple[Array, ...], list[Array]]] = []
    passed: dict[str, Array] = {}
    for number, inputs in enumerate(case.calls, start=1):
        given = _placed(case.layout, inputs, number, None if number % 2 else given)
        outputs = driver.allreduce_in_place(instance, given)
        relation = collective_round(driver.traits, inputs, outputs, exact=case.exact)
        for finding in relation.findings(judged, advises=driver.advises):
            yield replace(finding, message=f"{_which(case, number)}{finding.message}", place=number - 1)
        judged.add("purity")
        for finding in (*_impure(inputs, given, outputs), *_wire(driver, instance, inputs, judged)):
            yield replace(finding, place=number - 1)
        if not _unchanged(kept):
            yield Finding("purity", "purity", "a later call changed what had been returned")
        for array in kept[0][0] if len(kept) > 1 else ():
            spoil_returned(array)  # it is the caller's
        kept = [*kept[-1:], (outputs, [array.copy() for array in outputs])]
        for name, array in zip(INPUTS, given, strict=True):
            spoil(array)
            passed[f"the argument {name} of call {number}"] = array
    judged.add("determinism")
    others = ("another instance", driver.new()), ("the same instance", instance)
    driver.allreduce_in_place(others[0][1], _placed(case.layout, _zeros_like(case.calls[-1]), 0))
    for which, other in others:
        again = driver.allreduce_in_place(other, _placed(case.layout, case.calls[-1], len(case.calls)))
        for name, array, expected in zip(OUTPUTS, again, kept[-1][1], strict=True):
            if not same_bits(array, expected):
                yield Finding("L9", "determinism", f"the same inputs gave another {name} on {which}")
    if not _unchanged(kept):
        yield Finding("purity", "purity", "a call of another instance changed what had been returned")
    yield from _written("purity", passed)
    if len(case.calls) > 1 and max(np.abs(array).max() for array in case.calls[0]) < MOST_OF_LOOPS:
        yield from _loop(driver, case, judged)
    if case.factor != 1:
        yield from _scaling(driver, case, judged)


MOST_OF_LOOPS = 1e37
"""Errors that are handed back grow: from larger numbers than this a float32 could overflow."""


def _unchanged(kept: Sequence[tuple[tuple[Array, ...], list[Array]]]) -> bool:
    """Whether outputs are what they were when they were returned."""
    return all(same_bits(a, b) for outputs, copies in kept for a, b in zip(outputs, copies, strict=True))


def _loop(driver: Driver, case: CollectiveCase, judged: set[str]) -> Iterator[Finding]:
    """As in training: a call is given the very errors that the one before returned, then these with other numbers."""
    instance, first = driver.new(), case.calls[0]
    same = [inputs for inputs in case.calls[1:] if inputs[0].shape == first[0].shape]
    outputs = driver.allreduce_in_place(instance, _placed(case.layout, first, 1))
    for number, (buffers_ND, new_errors_ND, new_error_D) in enumerate(same[:2], start=2):
        errors_ND, error_D = outputs[1:]
        if number == 3:
            errors_ND, error_D = _rewritten(errors_ND, new_errors_ND), _rewritten(error_D, new_error_D)
        inputs = buffers_ND, errors_ND.copy(), error_D.copy()
        outputs = driver.allreduce_in_place(instance, (placed(case.layout, buffers_ND, number), errors_ND, error_D))
        for finding in collective_round(driver.traits, inputs, outputs).findings(judged, advises=driver.advises):
            text = f"call {number} of a loop that hands errors back: {finding.message}"
            yield replace(finding, claim="", message=text)


def _zeros_like(inputs: Call) -> Call:
    """A call on zeros: another instance that writes into what this one has returned writes other numbers."""
    return np.zeros_like(inputs[0]), np.zeros_like(inputs[1]), np.zeros_like(inputs[2])


def _rewritten(array: Array, values: Array) -> Array:
    """An array that a class has returned, with other numbers; a new one where it may not be written."""
    if not array.flags.writeable:
        return values.copy()
    array[...] = values
    return array


def _which(case: CollectiveCase, number: int) -> str:
    where = f"call {number}: " if len(case.calls) > 1 else ""
    return f"with inputs {case.layout} in memory, {where}" if case.layout != "contiguous" else where


def _placed(layout: str, inputs: Call, number: int, before: Call | None = None) -> Call:
    """The inputs of a call; in the very arrays of the call before, where those are given and have the same shapes."""
    buffers_ND, errors_ND, error_D = (
        _given(layout, array, number * len(inputs) + j, before and before[j]) for j, array in enumerate(inputs)
    )
    return buffers_ND, errors_ND, error_D


def _impure(inputs: Call, given: Call, outputs: Call) -> Iterator[Finding]:
    for name, array, original in zip(INPUTS, given, inputs, strict=True):
        if not same_bits(np.ascontiguousarray(array), original):
            yield Finding("purity", "purity", f"allreduce modified its argument {name}")
    for name, output in zip(OUTPUTS, outputs, strict=True):
        others = [
            *zip(INPUTS, given, strict=True),
            *((f"returned {n}", o) for n, o in zip(OUTPUTS, outputs, strict=True) if n != name),
        ]
        for other, array in others:
            if np.may_share_memory(array, output) and np.shares_memory(array, output):
                yield Finding("purity", "purity", f"the returned {name} shares memory with {other}")


SCALE_BYTES = (4, 8)
"""Of a scale in a message: float32 is enough, and float64 is an honest choice."""


def _wire(driver: Driver, instance: Any, inputs: Call, judged: set[str]) -> Iterator[Finding]:
    """No fewer bits than elements and float32 scales, no more than padded chunks with float64 scales have."""
    sent_N = driver.bytes_per_worker(instance)
    if sent_N is None:
        return
    judged.add("wire_bytes")
    n, dim = inputs[0].shape
    if sent_N.shape != (n,) or sent_N.dtype.kind not in "iuf":
        message = f"bytes_per_worker() must have one number a worker ({n}), got {sent_N.dtype} {sent_N.shape}"
        yield Finding("wire", "wire_bytes", message)
        return
    chunks = driver.traits.chunks(dim, n)
    bits_K = np.array([chunk.stop - chunk.start for chunk in chunks])
    blocks = [len(driver.traits.blocks(chunk, driver.traits.scale_block)) for chunk in chunks]
    least_K = bits_K / 8 + SCALE_BYTES[0] * np.array(blocks) * (bits_K > 0)  # an empty chunk needs no message
    message = -(-int(bits_K.max()) // 8) + SCALE_BYTES[1] * max(blocks)
    for i in range(n):
        served, others = (float(least_K[i]) if i < len(chunks) else 0.0), len(chunks) - (i < len(chunks))
        least = float(least_K.sum()) - served + (n - 1) * served
        most = (others + (n - 1) * (i < len(chunks))) * message
        if not least <= sent_N[i] <= most:
            text = f"worker {i} says it sent {sent_N[i]} bytes; one bit an element and a scale a message are"
            yield Finding("wire", "wire_bytes", f"{text} between {least:.16g} and {most}")
            return


def _scaling(driver: Driver, case: CollectiveCase, judged: set[str]) -> Iterator[Finding]:
    """The last call times the factor; times -1 only where no sign is in doubt [L7]."""
    kind, inputs = driver.traits.numpy_dtype.type, case.calls[-1]
    outputs = driver.allreduce_in_place(driver.new(), _placed(case.layout, inputs, 1))
    if case.factor < 0:
        relation = collective_round(driver.traits, inputs, outputs)
        if not relation.one_bit_workers or _in_doubt(relation):
            return
    judged.add("scaling")
    factor = kind(case.factor)
    base = tuple(array.copy() for array in outputs)
    larger = inputs[0] * factor, inputs[1] * factor, inputs[2] * factor
    scaled = driver.allreduce_in_place(driver.new(), _placed(case.layout, larger, 1))
    for name, got, expected in zip(OUTPUTS, scaled, base, strict=True):
        # adding 0 turns -0 into +0: a zero error has no sign worth comparing
        if not same_bits(got + kind(0), expected * factor + kind(0)):
            k = int(np.argmax(np.atleast_2d(got != expected * factor).any(axis=0)))
            text = f"inputs times {factor:g}: the {name} is not {factor:g} times as large (element {k})"
            yield Finding("L7", "scaling", text)
            return


def _in_doubt(relation: CompressionRound) -> bool:
    """Whether a zero, or rounding, may decide some sign of the round."""
    w_D, tolerance_D = relation.server_input
    clear_D = rounding.sign_is_determined(w_D, tolerance_D) & (w_D != 0)
    return not ((relation.u_ND != 0).all() and clear_D.all())


originals.note()  # before any class is loaded
