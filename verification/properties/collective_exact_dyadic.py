"""On dyadic inputs no operation rounds, so every clause of the round holds with zero tolerance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from verification.cases import CollectiveCase
from verification.compression_relation import CLAUSES
from verification.driver import Driver
from verification.dyadic import exact_round
from verification.finding import Finding, Unsupported
from verification.property import Property, collective_clauses
from verification.protocol import Traits
from verification.strategies import allowed_workers

EVERY_CLAUSE = collective_clauses(*CLAUSES)


def cases(traits: Traits) -> st.SearchStrategy[Any]:
    """Small exact rounds: a few hundred elements."""
    workers = allowed_workers(traits, (1, 4) if traits.scale != "l1" else (1, 2, 4))
    return st.builds(
        lambda n, chunk, seed: (n, chunk, seed),
        st.sampled_from(workers),
        st.sampled_from((16, 64)),
        st.integers(0, 2**32 - 1),
    )


def large(traits: Traits) -> Sequence[Any]:
    """More than 10^4 elements in one round."""
    return [(1, 4**7, 1), *([(4, 4**6, 2)] if 4 in allowed_workers(traits, (4,)) else [])]


def check(driver: Driver, drawn: Any) -> Iterable[Finding]:
    """Every clause, exactly; ``drawn`` is (N, chunk length, seed), or a case."""
    case = drawn if isinstance(drawn, CollectiveCase) else exact_round(driver.traits, *drawn)
    return EVERY_CLAUSE(driver, case)


def exact_cases(traits: Traits) -> st.SearchStrategy[Any]:
    """Cases, where the class allows them."""
    return cases(traits).map(lambda drawn: _case_or_none(traits, drawn)).filter(lambda case: case is not None)


def _case_or_none(traits: Traits, drawn: Any) -> CollectiveCase | None:
    try:
        return exact_round(traits, *drawn)
    except Unsupported:
        return None


PROPERTY = Property(
    id="collective.exact_dyadic",
    law="C1, C2, L1",
    title="On dyadic inputs no operation rounds, so every clause of the round holds with zero tolerance.",
    catches="ties at the server decided the other way; one element in 10^4 left out of a scale; coarse rounding",
    cases=exact_cases,
    check=check,
    examples=lambda traits: [case for drawn in large(traits) if (case := _case_or_none(traits, drawn))],
    cost=2,
)
