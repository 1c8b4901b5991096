"""What a property is: a law, the inputs on which it is tested, and a check that returns findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from verification.cases import CollectiveCase, OptimizerCase
from verification.compression_relation import collective_round
from verification.driver import Driver
from verification.finding import Finding
from verification.protocol import Traits
from verification.step_relation import StepRelation


def no_examples(traits: Traits) -> Sequence[Any]:
    """For properties whose drawn cases are enough."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property of implementations, at one level.

    Attributes:
        id: level and name, "collective.conservation".
        law: ids of the laws and conventions it checks (docs/algorithm.md).
        title: the law in one sentence.
        catches: the bugs it is there for.
        cases: strategy for inputs, given the traits of the class.
        check: findings on one input; none means that the law held.
        examples: inputs that are always tried first, for bugs too rare to be drawn.
        needs: optional methods without which the property is skipped.
        needs_reference: whether the check compares with our reference (most read the law off the run itself).
        cost: examples drawn are divided by it.
    """

    id: str
    law: str
    title: str
    catches: str
    cases: Callable[[Traits], SearchStrategy[Any]]
    check: Callable[[Driver, Any], Iterable[Finding]]
    examples: Callable[[Traits], Sequence[Any]] = no_examples
    needs: tuple[str, ...] = ()
    needs_reference: bool = False
    cost: float = 1.0

    @property
    def level(self) -> str:
        """The protocol that it needs: "collective" or "optimizer"."""
        return self.id.split(".")[0]


def collective_clauses(*clauses: str) -> Callable[[Driver, CollectiveCase], Iterable[Finding]]:
    """A check of these clauses of the compression round, on the calls of a case."""

    def check(driver: Driver, case: CollectiveCase) -> Iterable[Finding]:
        for inputs, outputs in driver.outputs(case):
            yield from collective_round(driver.traits, inputs, outputs, exact=case.exact).findings(clauses)

    return check


def step_clauses(*clauses: str) -> Callable[[Driver, OptimizerCase], Iterable[Finding]]:
    """A check of these clauses of the step relation, on every step of a run."""

    def check(driver: Driver, case: OptimizerCase) -> Iterable[Finding]:
        for move in driver.transitions(case):
            if move.grads_ND is not None:
                relation = StepRelation(
                    move.before, move.grads_ND, move.after, case.hyper, driver.traits, exact=case.exact
                )
                yield from relation.findings(clauses)

    return check
