"""On dyadic gradients a compression round does not round, and holds with zero tolerance, ties included."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from verification.cases import OptimizerCase
from verification.compression_relation import CLAUSES
from verification.dyadic import exact_run
from verification.finding import Unsupported
from verification.property import Property, step_clauses
from verification.protocol import Traits
from verification.strategies import allowed_workers


def _run_or_none(traits: Traits, n: int, seed: int) -> OptimizerCase | None:
    try:
        return exact_run(traits, n, seed)
    except Unsupported:
        return None


def cases(traits: Traits) -> st.SearchStrategy[Any]:
    """Exact runs, where the class allows them."""
    workers = st.sampled_from(allowed_workers(traits, (1, 2, 4)))
    runs = st.builds(lambda n, seed: _run_or_none(traits, n, seed), workers, st.integers(0, 2**32 - 1))
    return runs.filter(lambda run: run is not None)


PROPERTY = Property(
    id="optimizer.exact_dyadic",
    law="C1, C2, L1",
    title="On dyadic gradients a compression round does not round, and holds with zero tolerance, ties included.",
    catches="ties at the server decided the other way, and any inexact operation",
    cases=cases,
    check=step_clauses(*CLAUSES),
    cost=2,
)
