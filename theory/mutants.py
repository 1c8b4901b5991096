"""Do the checks of the theory bite? Change every theorem in one place after another, and see it rejected.

A mutant is **rejected** if the checker finds a fault: the proof does not end at the statement, a residual is not 0,
Coq's file states something else. A mutant that the checker accepts has a complete proof of its own, so it is a theorem
too; it is listed as **true** with that reason if a search over random values of its variables refutes it nowhere, and
as **survived** (a hole in the checker) if the search refutes it.

For kernel-checked theorems the comparison of statements rejects what it prints differently. A sample goes to Coq
itself: the same proof script under the changed statement. Where Coq accepts, the changed statement is true as well, and
is listed so; the comparison rejects it all the same. Tolerances have mutants of their own
(:mod:`theory.tolerance_mutants`): each must differ from the number of its theorem.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp

from theory import coq_statement, form, kernel, tolerance_mutants
from theory.arithmetic import NotEvaluated
from theory.chain import first_fault
from theory.coq_printer import NotPrintable
from theory.evaluate import evaluate
from theory.formula import free_names, relations, sign_of
from theory.limit import SECONDS, TookTooLong, processor_time
from theory.mutations import Mutant, mutants_of
from theory.rationals import RATIONALS
from theory.registry import select
from theory.theorem import Rank, Theorem, by_id
from theory.witness import true_of

BESIDE_THE_PROOF = ("words", "implied")
"""Kinds of mutants that change neither the statement nor its proof: the checker itself must reject them."""
SAMPLES = 400
"""Random instances that try to refute a mutant which the checker accepts."""


@dataclass
class Score:
    """What came of the mutants: counts by kind, and those that were not rejected."""

    rejected: Counter[str] = field(default_factory=Counter)
    true: list[tuple[str, str]] = field(default_factory=list)
    survived: list[str] = field(default_factory=list)
    coq_rejected: int = 0
    coq_true: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Take over what another process found."""
        self.rejected.update(other.rejected)
        self.true += other.true
        self.survived += other.survived

    @property
    def total(self) -> int:
        """Mutants made."""
        return sum(self.rejected.values()) + len(self.true) + len(self.survived)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "mutants": self.total,
            "rejected": sum(self.rejected.values()),
            "rejected by kind": dict(self.rejected),
            "true": [{"mutant": name, "reason": reason} for name, reason in self.true],
            "survived": self.survived,
            "sample for Coq": {"rejected": self.coq_rejected, "true": self.coq_true},
        }


TOLERANCES = "tolerances"
"""Stands for the functions of ``theory.rounding`` where the ids of theorems stand."""
PARTS = 8
"""Pieces of work that the mutants of the tolerances are cut into."""


def run(
    ids: Sequence[str],
    *,
    share: float = 1.0,
    seed: int = 0,
    jobs: int = 1,
    report: Callable[[str], None] = lambda name: None,
) -> Score:
    """Judge the mutants of theorems and of :data:`TOLERANCES`, or a random ``share`` of them, in ``jobs`` processes.

    Raises:
        ValueError: a theorem itself is rejected; where its form is wrong, before anything else is done.
    """
    score, lemmas = Score(), by_id(select())
    for name in ids:
        if name != TOLERANCES:
            _refuse(name, next(form.shape(lemmas[name]), None))
    parts = [(name, part) for name in ids for part in range(PARTS if name == TOLERANCES else 1)]
    work = partial(judge_part, share=share, seed=seed)
    if jobs == 1:
        for part in parts:
            score.add(work(part))
            report(part[0])
        return score
    with ProcessPoolExecutor(jobs) as pool:
        for part, one in zip(parts, pool.map(work, parts), strict=True):
            score.add(one)
            report(part[0])
    return score


def _refuse(name: str, fault: str | None) -> None:
    if fault:
        raise ValueError(f"{name} is rejected as it is, so its mutants say nothing: {fault}")


def judge_part(part: tuple[str, int], share: float, seed: int) -> Score:
    """The mutants of one theorem, or one part of the tolerances' mutants.

    Raises:
        ValueError: the theorem itself is rejected.
    """
    name, number = part
    score, chance = Score(), random.Random(f"{seed} {name}")
    if name == TOLERANCES:
        for index, change in enumerate(tolerance_mutants.changes()):
            if chance.random() < share and index % PARTS == number:
                judge_tolerance(change, score)
        return score
    lemmas = by_id(select())
    _refuse(name, rejection(lemmas[name], lemmas))
    for mutant in mutants_of(lemmas[name]):
        if chance.random() < share:
            judge_mutant(mutant, lemmas[name], lemmas, score)
    return score


def judge_tolerance(change: tolerance_mutants.Change, score: Score) -> None:
    """Enter one mutant of a tolerance into the score."""
    if tolerance_mutants.rejection(change):
        score.rejected[f"tolerance: {change.kind}"] += 1
    elif reason := tolerance_mutants.equivalent(change):
        score.true.append((str(change), reason))
    else:
        score.survived.append(str(change))


def judge_mutant(mutant: Mutant, original: Theorem, lemmas: Mapping[str, Theorem], score: Score) -> None:
    """Enter one mutant into the score."""
    reason = rejection(mutant.theorem, lemmas)
    if reason:
        score.rejected[mutant.kind] += 1
    elif mutant.kind in BESIDE_THE_PROOF:
        score.survived.append(str(mutant))
    elif same_statement(mutant.theorem, original):
        score.true.append((str(mutant), "the statement is unchanged, and the changed proof is a proof of it"))
    elif refuted(mutant.theorem, lemmas):
        score.survived.append(str(mutant))
    else:
        score.true.append((str(mutant), f"it has a complete proof, and {SAMPLES} random instances agree"))


def rejection(theorem: Theorem, lemmas: Mapping[str, Theorem]) -> str | None:
    """Why a theorem is not accepted; None if it is."""
    if theorem.rank is Rank.KERNEL and (changed := coq_statement.mismatch(theorem)):
        return changed  # compared first: of the two checks it is the quick one
    try:
        with processor_time(SECONDS):
            if fault := first_fault(theorem, lemmas):
                return fault
    except TookTooLong as reason:
        return f"it can't be checked: {reason}"
    failed = [name for name, check in theorem.numeric_checks.items() if not check()]
    return failed[0] if theorem.rank is Rank.NUMERICAL and failed else None


def same_statement(one: Theorem, other: Theorem) -> bool:
    """Whether two theorems state the same, proofs aside."""
    return (one.conclusion, one.hypotheses, one.domains) == (other.conclusion, other.hypotheses, other.domains)


def refuted(theorem: Theorem, lemmas: Mapping[str, Theorem], samples: int = SAMPLES, seed: int = 1) -> bool:
    """Whether random values within the domains, on which the hypotheses hold, contradict the conclusion.

    Symbolic theorems only: their statements are relations of scalars. Hypotheses that are equations of one symbol with
    an expression are solved for it.
    """
    chance = np.random.default_rng(seed)
    names = {name for relation in [theorem.conclusion] for side in relation.args for name in free_names(side)}
    for item in theorem.hypotheses:
        for relation in relations(item.formula):
            names |= {name for side in relation.args for name in free_names(side)}
    if any(not isinstance(name, sp.Symbol) for name in names):
        return False
    for _ in range(samples):
        values: dict[Any, Any] = {name: draw(theorem, name, chance) for name in names if isinstance(name, sp.Symbol)}
        given = [relation for item in theorem.hypotheses for relation in relations(item.formula)]
        try:
            for relation in given:
                if sign_of(relation) == "==" and isinstance(relation.lhs, sp.Symbol):
                    values[relation.lhs] = evaluate(relation.rhs, values, RATIONALS)
            if all(true_of(relation, values) for relation in given) and not true_of(theorem.conclusion, values):
                return True
        except NotEvaluated:
            continue  # it says nothing there
    return False


def draw(theorem: Theorem, symbol: sp.Symbol, chance: np.random.Generator) -> float | int:
    """A random value in the domain of a symbol."""
    if symbol.is_integer:
        return int(chance.integers(1 if symbol.is_positive else 0, 8))
    interval = theorem.domain(symbol)
    low = float(str(sp.Float(interval.start))) if interval.start.is_finite else None
    high = float(str(sp.Float(interval.end))) if interval.end.is_finite else None
    if low is not None and high is not None:
        return low + (high - low) * float(chance.uniform(0.001, 0.999))
    if low is not None:
        return low + float(np.exp(chance.normal(0, 2)))
    return float(chance.normal(0, 2))


def coq_sample(theorems: Iterable[Theorem], folder: Path, *, count: int, seed: int, jobs: int, score: Score) -> None:
    """Give Coq one changed statement of each of ``count`` kernel-checked theorems, with the original's proof script."""
    chance = random.Random(seed)
    # A hypothesis that is left out becomes True under its name: where the script still proves, it was not needed.
    own = [theorem for theorem in theorems if theorem.rank is Rank.KERNEL]
    sample = chance.sample(own, min(count, len(own)))
    changes = {one.id: [item for item in mutants_of(one) if item.kind not in BESIDE_THE_PROOF] for one in sample}
    chosen = [(theorem, chance.choice(changes[theorem.id])) for theorem in sample]
    folder.mkdir(parents=True, exist_ok=True)
    for path in dict.fromkeys(path for theorem, _ in chosen for path in kernel.sources(theorem.coq_file)[:-1]):
        kernel.compiled(path, folder)

    def proves(pair: tuple[Theorem, Mutant]) -> tuple[Mutant, bool]:
        theorem, mutant = pair
        try:
            text = theorem.coq_file.read_text("utf-8")
            stated = (
                coq_statement.statement_of(theorem, without=mutant.part.split()[-1])
                if mutant.kind == "dropped"
                else (coq_statement.statement_of(mutant.theorem))
            )
            changed = text.replace(coq_statement.stated_in_file(theorem), stated)
        except (NotPrintable, ValueError):
            return mutant, False
        if changed == text:
            return mutant, True
        file = folder / f"mutant_{theorem.id}_{kernel.digest(changed)[:12]}.v"
        file.write_text(changed, "utf-8")
        try:
            kernel.run_coq(file)
        except kernel.CoqFailed:
            return mutant, False
        finally:
            for path in folder.glob(f"{file.stem}.*"):
                path.unlink(missing_ok=True)
        return mutant, True

    with kernel.workers(jobs) as pool:
        for mutant, accepted in pool.map(proves, chosen):
            if accepted:
                score.coq_true.append(str(mutant))
            else:
                score.coq_rejected += 1
