"""Run the clauses in somebody else's pytest.

    from verification.pytest_plugin import parametrize_with_properties

    @parametrize_with_properties(MyOptimizer)
    def test_one_bit_adam(check_property):
        check_property()

One test a clause; the search runs once, in the first of them. A failure shows the law, what was found, and a
counterexample to paste; a clause that was not checked fails too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import pytest

from verification.search.clauses import clauses_of
from verification.search.driver import Driver
from verification.search.plan import PROFILES, Profile
from verification.search.search import probe, search
from verification.search.verdicts import Result


def parametrize_with_properties(
    under_test: type,
    *,
    profile: str | Profile = "quick",
    seed: int = 0,
    expected_failures: Mapping[str, str] | None = None,
    minutes: float | None = None,
) -> pytest.MarkDecorator:
    """A decorator for a test that takes ``check_property`` and calls it.

    Args:
        under_test: a class that implements ``verification.protocol``.
        profile: "quick", "ci" or "deep", or one of your own: how many cases.
        seed: other cases for every seed.
        expected_failures: clause id -> reason; these must fail (strict xfail).
        minutes: when the search is cut off; None is the profile's.

    Raises:
        ValueError: the class lacks a method, or a name is unknown.
        AdapterError: the class can't be driven with a plain input.
    """
    driver, expected = Driver(under_test), dict(expected_failures or {})
    if isinstance(profile, str) and profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    clauses, left_out = clauses_of(driver)
    names = [clause.id for clause in clauses]
    if unknown := sorted(set(expected) - set(names)):
        why = {name: f" ({reason})" for reason, without in left_out.items() for name in without}
        told = ", ".join(name + why.get(name.partition(".")[2], "") for name in unknown)
        raise ValueError(f"expected_failures names no clause of {under_test.__name__}: {told}")
    probe(driver)
    result = cache(partial(search, driver, profile=profile, seed=seed, minutes=minutes))
    marks = {name: pytest.mark.xfail(reason=why, strict=True, raises=AssertionError) for name, why in expected.items()}
    parameters = [
        pytest.param(partial(_check, driver, result, name), id=name, marks=marks.get(name, ())) for name in names
    ]
    return pytest.mark.parametrize("check_property", parameters)


def _check(driver: Driver, result: Callable[[], Result], name: str) -> None:
    verdict = next(verdict for verdict in result().verdicts if verdict.clause.id == name)
    if verdict.outcome == "not checked":
        raise AssertionError(f"{verdict.clause.law}: not checked: {verdict.note}\n" + "\n".join(result().notes))
    if verdict.case is not None:
        message = verdict.findings[0].message
        raise AssertionError(f"{verdict.clause.law}: {verdict.clause.title}\n{message}\n\n{verdict.program}")


CheckProperty = Callable[[], None]
"""The type of the argument ``check_property``."""
