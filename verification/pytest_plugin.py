"""Run the properties in somebody else's pytest.

    from verification.pytest_plugin import parametrize_with_properties

    @parametrize_with_properties(MyOptimizer)
    def test_one_bit_adam(check_property):
        check_property()

One test a property. A failure shows the law, what was found, and a counterexample to paste.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from verification.driver import Driver
from verification.property import Property
from verification.registry import all_properties
from verification.runner import PROFILES, probe, run_property
from verification.snippet import snippet


def parametrize_with_properties(
    under_test: type, *, profile: str = "quick", seed: int = 0, expected_failures: Mapping[str, str] | None = None
) -> pytest.MarkDecorator:
    """A decorator for a test that takes ``check_property`` and calls it.

    Args:
        under_test: a class that implements ``verification.protocol``.
        profile: "quick", "ci" or "deep": how many cases.
        seed: other cases for every seed.
        expected_failures: property id -> reason; these must fail (strict xfail).

    Raises:
        ValueError: the class lacks a method, or a name is unknown.
        AdapterError: the class can't be driven with a plain input.
    """
    driver, expected = Driver(under_test), dict(expected_failures or {})
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    chosen = [prop for prop in all_properties() if prop.level in driver.levels]
    if unknown := sorted(set(expected) - {prop.id for prop in chosen}):
        raise ValueError(f"expected_failures names no property of {under_test.__name__}: {', '.join(unknown)}")
    probe(driver, chosen)
    examples, seconds = PROFILES[profile]
    run = partial(_check, driver, max_examples=examples, seed=seed, seconds=seconds / len(chosen))
    parameters = [
        pytest.param(
            partial(run, prop),
            id=prop.id,
            marks=[pytest.mark.xfail(reason=expected[prop.id], strict=True, raises=AssertionError)]
            if prop.id in expected
            else [],
        )
        for prop in chosen
    ]
    return pytest.mark.parametrize("check_property", parameters)


def _check(driver: Driver, prop: Property, **budget: Any) -> None:
    verdict = run_property(prop, driver, **budget)
    if verdict.outcome == "skipped":
        pytest.skip(verdict.note)
    if verdict.outcome == "fails" and verdict.case is not None:
        source = inspect.getsourcefile(driver.under_test) or "FILE.py"
        text = snippet(verdict.case, source, driver.name)
        raise AssertionError(f"{prop.law}: {prop.title}\n{verdict.findings[0].message}\n\n{text}")


CheckProperty = Callable[[], None]
"""The type of the argument ``check_property``."""
