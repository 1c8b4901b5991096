"""Verdicts as plain data for ``onebit prove --json``, those of theorems too whose parts can't be evaluated."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.coq_statement import statement_of
from theory.digits import Rounded, beyond_float64, plain
from theory.domains import domain_text
from theory.evaluate import Input, inputs
from theory.text import text_of
from theory.theorem import Rank
from theory.verdict import Verdict
from theory.wording import filled, words_of


def as_dict(verdict: Verdict, value: tuple[Rounded, dict[str, Any]] | None) -> dict[str, Any]:
    """Plain data for ``--json``. A number is one there, the nearest that float64 has; beyond float64 a text."""
    theorem = verdict.theorem

    def had(make: Callable[[], Any]) -> Any:
        """A part of the row; None where the theorem does not hold and has no such part."""
        try:
            return make()
        except Exception:
            if verdict.holds:
                raise
            return None

    return {
        "id": theorem.id,
        "title": theorem.title,
        "statement": had(lambda: text_of(theorem.conclusion)),
        "words": had(lambda: words_of(theorem)),
        "good for": had(lambda: filled(theorem, theorem.good_for)),
        "hypotheses": {item.name: had(lambda item=item: text_of(item.formula)) for item in theorem.hypotheses},
        "implied": [item.id for item in theorem.implied],
        "inputs": had(lambda: [input_as_dict(item) for item in inputs(theorem)]),
        "proof": had(lambda: [line.why for line in theorem.chain()] if theorem.chain else []),
        "coq": had(lambda: statement_of(theorem) if theorem.rank is Rank.KERNEL else None),
        "rank": str(verdict.rank),
        "instance": {str(key): as_json(count) for key, count in theorem.instance.items()},
        "evidence": verdict.evidence,
        "axioms": list(verdict.axioms),
        "holds": verdict.holds,
        "faults": list(verdict.faults),
        "not checked": list(verdict.unchecked),
        "skipped": list(verdict.skipped),
        "source": theorem.source,
        "laws": list(theorem.laws),
        "seconds": round(verdict.seconds, 3),
        "bound": None if value is None else value[0].double,
        "evaluated at": None if value is None else {name: as_json(number) for name, number in value[1].items()},
    }


def input_as_dict(item: Input) -> dict[str, Any]:
    """An input of a bound: name, meaning, unit, domain, default."""
    row = item.row
    about = {"name": row.code, "meaning": row.meaning, "unit": row.unit, "domain": domain_text(row)}
    return {**about, "default": as_json(item.default)}


def as_json(value: Any) -> Any:
    """A number or nested lists of numbers as JSON has them; as text what is beyond float64, or is a function."""
    if value is None:
        return value
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return plain(value)
    if isinstance(value, (int, float, sp.Number, np.generic, Fraction)):
        exact = _exact(value)
        if beyond_float64(exact):
            return plain(exact)
        return int(exact) if exact.denominator == 1 else float(exact)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [as_json(item) for item in value]
    return repr(value)


def _exact(value: Any) -> Fraction:
    """What a number is: a float the one that it prints as, the others themselves, of however many digits."""
    if isinstance(value, np.integer):
        return Fraction(int(value))
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    return Fraction(int(value.p), int(value.q)) if isinstance(value, sp.Rational) else Fraction(str(value))
