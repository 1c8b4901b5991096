"""Cases as Hypothesis strategies, for property-based tests in one's own suite; ``onebit verify`` needs none of it.

    @given(cases(MyOptimizer))
    def test_the_laws(case):
        assert findings(MyOptimizer, case) == []

Hypothesis draws a level of every feature (workers, size, hyper-parameters, checkpoints, ...), each number of a level
that is a range, and a seed for the arrays. It shrinks a failing case towards the first level of each feature, and the
numbers with it: one worker, one element, no checkpoint.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from verification.protocol import Traits
from verification.search.cases import Case
from verification.search.collective_space import collective_case, collective_space
from verification.search.covering import Row, Space
from verification.search.driver import Driver
from verification.search.optimizer_cases import optimizer_case
from verification.search.optimizer_space import Range, allowed_workers, optimizer_space
from verification.search.runs import findings

__all__ = ["cases", "findings"]

SEEDS = st.integers(0, 2**32 - 1)

COUNTS = ("workers", "size", "calls", "freeze", "compressed")
"""Features whose levels are ranges of numbers."""


FIRST = ("calls", "sizes")
"""Features that are drawn before the others: so Hypothesis prefers one call on two elements to two calls on one."""


def counts(name: str, level: Range, traits: Traits) -> st.SearchStrategy[int]:
    """The numbers of one level that the class takes."""
    taken = {"workers": allowed_workers(traits), "size": traits.sizes}.get(name)
    return st.integers(*level) if taken is None else st.sampled_from([n for n in taken if level[0] <= n <= level[1]])


@st.composite
def rows(draw: st.DrawFn, space: Space, traits: Traits) -> Row:
    """A level of each feature, no two of which are left out; of a range one number, so that the seed decides none."""
    row: dict[str, Any] = {}
    for name in sorted(space.features, key=lambda name: name not in FIRST):
        allowed = [
            level
            for level in space.features[name]
            if not any(space.exclusion({other: chosen, name: level}) for other, chosen in row.items())
        ]
        row[name] = draw(st.sampled_from(allowed) if allowed else st.nothing())
    return {**row, **{name: (draw(counts(name, row[name], traits)),) * 2 for name in COUNTS if name in row}}


def cases(
    under_test: type, level: Literal["collective", "optimizer"] | None = None, *, largest: int = 256
) -> st.SearchStrategy[Case]:
    """Cases for a class of ``protocol.py``.

    Args:
        under_test: the class.
        level: of which level; None is the optimizer's, where it has one.
        largest: the largest D.

    Raises:
        AdapterError: the class can't be driven.
    """
    driver = Driver(under_test)
    of_collective = level == "collective" or (level is None and "optimizer" not in driver.levels)
    if of_collective:
        space, make = collective_space(driver.traits), collective_case
    else:
        space, make = optimizer_space(driver.traits, can_save=driver.can_save), optimizer_case
    sizes = tuple(size for size in space.features["size"] if size[1] <= largest) or space.features["size"][:1]
    space = Space({**space.features, "size": sizes}, space.rules)
    return st.builds(
        lambda row, seed: make(row, driver.traits, np.random.default_rng(seed)),  # pyright: ignore[reportUnknownLambdaType]
        rows(space, driver.traits),
        SEEDS,
    )
