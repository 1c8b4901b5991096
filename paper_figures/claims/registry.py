"""All claims, found in ``paper_figures.claims.statements``, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from typing import Any

from paper_figures import contributions
from paper_figures.claims.claim import (
    ALPHA,
    Check,
    Claim,
    EvidenceError,
    Facts,
    Outcome,
    Verdict,
    decide,
    deciding,
    guarded,
)
from paper_figures.claims.statistics import holm


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every ``CLAIM`` of the modules in ``statements``, by number.

    Raises:
        ValueError: two claims have one id.
    """
    found: dict[str, Claim] = {}
    modules, _ = contributions.read("paper_figures.claims.statements", "CLAIM")
    for module in modules:
        claim = module.CLAIM
        if claim.id in found:
            raise ValueError(f"two claims have the id {claim.id}; rename the one in {module.__name__}")
        found[claim.id] = claim
    return tuple(sorted(found.values(), key=lambda claim: int(claim.id.removeprefix("P"))))


def shown_by(figure: str) -> list[Claim]:
    """The claims that a figure, by its name, shows: those that rest on it, and others."""
    return [claim for claim in all_claims() if figure in (*claim.figures, *claim.shown_in)]


def resting_on(figures: Iterable[str]) -> list[Claim]:
    """The claims that read the table of one of these figures, by their names."""
    names = set(figures)
    return [claim for claim in all_claims() if names & set(claim.figures)]


def claims_table(facts: Facts, claims: Iterable[Claim] | None = None) -> list[dict[str, Any]]:
    """Decide claims on ``facts``: a JSON-able record each, in the order of their ids.

    Every record has id, title, statement, where, published, source, conditions, pair, figures, theorems, laws,
    properties, verdict, why (one or two sentences), deciding (the number of the check that the verdict hangs on), and
    checks: a list of ``Check`` as dicts with ``role``, ``outcome``, ``holds`` and, where the check is statistical,
    ``adjusted_p``: by Holm's correction over those of the claim.
    """
    chosen = list(all_claims() if claims is None else claims)
    measured = [attempt(claim, facts) for claim in chosen]
    records = []
    for claim, checks in zip(chosen, measured, strict=True):
        if isinstance(checks, str):
            open_ = {"verdict": str(Verdict.NOT_DECIDED), "why": checks, "checks": [], "deciding": None}
            records.append({**about(claim), **open_})
            continue
        adjusted = corrected([check.p_value for check in checks])
        contrary = corrected([check.p_contrary for check in checks])
        outcomes = guarded(checks, list(map(outcome, checks, adjusted, contrary)))
        verdict, why = decide(checks, outcomes)
        rows = [
            {
                **asdict(check),
                "role": check.role,
                "adjusted_p": p_value,
                "outcome": str(found),
                "holds": found is Outcome.HOLDS,
            }
            for check, p_value, found in zip(checks, adjusted, outcomes, strict=True)
        ]
        decided = {"verdict": str(verdict), "why": why, "checks": rows, "deciding": deciding(checks, outcomes, verdict)}
        records.append({**about(claim), **decided})
    return records


def corrected(p_values: list[float | None]) -> list[float | None]:
    """Holm's correction of those that are there."""
    adjusted = iter(holm([p_value for p_value in p_values if p_value is not None]))
    return [None if p_value is None else next(adjusted) for p_value in p_values]


def outcome(check: Check, adjusted: float | None, contrary: float | None) -> Outcome:
    """What became of ``check`` by itself; a statistical one has both corrected p-values."""
    if adjusted is None or contrary is None:
        return Outcome.HOLDS if check.exact else Outcome.FAILS
    if adjusted <= ALPHA:
        return Outcome.HOLDS
    return Outcome.FAILS if contrary <= ALPHA else Outcome.NOT_DECIDED


def attempt(claim: Claim, facts: Facts) -> list[Check] | str:
    """The checks of ``claim``, or why there are none."""
    missing = [name for name in claim.needs if facts.get(name) is None]
    if missing:
        return f"Evidence is missing: {', '.join(missing)}."
    try:
        return claim.measure(facts)
    except EvidenceError as error:
        return f"The evidence can't decide: {error}."


def about(claim: Claim) -> dict[str, Any]:
    """The claim without its measurement, as JSON."""
    names = ("id", "title", "statement", "where", "published", "source", "conditions", "pair_column")
    lists = ("figures", "others", "theorems", "laws", "properties", "pair")
    return {name: getattr(claim, name) for name in names} | {
        name: list(getattr(claim, name)) if getattr(claim, name) is not None else None for name in lists
    }
