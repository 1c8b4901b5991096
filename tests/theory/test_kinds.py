"""What an author may get wrong in the parts of a theorem: each wrong kind is one sentence that names the field."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from tests.theory.test_implied import GIVEN, LEMMA, USER
from tests.theory.theory_support import WHERE, theorem, u, x, y
from theory import kinds
from theory.evaluate import bound, exact_bound, inputs
from theory.formula import ForAll, Implies, le, lt
from theory.notation import N, Row, d, k
from theory.registry import all_theorems
from theory.theorem import Example, Hypothesis, Quoted, Theorem, Use
from theory.verdict import judge

LEMMAS = {"T98": LEMMA}
BY_ID = {item.id: item for item in all_theorems()}
[LINE] = USER.chain()
QUANTIFIED = ForAll(((k, d),), le(u[k], x))
ONES = {"x": 1.0, "y": 1.0, "u": [1.0]}


def lined(**change):
    return {"chain": lambda: (replace(LINE, **change),)}


def given(formula):
    return {"hypotheses": (replace(GIVEN, formula=formula),)}


def example(attained=2.0, **change):
    return {"example": lambda: Example("ones", attained, {**ONES, **change})}


WRONG = [
    ({"conclusion": QUANTIFIED}, "the conclusion is no relation: write it with eq, ne, le"),
    ({"conclusion": Implies((le(x, y),), le(y, x))}, "the conclusion is no relation: write it with eq, ne, le"),
    ({"conclusion": le(le(x, y), 1)}, "x <= y is a side of a relation in the conclusion, and no number"),
    ({"words": None}, "`words` must be a text that is not blank, not None"),
    ({"title": " "}, "`title` must be a text that is not blank, not ' '"),
    ({"id": None}, "`id` must be a text"),
    ({"implied": "T98"}, "`implied` must be a tuple (one part: with a comma behind it), each part a Theorem object"),
    ({"implied": [LEMMA]}, "`implied` must be a tuple"),
    ({"implied": LEMMA}, "each part a Theorem object, not a Theorem object"),
    ({"implied": ("T98",)}, "`implied[0]` must be a Theorem object, not 'T98'"),
    ({"implied": (replace(LEMMA, source=None),)}, "`implied[0].source` must be a text"),
    ({"needs": "T98"}, "`needs` must be a tuple"),
    ({"needs": (LEMMA,)}, "`needs[0]` must be a text that is not blank, not a Theorem object"),
    ({"laws": None}, "`laws` must be a tuple"),
    ({"where": list(WHERE)}, "`where` must be a tuple"),
    ({"hypotheses": GIVEN}, "`hypotheses` must be a tuple"),
    ({"hypotheses": (replace(GIVEN, words=None),)}, "`hypotheses[0].words` must be a text"),
    (given(ForAll(k, le(u[k], x))), "`hypotheses[0].formula.variables` must be a tuple"),
    (given(ForAll(((k, 1, 2),), le(u[k], x))), "`hypotheses[0].formula.variables[0]` must be a pair, not 3 things"),
    (given(ForAll(("k",), le(u[k], x))), "must be a symbol or an array or a pair, not 'k'"),
    (given(Implies([le(x, y)], le(x, y))), "`hypotheses[0].formula.given` must be a tuple"),
    ({"numbers": None}, "`numbers` must be a mapping"),
    ({"numbers": {"a": None}, "words": "{a}"}, "`numbers['a']` must be an expression or a number or a Quoted object"),
    ({"numbers": {"a": Quoted(7, by=" ")}, "words": "{a}"}, "`numbers['a'].by` must be a text that is not blank"),
    ({"numbers": {3: 2}}, "`a key of numbers` must be a text"),
    ({"domains": {x: (0, 1)}}, "`domains[x]` must be an Interval object"),
    ({"instance": {"n_workers": 2}}, "`a key of instance` must be a Symbol object"),
    ({"instance": {N: 2}}, "the instance gives a value for n_workers, of which it doesn't speak"),
    ({"folder": "here"}, "`folder` must be a Path object, not 'here'"),
    ({"chain": USER.chain()}, "`chain` must be a function to be called or None"),
    ({"chain": lambda: LINE}, "`chain()` must be a tuple"),
    ({"chain": lambda: 1 / 0}, "its chain() ends with ZeroDivisionError: division by zero"),
    (lined(to=None), "`chain()[0].to` must be an expression or a number, not None"),
    (lined(to="2*x*y + y"), "`chain()[0].to` must be an expression or a number"),
    (lined(to=True), "`chain()[0].to` must be an expression or a number, not True"),
    (lined(uses=Use("given")), "`chain()[0].uses` must be a tuple"),
    (lined(uses=(Use("given", le(x, y)),)), "`chain()[0].uses[0].times` must be an expression or a number"),
    (lined(slack=y), "`chain()[0].slack` must be a tuple"),
    (lined(why=""), "`chain()[0].why` must be a text that is not blank, not ''"),
    ({"numeric_checks": {"a": True}}, "`numeric_checks['a']` must be a function to be called, not True"),
    ({"numeric_checks": {"a": lambda: 1 / 0}}, "the check fails: a (it raises ZeroDivisionError: division by zero)"),
    ({"example": Example("ones", 2.0, ONES)}, "`example` must be a function to be called or None"),
    ({"example": lambda: 1.0}, "`example()` must be an Example object or None, not 1.0"),
    ({"example": lambda: None}, "it has hypotheses, and no example"),
    ({"example": lambda: Example("ones", 2.0, None)}, "`example().inputs` must be a mapping"),
    (example(attained=None), "`example().attained` must be a number, not None"),
    (example(x=None), "the example can't be evaluated: x = None: a value of type NoneType is no real number"),
    (example(x=[1.0]), "x is one number (a number), not 1 of them"),
    (example(u=None), "u = None: a value of type NoneType is no real number: give"),
    (example(u=[None]), "u = [None]: a value of type NoneType is no real number"),
    (example(u=1.0), "u = 1.0 is no array of numbers"),
    (
        {"example": lambda: 1 / 0},
        "the example can't be evaluated: example() ends with ZeroDivisionError: division by zero",
    ),
    ({"implied": (LEMMA, LEMMA)}, "`implied` names T98 twice: leave it there once"),
    ({"needs": ("T98", "T98")}, "`needs` names T98 twice: leave it there once"),
    ({"laws": ("L1", "L1")}, "`laws` names L1 twice: leave it there once"),
]


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[says for _, says in WRONG])
def test_what_is_wrong_is_a_sentence_that_names_the_field(change, says):
    verdict = judge(replace(USER, **change), LEMMAS, None)
    assert not verdict.unchecked
    assert says in verdict.faults[0], verdict.faults


def test_every_field_of_a_theorem_has_a_kind_that_is_looked_at():
    """None, where a field doesn't take it, is refused in every field, of which none is then left out."""
    told = {name: list(kinds.wrong(None, hint, name)) for name, hint in kinds.hints(Theorem).items()}
    assert {name for name, reasons in told.items() if not reasons} == {"chain", "example", "conclusion"}


def test_every_theorem_is_of_the_declared_kinds():
    for item in BY_ID.values():
        assert list(kinds.faults(item)) == []


@pytest.mark.parametrize(("symbol", "latex", "says"), [(x, None, "latex"), ("x", "x", "symbol"), (x, "x", "meaning")])
def test_a_row_of_a_wrong_kind_is_refused_where_it_is_written(symbol, latex, says):
    with pytest.raises(TypeError, match=rf"`Row\(x\).{says}` must be a "):
        Row(symbol, latex, "a number" if says != "meaning" else None)


def test_what_overflows_in_an_example_is_a_sentence(recwarn):
    """A warning would reach the terminal: here it is an error in any case, so both are looked at."""
    for run in (
        lambda: np.float64(1e308) * np.float64(10.0),
        lambda: np.float64(1.0) / np.float64(0.0),
        lambda: np.float64(np.inf) - np.float64(np.inf),
    ):
        verdict = judge(replace(USER, example=lambda run=run: Example("ones", run(), ONES)), LEMMAS, None)
        assert "encountered in" in verdict.faults[0], verdict
    assert not recwarn.list


@pytest.mark.parametrize("example", [lambda: 1.0, lambda: 1 / 0, lambda: Example("ones", 2.0, None)])
def test_a_bound_whose_example_is_none_is_refused_in_a_sentence(example):
    with pytest.raises(ValueError, match=r"example\(\)"):
        inputs(replace(USER, where=(Row(x, "x", "without a default"), *WHERE[1:]), example=example))


def test_defaults_that_overflow_are_those_of_the_example(recwarn):
    far = Row(y, "y", "a number", default=1e308)
    near = Row(x, "x", "a number", default=1e-308)
    small = Hypothesis("small", lt(y**2 / x, 8), "y is small")
    given = theorem(
        le(x, 2 * x + y), hypotheses=(small,), where=(near, far),
        example=lambda: Example("ones", 1.0, {"x": 1.0, "y": 1.0}),
    )  # fmt: skip
    assert {item.row.code: item.default for item in inputs(given)} == {"x": 1.0, "y": 1.0}
    assert not recwarn.list


def test_what_float64_does_not_reach_is_a_sentence(recwarn):
    moments = {"first_moment": 1e-300, "second_moment": 1e-300, "fourth_moment": 1e-300}
    with pytest.raises(
        ArithmeticError, match=r"T1c has no value in float64 at these numbers .*: exact_bound takes any"
    ):
        bound(BY_ID["T1c"], **moments)
    assert str(exact_bound(BY_ID["T1c"], **moments)) == "1.95312e+299"
    assert not recwarn.list


def test_what_is_implied_is_told_before_what_follows_from_it():
    """Both refuse: that strong convexity is above smoothness is the cause, and no step size would mend it."""
    for number in (bound, exact_bound):
        with pytest.raises(ValueError, match="they obey T6m"):
            number(BY_ID["T6e"], pl_constant=2, lr=10)
    least = Hypothesis("least", le(1 / (2 * y - x), 1), "twice y is above x by one")  # which is 1/0 at x = 2 y
    strict = replace(LEMMA, conclusion=lt(x, 2 * y))
    for number in (bound, exact_bound):
        with pytest.raises(ValueError, match="they obey T98"):
            number(replace(USER, hypotheses=(least, GIVEN), implied=(strict,)), x=2, y=1)
        with pytest.raises(ValueError, match="it needs that x is at most y"):
            number(replace(USER, hypotheses=(least, Hypothesis("other", le(x, y), "x is at most y"))), x=2, y=1)


@pytest.mark.parametrize("zeros", [700, 3000, 4900])
def test_a_number_far_below_one_is_evaluated(zeros):
    """1 - 10^-n needs more than 3 n bits, and is 1 in six digits; exact powers of it would take for ever."""
    for name in ("T6d", "T6e"):
        tiny, small = (
            exact_bound(BY_ID[name], pl_constant=Fraction(1, 10**n), n_steps=3000).digits for n in (zeros, 100)
        )
        assert tiny == small


@pytest.mark.parametrize(("name", "given"), [("T10d", {"n_blocks": 0.5}), ("T10e", {"block": 0.5})])
def test_a_count_takes_whole_numbers_only(name, given):
    [(code, _)] = given.items()
    with pytest.raises(ValueError, match=f"{code} = 0.5 is not a whole number"):
        exact_bound(BY_ID[name], **given)


WORDS_OF_COUNTS = ("number of", "steps", "workers", "blocks", "elements of", "coordinates", "counted")
"""Of what is counted; a mean of such numbers says so, or is one per, over or beside something."""


def test_what_is_counted_is_a_whole_number():
    rest = set()
    for item in BY_ID.values():
        for one in inputs(item):
            row = one.row
            counted = row.meaning.startswith(WORDS_OF_COUNTS) or row.code.startswith(("n_", "num"))
            if counted and isinstance(row.symbol, sp.Symbol) and not row.is_count:
                rest.add((item.id, row.code))
    assert rest == set()
