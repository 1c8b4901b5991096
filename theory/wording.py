"""Numbers that sentences quote: each is a part of the statement, or computed from a part, or says what it is from.

A title, words and what a theorem is good for contain no digits of their own: ``{name}`` stands for an entry of
``numbers``. A numeral in letters ("half", "fourth") must be a number of the statement too, so that neither goes on
saying what the statement once said. Which of its numbers a sentence quotes is for its author to see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import sympy as sp

from theory.formula import ForAll, Formula, Implies, relations
from theory.theorem import Quoted, Theorem

PLACE = re.compile(r"{(\w+)}")
NAMES_WITH_DIGITS = re.compile(
    r"\b[TLCP]\d+[a-z]?\b|beta[12]|\b[lL][124]\b|β[12]|\b\d-bit|\b0/1 Adam|\bTable \d+|\b(?:binary|float)\d+|\bd{2,}\b"
)
"""Digits that are names, not numbers: ids, beta1, the l2 scale, 1-bit, 0/1 Adam."""
LETTERS: dict[str, Any] = {
    "twice": 2, "double": 2, "thrice": 3, "half": sp.Rational(1, 2), "halves": sp.Rational(1, 2),
    "third": sp.Rational(1, 3), "quarter": sp.Rational(1, 4), "tenth": sp.Rational(1, 10), "cube": 3, "fourth": 4,
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "sixteen": 16, "twenty": 20, "hundred": 100, "thousand": 1000, "million": 10**6,
}  # fmt: skip
NUMERAL = re.compile(rf"\b({'|'.join(LETTERS)})\b(?!-)", re.IGNORECASE)


def value_of(number: Any) -> sp.Expr:
    """What a number of the words comes to."""
    if not isinstance(number, Quoted):
        return sp.sympify(number)
    return sp.sympify(number.part).subs(dict(number.at), simultaneous=True)


def texts(theorem: Theorem) -> dict[str, str]:
    """The sentences whose numbers are computed."""
    return {"title": theorem.title, "words": theorem.words, "good_for": theorem.good_for}


def faults(theorem: Theorem) -> Iterator[str]:
    """Numbers in the sentences of a theorem that nothing computes, and entries of ``numbers`` that are none."""
    known = {abs(part) for part in parts(theorem) if isinstance(part, sp.Rational)}
    known |= {abs(cast(sp.Expr, end)) for row in theorem.variables if row.domain for end in row.domain.args[:2]}
    for number in theorem.numbers.values():
        if isinstance(number, Quoted):
            known |= {abs(sp.sympify(value)) for value in number.at.values()}
    known |= {1 / number for number in known if number.is_Rational and number}
    for name, text in texts(theorem).items():
        bare = NAMES_WITH_DIGITS.sub("", PLACE.sub("", text))
        if digits := re.search(r"\S*\d\S*", bare):
            yield f"{name}: a number that is not computed: {digits[0]!r}"
        for word in NUMERAL.findall(bare):
            if LETTERS[word.lower()] not in known:
                yield f"{name}: {word!r} is no number of the statement"
    if odd := set(PLACE.findall(" ".join(texts(theorem).values()))) ^ set(theorem.numbers):
        yield f"the sentences and `numbers` don't name the same: {', '.join(sorted(odd))}"
    for name, number in theorem.numbers.items():
        quoted = number if isinstance(number, Quoted) else Quoted(number)
        if not quoted.by and not is_part(sp.sympify(quoted.part), theorem):
            yield f"the number {name}, {quoted.part}, is no part of the statement: `Quoted(..., by=)` says whose it is"


def is_part(expression: sp.Expr, theorem: Theorem) -> bool:
    """Whether a statement has an expression, or it is some factors of a product or some terms of a sum there."""
    if expression in parts(theorem):
        return True
    wholes = (whole for whole in parts(theorem) if isinstance(whole, expression.func))
    return isinstance(expression, (sp.Add, sp.Mul)) and any(set(expression.args) <= set(one.args) for one in wholes)


def parts(theorem: Theorem) -> frozenset[Any]:
    """Every expression in the statement: what sides, limits of quantifiers and narrowed domains consist of."""
    ends = (end for interval in theorem.domains.values() for end in interval.args[:2])
    return frozenset(ends).union(*map(_parts, theorem.formulas))


@cache
def _parts(formula: Formula) -> frozenset[Any]:
    if isinstance(formula, Implies):
        return frozenset().union(*map(_parts, (*formula.given, formula.body)))
    if isinstance(formula, ForAll):
        limits = (part for _, limit in formula.bound() if limit is not None for part in sp.preorder_traversal(limit))
        return _parts(formula.body).union(limits)
    return frozenset(part for one in relations(formula) for part in sp.preorder_traversal(one))
