"""Hypotheses that nobody can meet: no example hides that, neither by rounding nor by what can't be evaluated."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
import sympy as sp

from tests.theory.theory_support import SQUARE, theorem, u, x, y, z
from theory import evaluate, limit, verdict
from theory.chain import faults
from theory.formula import ForAll, Implies, array, eq, le, lt, ne, total
from theory.json_rows import input_as_dict
from theory.notation import N, Row, beta1, k, t
from theory.registry import all_theorems
from theory.theorem import Example, Hypothesis, Line, Theorem, Use, run_example
from theory.verdict import judge
from theory.witness import contradictions

w = sp.Symbol("w", real=True)
v = array("v")
f = sp.Function("f", real=True)
WHERE = (Row(f, "f", "a function", coq="R -> R"),)


def assuming(*formulas, **inputs) -> list[str]:
    """What is found wrong with an example of a theorem with these hypotheses."""
    made = theorem(
        eq(0, 0),
        hypotheses=tuple(Hypothesis(f"h{n}", formula, "assumed") for n, formula in enumerate(formulas)),
        where=(*theorem(eq(x, y)).where, *WHERE, Row(v, "v", "numbers", "(n,)")),
    )
    return contradictions(made, inputs)


@pytest.mark.parametrize(
    ("formulas", "inputs"),
    [
        ((le(sp.exp(-x), 0),), {"x": 1e4}),  # 0.0 in float64
        ((le(sp.exp(-sp.exp(x)), 0),), {"x": 30.0}),
        ((le(x**200, 0),), {"x": 1e-3}),
        ((le(2 * sp.exp(x), sp.exp(x)),), {"x": 1e5}),  # inf <= inf
        ((le(sp.exp(sp.exp(sp.exp(x))), 0),), {"x": 1e4}),  # beyond what can be computed
        ((le(y / (x - 1), 0),), {"x": 1.0, "y": 1.0}),  # 1/0
        ((le(sp.log(x - 1), 0),), {"x": 1.0}),
        ((le(sp.sqrt(x - 2), 1),), {"x": 1.0}),
        ((le(x, x * (1 - sp.Rational(1, 10**15))),), {"x": 1.0}),  # within rounding, and no rounding is needed
        ((eq(x + sp.Rational(1, 10**15), x),), {"x": 1.0}),
        ((eq(x * (1 + sp.Rational(1, 10**15)), x),), {"x": 1.0}),
        ((ForAll(((k, N),), le(u[k], u[k] - sp.Rational(1, 10**15))),), {"u": [1.0, 1.0], "n_workers": 2}),
        ((eq(x, y), lt(1, 10**20 * (x - y))), {"x": 1.0 + 2.0**-50, "y": 1.0}),
        ((eq(x, y), lt(1, 10**20 * (x - y))), {"x": 1 + Fraction(1, 10**14), "y": Fraction(1)}),
        ((eq(x, y), le(1, 2**50 * (x - y))), {"x": 1.0 + 2.0**-50, "y": 1.0}),
        ((lt(x, y), lt(y, x)), {"x": 1.0, "y": 1.0}),
        ((eq(x, y), lt(x, y)), {"x": 1.0, "y": 1.0 + 2.0**-52}),
        ((eq(x, y), lt(x, y)), {"x": 1.0, "y": 1.0 + 2.0**-42}),
        ((ne(x, x + 0 * y),), {"x": 1.0, "y": 1.0}),
        ((ForAll((w,), le(w, x)),), {"x": 3e9}),
        ((ForAll((w,), le(w**2, x)),), {"x": 1e11}),
        ((ForAll((w,), le(w, 10**9)),), {}),
        ((ForAll((w,), le(w**2, 10**40)),), {}),
        ((ForAll((w,), le(-(10**30), w)),), {}),
        ((ForAll((w,), le(sp.log(1 + w**2), x)),), {"x": 5e4}),
        ((ForAll((w,), lt(x, sp.exp(w))),), {"x": 1e-9}),
        ((ForAll((w,), le(sp.Abs(f(w)), x)),), {"x": 1e5, "f": lambda z: z}),
        ((ForAll((v,), le(v[0], x)),), {"x": 1e7}),
        ((ForAll((v,), Implies((ForAll(((k, N),), eq(v[k], u[k])),), le(3, v[0]))),),
         {"u": [2.0, 2.0], "n_workers": 2}),  # one v alone is spoken of
        ((ForAll(((k, N),), le(1, u[k])),), {"u": [], "n_workers": 3}),
        ((ForAll(((k, N),), le(1, u[k])),), {"u": [1.0, 1.0], "n_workers": 3}),
        ((ForAll((t,), le(1, u[t])),), {"u": []}),
        ((le(1, u[5]),), {"u": [1.0, 1.0]}),
        ((le(1, u[N - 3]),), {"u": [0.0, 0.0, 5.0], "n_workers": 2}),  # u[-1]
        ((le(1, u[0]),), {"u": [float("nan")]}),
        ((le(f(sp.exp(-x)), 0),), {"x": 1e4, "f": lambda z: z}),  # its argument is no float
        ((ForAll(((k, N),), le(total(u[t] ** 2, t, N), -u[k] ** 2)),), {"u": [1e-200, 1e-170], "n_workers": 2}),
        ((lt(x / 10 - y / 10, y / 10 - x / 10),), {"x": 3.0, "y": 3.0}),  # equal, and in no interval
        ((ne(x / 10, y / 10),), {"x": 3.0, "y": 3.0}),
        ((le(z + (x - y) / 10, x * (1 - sp.Rational(1, 10**20000))),), {"x": 3.0, "y": 3.0, "z": 3.0}),
        ((le(1 / (x / 10 - y / 10), 1 / (x / 10 - y / 10)),), {"x": 3.0, "y": 3.0}),  # 1/0
        ((le(sp.Rational(3, 10), x),), {"x": 0.3}),  # a float is the number that it is
        # Together they contradict each other by less than float64 can tell.
        ((eq(x, y), le(x, 1), le(1 + sp.Rational(1, 10**13), y)), {"x": 1.0, "y": 1.0 + 10**-13}),
        ((eq(x, y), le(x, 1), le(1 + sp.Rational(1, 10**300), y)), {"x": 1, "y": 1 + Fraction(1, 10**300)}),
        ((eq(u[0], v[0]), le(u[0], 1), le(1 + sp.Rational(1, 10**13), v[0])), {"u": [1.0], "v": [1.0 + 10**-13]}),
        ((ForAll(((k, N),), eq(u[k + 1], u[k])), le(1, 2**40 * (u[2] - u[0]))),
         {"u": [1.0, 1.0 + 2.0**-41, 1.0 + 2.0**-40], "n_workers": 2}),
        ((ForAll((k,), eq(u[k + 1], u[k])), lt(u[0], u[1])), {"u": lambda n: 1.0 + n * 2.0**-52}),
        ((eq(f(x), f(y)), lt(f(x), f(y))), {"x": 1.0, "y": 1.0 + 2.0**-52, "f": lambda z: z}),
        # A run that is rounded is none that obeys the equations.
        ((ForAll(((k, N),), eq(u[k + 1], u[k] / 3 + sp.Rational(1, 10))),),
         {"u": [0.1, 0.1 / 3 + 0.1, (0.1 / 3 + 0.1) / 3 + 0.1], "n_workers": 2}),
        ((eq(total(u[k], k, N), 0),), {"u": [0.1, 0.2, -0.1 - 0.2], "n_workers": 3}),
        ((eq(u[0] + u[1], u[2]),), {"u": [0.1, 0.2, 0.3]}),
        ((eq(x, sp.sqrt(2)),), {"x": 2**0.5}),
        ((lt(sp.sqrt(2), x),), {"x": sp.sqrt(2)}),
        ((ne(x, sp.sqrt(2)),), {"x": sp.sqrt(2)}),
        ((le(sp.sqrt(x) * sp.sqrt(y), -1),), {"x": -1.0, "y": -1.0}),  # no root of a negative number
        ((le(f(sp.sqrt(x)), 2),), {"x": 2.0, "f": lambda z: z}),  # f takes floats
    ],
)  # fmt: skip
def test_what_can_not_be_met_or_not_be_evaluated_is_not_met(formulas, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assuming(*formulas, **inputs)


@pytest.mark.parametrize(
    ("formulas", "inputs"),
    [
        ((lt(0, sp.exp(-x)),), {"x": 1e4}),
        ((le(y, x ** sp.exp(x)),), {"x": 1e3, "y": 1e13}),
        ((ForAll((w,), le(-(w**2), x)),), {"x": 1.0}),
        ((ForAll((w,), le(f(w), x)),), {"x": 1.0, "f": np.tanh}),
        ((ForAll(((k, N),), eq(u[k + 1], u[k] / 3 + sp.Rational(1, 10))),),
         {"u": [Fraction(1, 10), Fraction(2, 15), Fraction(13, 90)], "n_workers": 2}),
        ((eq(total(u[k], k, N), 0),), {"u": [0.25, 0.5, -0.75], "n_workers": 3}),
        ((eq(u[0] + u[1], u[2]),), {"u": [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10)]}),
        ((eq(x, sp.sqrt(y)),), {"x": Fraction(3, 2), "y": Fraction(9, 4)}),
        ((eq(x, sp.sqrt(2 / sp.pi)),), {"x": sp.sqrt(2 / sp.pi)}),
        ((eq(x, y * z),), {"x": sp.sqrt(2) / 3, "y": sp.sqrt(2), "z": sp.Rational(1, 3)}),
        ((le(sp.sqrt(x * y / 8), z),), {"x": 3.0, "y": 6.0, "z": 1.5}),  # SymPy makes three roots of it
        ((ForAll(((k, N),), le(f(u[k]), 2)),), {"u": [1.0, 2.0], "n_workers": 2, "f": lambda z: z}),
        ((ForAll((v,), Implies((ForAll(((k, N),), eq(v[k], u[k])),), le(v[0], 2))),),
         {"u": [2.0, 2.0], "n_workers": 2}),
        ((ForAll(((k, N - 1),), le(2, u[k])),), {"u": [1.0], "n_workers": 1}),  # no k is below 0
        ((ForAll((t,), le(1, u[t])),), {"u": lambda n: 1.0 + n}),
        ((le(z + (x - y) / 10, x),), {"x": 3.0, "y": 3.0, "z": 3.0}),  # equal, and in no interval
        ((le(z + (x - y) / 10, x),), {"x": 0.1, "y": 0.1, "z": 0.1}),
        ((eq(x / 10 - y / 10, 0), le(x / 10 - y / 10, 0)), {"x": 3.0, "y": 3.0}),
        ((le(x + y, z),), {"x": Fraction(1, 10), "y": Fraction(1, 5), "z": Fraction(3, 10)}),
        ((le(x + y, z),), {"x": sp.Rational(1, 10), "y": sp.Rational(1, 5), "z": sp.Rational(3, 10)}),
    ],
)  # fmt: skip
def test_what_is_met_is_met(formulas, inputs):
    assert assuming(*formulas, **inputs) == []


@pytest.mark.parametrize("formula", [le(z + (x - y) / 10, x), le(x / 10 - y / 10, 0), eq(x / 10 - y / 10, 0)])
def test_an_example_may_meet_a_hypothesis_with_equality(formula):
    more = formula.rhs + x + y + z
    line = Line("<=", more, "as given", (Use("met"),), slack=(x, y, z))
    met = Hypothesis("met", formula, "it is met")
    example = Example("equal", float(formula.lhs.subs({x: 3, y: 3, z: 3})), {"x": 3.0, "y": 3.0, "z": 3.0})
    made = theorem(le(formula.lhs, more), [line], hypotheses=(met,), example=lambda: example)
    assert judge(made, {}, None).faults == ()


def test_an_example_may_attain_a_bound_exactly():
    gap = (x - y) / 10
    line = Line("<=", gap, "a square", slack=((x - y) ** 2,))
    equal = theorem(le(gap - (x - y) ** 2, gap), [line], example=lambda: Example("0", 0.0, {"x": 3.0, "y": 3.0}))
    assert judge(equal, {}, None).faults == ()
    above = replace(equal, example=lambda: Example("0", 1e-30, {"x": 3.0, "y": 3.0}))
    assert judge(above, {}, None).faults == ("the example attains 1e-30, against 0",)


def given(*formulas, **inputs) -> list[str]:
    """What is found wrong with an example that a theorem with these hypotheses gives itself."""
    made = theorem(
        eq(0, 0),
        hypotheses=tuple(Hypothesis(f"h{n}", formula, "assumed") for n, formula in enumerate(formulas)),
        where=(*theorem(eq(x, y)).where, *WHERE),
        example=lambda: Example("given", 0.0, inputs),
    )
    try:
        example = run_example(made)
        return contradictions(made, example.inputs) if example else ["none"]
    except ValueError as reason:
        return [str(reason)]


class Turns(list):
    """A list whose numbers change."""

    seen = 0

    def __getitem__(self, place):
        self.seen += 1
        return self.seen % 2


class Ratio(float):
    """A float that says it is another number."""

    def as_integer_ratio(self):
        return (0, 1)


def test_an_example_is_one_thing_for_all_hypotheses():
    draws, rng, shared = count(1), np.random.default_rng(0), [1]
    both = (le(1, u[0]), le(3 * u[0], 0))
    assert given(*both, u=lambda k: next(draws) % 2)
    assert given(*both, u=Turns([1]))
    assert given(*both, u=[Turns([1])])
    assert given(le(sp.Rational(1, 2), u[0]), le(3 * u[0], sp.Rational(6, 5)), u=lambda k: rng.random())
    assert given(le(1, f(x)), le(f(x), 0), x=1.0, f=lambda z: next(draws) % 2)
    assert given(le(1, f(x)), le(f(y), 0), x=1.0, y=1, f=lambda z: next(draws) % 2)
    assert given(le(1, x), le(3 * x, 0), x=Ratio(1.0))

    def empties(z):
        shared[0] = 0
        return 0.0

    assert given(le(1, u[0]), le(3 * u[0] + f(x) ** 2, 1), x=1.0, u=shared, f=empties)
    assert given(le(1, u[0]), le(f(u[0]), 1), u=lambda k: 1 + k, f=lambda z: z) == []


@pytest.mark.parametrize("value", [np.longdouble(1), Decimal(1), None, "1", Ratio(1.0), [1.0, None], 1j, object])
def test_what_is_no_plain_number_is_refused_in_a_sentence(value):
    (said,) = given(le(x, x), x=value)
    assert any(part in said for part in ("no real number", "no function"))


@pytest.mark.parametrize("number", [sp.GoldenRatio, sp.cos(1)])
def test_what_can_not_be_computed_is_named(number):
    (said,) = given(le(x, x), x=number)
    assert said.endswith("is no number that can be computed here")


@pytest.mark.parametrize(
    ("formula", "inputs"),
    [
        (eq(y**2, z), {"y": sp.sqrt(2), "z": 2}),
        (eq(x * (sp.sqrt(y) + z), 1), {"x": 1 / (sp.sqrt(2) + 1), "y": 2, "z": 1}),
        (eq((1 + sp.sqrt(x)) ** 2, 1 + 2 * sp.sqrt(x) + x), {"x": 2}),
        (eq(sp.log(x**2), 2 * sp.log(x)), {"x": 2}),
        (eq(sp.exp(x) * sp.exp(y) * z, sp.exp(x + y) * z), {"x": 1, "y": 2, "z": Fraction(1, 3)}),
        (lt(x, sp.E), {"x": 2.0}),
        *((le(2 * x * y, x**2 + y**2), {"x": n, "y": n}) for n in (10**400, sp.Integer(10) ** 400, sp.Float("1e400"))),
        (le(2 * u[0] * u[1], u[0] ** 2 + u[1] ** 2), {"u": [10**400, 10**400]}),
        (lt(u[0] * u[1], 3), {"u": [sp.sqrt(2), sp.sqrt(2)]}),
        (lt(u[0] * u[1], 3), {"u": lambda k: sp.sqrt(2)}),
        (le(x, y), {"x": np.float32(1), "y": np.int8(1)}),
    ],
)
def test_numbers_of_all_kinds_and_sizes_are_taken(formula, inputs):
    assert given(formula, **inputs) == []


def test_an_equation_that_a_float_misses_says_why():
    (said,) = given(eq(x, 3 * y), x=0.3, y=0.1)
    assert "nothing is rounded" in said
    (said,) = given(ForAll(((k, 10**12),), le(0, u[k])), u=lambda n: 1.0)
    assert "more than 1,000,000 places" in said


def test_an_example_that_is_above_the_bound_by_what_underflows_is_seen():
    for size, value in ((1e5, "3.56295e-43430"), (703.0, "4.90884e-306")):
        made = theorem(le(z, sp.exp(-y)), example=lambda y=size: Example("more", 1e-305, {"z": 1e-306, "y": y}))
        faulty = judge(made, {}, None).faults
        assert (f"the example attains 1e-305, against {value}" in faulty) != (
            "the conclusion is false on the example" in faulty
        )


def endless() -> Theorem:
    """SymPy looks for the sign of the slack with ever more digits of both."""
    slack = sp.exp(-1000) - sp.exp(-1000 + sp.Rational(1, 10**50))
    return theorem(le(x, x + slack), [Line("<=", x + slack, "too near", slack=(slack,))], id="T98")


def test_a_proof_that_does_not_end_is_not_checked(monkeypatch):
    monkeypatch.setattr(verdict, "SECONDS", 0.5)
    judged = judge(endless(), {}, None)
    assert not judged.holds
    assert judged.faults or "it took longer than 0.5 s of a processor" in judged.unchecked[0]
    assert judge(SQUARE, {}, None).holds


def test_an_input_of_which_no_theorem_of_its_number_speaks_is_refused():
    given = replace(SQUARE, id="T99a", example=lambda: Example("ones", 2.0, {"x": 1.0, "y": 1.0, "z": 1.0}))
    other = theorem(le(z, z + x), id="T99b")
    stranger = replace(other, id="T98")
    said = "the example gives z, of which no theorem of T99 speaks: leave it out"
    assert judge(given, {"T99a": given, "T98": stranger}, None).faults == (said,)
    assert judge(given, {"T99a": given, "T99b": other}, None).holds


def test_time_is_up_even_for_who_goes_on_after_an_error():
    def stubborn() -> None:
        caught = 0
        while caught < 2:
            try:
                sum(range(10**5))
            except BaseException:
                caught += 1
                if caught == 2:
                    raise

    with pytest.raises(limit.TookTooLong), limit.processor_time(0.05):
        stubborn()
    sum(range(10**6))  # nothing is left of it


@pytest.mark.parametrize(
    ("domains", "says"),
    [
        ({beta1: sp.Interval(0, 1)}, "is no part of its usual one"),
        ({beta1: sp.Interval.open(0, 2)}, "is no part of its usual one"),
        ({sp.Symbol("z", positive=True): sp.Interval(1, 2)}, "of which it doesn't speak"),
    ],
)
def test_a_domain_is_narrower_than_the_usual_one(domains, says):
    wide = theorem(le(beta1 * x, x), domains=domains)
    assert any(says in fault for fault in faults(wide))


def test_a_hypothesis_about_all_numbers_is_used_and_not_met():
    """`for all w: w <= x` proves anything, and no x is so large."""
    every = Hypothesis("every", ForAll((w,), le(w, x)), "every number is at most x")
    made = theorem(
        le(y, x),
        [Line("<=", x, "put y", (Use("every", 1, {w: y}),))],
        hypotheses=(every,),
        example=lambda: Example("large", 1.0, {"x": 1e11, "y": 1.0}),
    )
    assert faults(made) == ()
    assert any("'every'" in fault for fault in judge(made, {}, None).faults)


@pytest.mark.parametrize("name", ["T5c", "T5d", "T5i", "T5k", "T5a", "T5m", "T4c"])
def test_words_name_the_start(name):
    (found,) = (item for item in all_theorems() if item.id == name)
    assert "start" in found.words


def test_json_has_the_inputs_of_every_theorem():
    """The exact example of T4e has numbers of more digits than Python writes."""
    for one in all_theorems():
        rows = [input_as_dict(item) for item in evaluate.inputs(one)]
        assert json.loads(json.dumps(rows)) == rows, one.id
