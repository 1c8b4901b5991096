"""What the lines of a symbolic proof may speak of, and what they carry: indices, ranges, strictness, lemmas."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import sympy as sp

from tests.theory.theory_support import stated
from theory.chain import faults
from theory.formula import At, ForAll, array, eq, ge, le, lt, total
from theory.notation import Row, count, j, k
from theory.theorem import Line, Use

x, y, z = sp.symbols("x y z", real=True)
low, below = sp.symbols("low below", real=True)
share = sp.Symbol("share", nonnegative=True)
m, n, m0 = count("m"), count("n"), count("m0", least=0)
u, v = array("u"), array("v")
f = sp.Function("f", real=True)
ROWS = {symbol: Row(symbol, latex, "a number") for symbol, latex in zip(
    (x, y, z, m, n, m0, u, v), ("x", "y", "z", "m", "n", "m_0", "u", "v"), strict=True
)}  # fmt: skip
ROWS[low] = Row(low, "a", "at most 1", domain=sp.Interval(-sp.oo, 1))
ROWS[below] = Row(below, "b", "below 1", domain=sp.Interval.open(-sp.oo, 1))
ROWS[share] = Row(share, "q", "a share", domain=sp.Interval(0, 1))
ROWS[f] = Row(f, "f", "a function", coq="R -> R")


made = partial(stated, ROWS)


def grows(term):
    """``term <= term + x^2``, true of whatever ``term`` is."""
    return made(le(term, term + x**2), (Line("<=", term + x**2, "a square", slack=(x**2,)),))


@pytest.mark.parametrize("index", [k, m, m - 1, m0 + 2, m + k, sp.Integer(3)])
def test_an_element_of_an_array_has_a_natural_index(index):
    assert faults(grows(u[index])) == ()


@pytest.mark.parametrize("index", [x, m / 2, m0 - 1, m - 2, k - m, share, sp.Integer(-1), sp.Rational(1, 2)])
def test_what_may_be_no_index_is_refused(index):
    assert any("is not known to be a natural number" in fault for fault in faults(grows(u[index])))


def test_an_instance_settles_an_index():
    assert faults(replace(grows(u[n / 2]), instance={n: 4})) == ()
    assert any("natural number" in fault for fault in faults(replace(grows(u[n / 2]), instance={n: 3})))


@pytest.mark.parametrize("term", [f(x), At(sp.Integer(3), k), At(u, k), f(u[k]) + 1])
def test_functions_and_vectors_are_for_coq(term):
    assert any("functions and vectors are Coq's" in fault for fault in faults(grows(term)))


def test_a_row_is_no_number():
    assert any("several numbers of axes" in fault for fault in faults(grows(u[0] + u[0, 1])))


@pytest.mark.parametrize(
    ("sum_", "value"),
    [
        (sp.Sum(x, (j, 0, m - 1), (k, 0, j - 1)), x * m * j),
        (total(k * x, k, k), x * k * (k - 1) / 2),
        (sp.Sum(k * x, (k, 0, m - 1), (k, 0, k - 1)), k * x * m * (m - 1) / 2),
        (total(x, k, m) + k, m * x + k),
    ],
)
def test_the_index_of_a_sum_is_nothing_else(sum_, value):
    found = faults(made(eq(sum_, value), (Line("=", value, "it"),)))
    assert any("choose another name" in fault for fault in found), found


def test_a_sum_within_a_sum_may_end_at_the_outer_index():
    term = sp.Sum(x, (k, 0, j - 1), (j, 0, m - 1))
    value = x * m * (m - 1) / 2
    assert faults(made(eq(term, value), (Line("=", value, "it"),))) == ()


@pytest.mark.parametrize(
    ("theorem", "holds"),
    [
        (made(lt(x + z, y + z), (Line("<", y + z, "it", (Use("h0"),)),), lt(x, y)), True),
        (made(lt(2 * x, 2 * y), (Line("<", 2 * y, "it", (Use("h0", 2),)),), lt(x, y)), True),
        (made(lt(share * x, share * y), (Line("<", share * y, "it", (Use("h0", share),)),), lt(x, y)), False),
        (made(lt(x, y), (Line("<", y, "it", (Use("h0"),)),), le(x, y)), False),
        (made(sp.Gt(y + z, x + z, evaluate=False), (Line(">", x + z, "it", (Use("h0"),)),), lt(x, y)), True),
        (made(lt(u[0], v[0]), (Line("<", v[0], "it", (Use("h0", at={k: 0}),)),),
              ForAll(((k, m),), lt(u[k], v[k]))), True),
        (made(lt(u[0], v[0]), (Line("<", v[0], "it", (Use("h0", at={k: 0}),)),),
              ForAll(((k, m),), le(u[k], v[k]))), False),
        (made(lt(x, z), (Line("<=", y, "weak", (Use("h1"),)), Line("<", z, "strict", (Use("h0"),))),
              lt(y, z), le(x, y)), True),
    ],
)  # fmt: skip
def test_something_strict_times_something_positive_makes_a_line_strict(theorem, holds):
    found = faults(theorem)
    assert (found == ()) if holds else any("known to be positive" in fault for fault in found), found


def test_a_strict_lemma_makes_a_line_strict():
    lemma = made(lt(x, x + 1), (Line("<", x + 1, "one more", slack=(sp.Integer(1),)),), id="T98")
    user = made(lt(y, y + 1), (Line("<", y + 1, "it", (Use("T98", at={x: y}),)),), needs=("T98",))
    assert faults(user, {"T98": lemma}) == ()
    weak = replace(lemma, conclusion=le(x, x + 1))
    assert any("known to be positive" in fault for fault in faults(user, {"T98": weak}))


def test_a_hypothesis_may_be_used_through_a_lemma_alone():
    lemma = made(le(0, y - x), (Line("<=", y - x, "it", (Use("h0"),)),), le(x, y), id="T98")
    user = made(le(z, z + y - x), (Line("<=", z + y - x, "it", (Use("T98"),)),), le(x, y), needs=("T98",))
    assert faults(lemma) == faults(user, {"T98": lemma}) == ()
    idle = made(le(z, z + 1), (Line("<=", z + 1, "it", slack=(sp.Integer(1),)),), le(x, y), needs=("T98",))
    assert "no line uses the hypothesis 'h0'" in faults(idle, {"T98": lemma})


def test_an_array_of_a_lemma_keeps_its_name():
    lemma = made(le(u[k], u[k] + 1), (Line("<=", u[k] + 1, "one more", slack=(sp.Integer(1),)),), id="T98")
    user = made(le(v[k], v[k] + 1), (Line("<=", v[k] + 1, "it", (Use("T98", at={u: v}),)),), needs=("T98",))
    assert any("not at another u: name it as T98 does" in fault for fault in faults(user, {"T98": lemma}))


@pytest.mark.parametrize(
    ("theorem", "holds"),
    [
        (made(le(low, 1), (Line("<=", sp.Integer(1), "domain", slack=(1 - low,)),)), True),
        (made(ge(1 / (1 - below), 0), (Line(">=", sp.Integer(0), "domain", slack=(1 / (1 - below),)),)), True),
        (made(lt(below, 1), (Line("<", sp.Integer(1), "domain", slack=(1 - below,)),)), True),
        (made(lt(low, 1), (Line("<", sp.Integer(1), "domain", slack=(1 - low,)),)), False),
        (made(le(low, 0), (Line("<=", sp.Integer(0), "wish", slack=(-low,)),)), False),
        (made(ge(1 / (1 - low), 0), (Line(">=", sp.Integer(0), "domain", slack=(1 / (1 - low),)),)), False),
        (made(le(0, low**2 + low), (Line("<=", low**2 + low, "wish", slack=(low**2 + low,)),)), False),
    ],
)
def test_a_domain_without_a_lower_end_settles_signs(theorem, holds):
    assert (faults(theorem) == ()) is holds, faults(theorem)


def test_an_instance_settles_a_range():
    theorem = made(le(u[2], x), (Line("<=", x, "it", (Use("h0", at={k: 2}),)),), ForAll(((k, m),), le(u[k], x)))
    assert any("not known to be below m" in fault for fault in faults(theorem))
    assert faults(replace(theorem, instance={m: 3})) == ()
    assert any("not known to be below m" in fault for fault in faults(replace(theorem, instance={m: 2})))


def test_a_quantifier_speaks_of_what_it_binds():
    theorem = made(le(0, y), (Line("<=", y, "it", (Use("h0", at={x: 0}),)),), ForAll((x,), le(0, y)))
    assert "a hypothesis is for all x, of which it doesn't speak: leave that out" in faults(theorem)
