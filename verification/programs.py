"""Runs with checkpoints in them: every operation of a program checked by the relation it must obey."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from verification.cases import OptimizerCase
from verification.driver import Driver
from verification.finding import Finding
from verification.resume_relation import resized, same_state
from verification.step_relation import CLAUSES, StepRelation


def check_program(driver: Driver, case: OptimizerCase, clauses: Collection[str] = CLAUSES) -> Iterable[Finding]:
    """Steps by the step relation, "reload" by equality, "resize" by conservation."""
    for move in driver.transitions(case):
        if move.grads_ND is not None:
            relation = StepRelation(move.before, move.grads_ND, move.after, case.hyper, driver.traits, exact=case.exact)
            yield from relation.findings(clauses)
        elif move.operation == "reload":
            yield from same_state(move.before, move.after, "reloaded")
        else:
            yield from resized(move.before, move.after, driver.traits)
