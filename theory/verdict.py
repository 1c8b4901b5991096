"""The verdict on a theorem: everything that is checked of it, in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from onebit_files import error_line
from theory import form, kernel, kernel_record
from theory.arithmetic import Intervals, settled
from theory.arrays import check_scalars
from theory.chain import faults
from theory.digits import Rounded, rounded
from theory.evaluate import check_conditions, no_warnings, settled_value, with_defaults
from theory.formula import sign_of
from theory.limit import SECONDS, processor_time
from theory.rationals import Rationals
from theory.registry import names
from theory.theorem import Example, Rank, Theorem, run_checks, run_example
from theory.witness import contradictions

LAWS = {*(f"L{number}" for number in range(1, 11)), *(f"C{number}" for number in range(1, 16))}
"""Laws and conventions of docs/algorithm.md."""
ROUNDING = 2.0**-40
"""Examples and bounds are evaluated in float64, in far fewer than 2^12 operations each."""


@dataclass(frozen=True)
class Verdict:
    """What came of one theorem.

    Attributes:
        theorem: the theorem.
        faults: one sentence for everything that is wrong.
        unchecked: one sentence for everything that it rests on and nobody has checked.
        skipped: numeric checks that could not run, with the reason.
        evidence: what a kernel-checked rank rests on: Coq run now, or the record.
        seconds: time that the check took.
        axioms: those of Coq's that the proof rests on, where Coq was asked.
    """

    theorem: Theorem
    faults: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    evidence: str = ""
    seconds: float = 0.0
    axioms: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong and everything that it rests on was checked."""
        return not self.faults and not self.unchecked

    @property
    def rank(self) -> Rank:
        """How the theorem is established."""
        return self.theorem.rank

    def __str__(self) -> str:
        if self.faults:
            return "FAILS"
        if self.unchecked:
            return "not checked"
        return f"holds, {len(self.skipped)} skipped" if self.skipped else "holds"


def judge(theorem: Theorem, lemmas: Mapping[str, Theorem], checked: Mapping[str, kernel.Checked] | None) -> Verdict:
    """Check one theorem; ``checked`` has Coq's answers where Coq was asked, else the record stands in."""
    start = perf_counter()
    try:
        with processor_time(SECONDS), no_warnings():
            verdict = _judge(theorem, lemmas, checked)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # one broken theorem must not hide the others, nor end the command
        verdict = Verdict(theorem, (), (f"it can't be checked: {error_line(error)}",))
    return replace(verdict, seconds=perf_counter() - start)


def _judge(theorem: Theorem, lemmas: Mapping[str, Theorem], checked: Mapping[str, kernel.Checked] | None) -> Verdict:
    if misshapen := tuple(dict.fromkeys(form.shape(theorem))):
        return Verdict(theorem, misshapen)
    wrong, unchecked = list(faults(theorem, lemmas)), list[str]()
    evidence, axioms = "", ()
    if theorem.rank is Rank.KERNEL and not wrong:
        if checked is not None:
            result = checked[theorem.id]
            wrong += result.faults
            evidence, axioms = f"Coq {kernel.coq_version()}, now", result.axioms
        else:
            reasons, evidence = recorded(theorem)
            unchecked += reasons
    used = theorem.needs if theorem.chain is not None else ()  # a Coq proof has its lemmas' proofs checked with it
    for item in (*theorem.implied, *(lemmas[name] for name in used if name in lemmas)):
        if item.rank is Rank.KERNEL:
            unchecked += [f"{item.id}, on which it rests: {reason}" for reason in recorded(item)[0]]
    wrong += [
        f"it speaks of {name}, which is no {'theorem' if name.startswith('T') else 'law'}"
        for name in unknown_ids(theorem, lemmas)
    ]
    failed, skipped = run_checks(theorem)
    wrong += [f"the check fails: {name}" for name in failed]
    wrong += _example_faults(theorem, lemmas)
    if theorem.rank is Rank.NUMERICAL:
        ran = len(theorem.numeric_checks) - len(skipped)
        unchecked.append(
            f"there is numerical evidence only ({ran} of {len(theorem.numeric_checks)} checks could run)"
            if theorem.numeric_checks
            else f"there is no proof: give a chain, or {theorem.coq_file.name} beside it"
        )
    return Verdict(theorem, tuple(wrong), tuple(unchecked), skipped, evidence, axioms=axioms)


def recorded(theorem: Theorem) -> tuple[tuple[str, ...], str]:
    """Why the record doesn't vouch for a kernel-checked theorem; or nothing, and which Coq checked it when."""
    try:
        record = kernel_record.read_record()
    except kernel_record.DamagedRecord as reason:
        return (str(reason),), ""
    reasons = kernel_record.faults(theorem, record)
    entry: dict[str, Any] = {} if reasons else record[theorem.id]
    return reasons, f"record: Coq {entry['coq']}, {entry['date']}" if entry else ""


def unknown_ids(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> list[str]:
    """Ids in a theorem's texts that no theorem has (T6 stands for T6a, T6b ...), and laws that there are not."""
    known = {theorem.id}.union(*map(names, lemmas))
    texts = (theorem.title, theorem.words, theorem.good_for, theorem.source, theorem.remarks)
    named = {name for text in texts for name in re.findall(r"\bT\d+[a-z]*\b", text)}
    return [*sorted(named - known), *sorted(set(theorem.laws) - LAWS)]


def _example_faults(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> list[str]:
    try:
        example = run_example(theorem)
        if example is None:
            return ["it has hypotheses, and no example that meets them"] if theorem.hypotheses else []
        check_scalars(theorem, example.inputs)
        known = with_defaults(theorem, None, known_inputs(theorem, example))
        settled(lambda arithmetic: check_conditions(theorem, known, arithmetic))
        found = [
            *(f"the example gives {name}, of which no theorem of {names(theorem.id)[1]} speaks: leave it out"
              for name in idle_inputs(theorem, example, lemmas)),
            *contradictions(theorem, example.inputs),
        ]  # fmt: skip
        against = settled_value(theorem.conclusion.rhs, known, partial(_exceeded, theorem, example))
    except IndexError:
        return ["the example can't be evaluated: its arrays are too short"]
    except Exception as reason:
        plain = isinstance(reason, (ValueError, ArithmeticError))
        return [f"the example can't be evaluated: {reason if plain else error_line(reason)}"]
    return found or ([f"the example attains {example.attained:.6g}, against {against}"] if against else [])


def _exceeded(theorem: Theorem, example: Example, value: Any, arithmetic: Intervals | Rationals) -> Rounded | None:
    """The bound, ``value``, where what an example attains is on the wrong side of it by more than rounding."""
    attained = arithmetic.number(example.attained)
    slack, sign = ROUNDING * (abs(value) + abs(attained)), sign_of(theorem.conclusion)
    below = sign in (">", ">=") or arithmetic.below(attained, value + slack, strict=False)
    above = sign in ("<", "<=") or arithmetic.below(value, attained + slack, strict=False)
    return None if below and above else rounded(value, arithmetic)


def idle_inputs(theorem: Theorem, example: Example, lemmas: Mapping[str, Theorem]) -> list[str]:
    """Inputs of an example that neither its theorem nor another of its number (T6a, T6b ...) speaks of.

    The examples of one number often come from one run, which has an input for each of its theorems.
    """
    idle = set(example.inputs) - {row.code for row in theorem.variables}
    for one in lemmas.values() if idle else ():
        if names(one.id)[1] == names(theorem.id)[1] and not any(form.shape(one)):
            idle -= {row.code for row in one.variables}
    return sorted(idle)


def known_inputs(theorem: Theorem, example: Example) -> dict[str, Any]:
    """The example's inputs that the bound takes (others may belong to the left-hand side)."""
    from theory.evaluate import inputs  # noqa: PLC0415

    names = {item.row.code for item in inputs(theorem)}
    return {name: value for name, value in example.inputs.items() if name in names}
