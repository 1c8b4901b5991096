"""What a check reports: a finding about the implementation, or one sentence about an adapter that can't be driven."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from verification.protocol import Array
from verification.relation.advice import Hint

SPEAKS_OF_NONE = re.compile(r"\b(nan|inf)\b")
"""A message with a number that is none."""


@dataclass(frozen=True)
class Finding:
    """One place where a law does not hold.

    Attributes:
        law: id of the law or convention, such as "L1" or "C2".
        clause: the clause of the step relation, such as "worker_scale".
        message: what was found, with the numbers, in one line.
        claim: what must be true, as Python (``claims.py``); empty where that takes more than an expression.
        place: the operation or call, from 0, after which it was found; None: at the end of the run.
        event: for what is seen at the end alone: what makes the run end elsewhere (``runs.py``).
        hints: declarations with which nothing is found in this step.
    """

    law: str
    clause: str
    message: str
    claim: str = ""
    place: int | None = None
    event: str = ""
    hints: tuple[Hint, ...] = ()


def not_finite(arrays: Mapping[str, Array]) -> dict[str, str]:
    """The arrays that hold NaN or Inf, each with the first: {"momentum_D": "momentum_D[3] is nan"}."""
    found = {}
    for name, array in arrays.items():
        if not (finite := np.isfinite(array)).all():
            at = np.argwhere(~finite)[0]
            found[name] = f"{name}{at.tolist()} is {array[tuple(at)]}"
    return found


def explained(findings: Iterable[Finding], arrays: Mapping[str, Array], hints: tuple[Hint, ...]) -> Iterator[Finding]:
    """Findings with hints; where one speaks of NaN or Inf, it says which of ``arrays`` hold it, and claims none."""
    where = not_finite(arrays)
    for one in findings:
        message, claim = one.message, one.claim
        if where and SPEAKS_OF_NONE.search(message):
            message = f"{message}; {', '.join(where.values())}"
            claim = claim and " and ".join(f"np.isfinite({name}).all()" for name in where)
        yield replace(one, message=message, claim=claim, hints=hints)


class AdapterError(Exception):
    """The class can't be driven at all: a method is missing, a shape is wrong, it raises on a plain input."""


class Misbehaved(Exception):  # noqa: N818 - it is a verdict
    """The class raised, or returned a wrong type or shape: a finding, or an AdapterError at the start."""


class OutOfTime(Exception):  # noqa: N818 - it is a verdict
    """The time limit of the search is over."""


class Unsupported(Exception):  # noqa: N818 - it is a verdict
    """The class said NotImplementedError: this case does not concern it."""


class NotJudged(Exception):  # noqa: N818 - it is a verdict
    """A clause has nothing to say here: the step is of another stage, or what the clause starts from is broken."""


def judge(relation: object, clauses: Iterable[str], judged: set[str]) -> list[Finding]:
    """Findings of these clauses, methods of ``relation``; ``judged`` collects those that had something to say.

    A clause whose premise fails is left to that premise's clause.
    """
    found: list[Finding] = []
    with np.errstate(all="ignore"):  # a NaN in the output is a finding, not a warning
        for name in clauses:
            try:
                found += getattr(relation, name)()
            except NotJudged:
                continue
            judged.add(name)
    return found
