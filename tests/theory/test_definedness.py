"""A proof by lines uses nothing that may have no value, and nothing whose meaning the project doesn't define."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import sympy as sp

from tests.theory.theory_support import stated
from theory.chain import faults
from theory.formula import ForAll, array, eq, le, lt, ne, sgn, total
from theory.notation import UNIT, Row, count, weight_decay
from theory.theorem import Example, Line, Use
from theory.verdict import judge

x, y, z = sp.symbols("x y z", real=True)
px = sp.Symbol("px", positive=True)
share = sp.Symbol("share", nonnegative=True)
n, k = count("n"), count("k", least=0)
a = array("a")
f = sp.Function("f", real=True)
ROWS = {
    symbol: Row(symbol, latex, "a number")
    for symbol, latex in ((x, "x"), (y, "y"), (z, "z"), (px, "p"), (n, "n"), (a, "a"))
}
ROWS[share] = Row(share, "q", "a share", domain=sp.Interval(0, 1))
ROWS[f] = Row(f, "f", "a function", coq="R -> R")


made = partial(stated, ROWS)


def cancelled(factor, times=None):
    """From y factor = 0 to y = 0 by dividing."""
    line = Line("=", sp.Integer(0), "divide", uses=(Use("h0", times=1 / factor if times is None else times),))
    return made(eq(y, 0), (line,), eq(y * factor, 0))


@pytest.mark.parametrize(
    "factor",
    [
        x, x**2, x + 1, x**n, weight_decay**n, (x - 1) ** (n + 2), sp.sqrt(weight_decay), sp.Abs(x), sp.Max(x, 0),
        sp.log(px), 1 - sgn(x), total(a[k] ** 2, k, n), a[k], share, share - 1, x - y, f(x), sp.Min(px, x), n - 1,
        px - 1, weight_decay * px, sp.exp(x) - 1, (x + 1) * (x - 1) ** (n + 2), total(a[k], k, n),
        sp.sqrt(px) - 1, weight_decay ** (px), (1 + x) ** 2, x**2 - 1,
    ],
)  # fmt: skip
def test_nothing_is_divided_by_what_may_be_0(factor):
    found = faults(cancelled(factor))
    assert any("is not known to be" in fault for fault in found), found


@pytest.mark.parametrize(
    "factor", [px, px**2, 1 + px, px**n, n, 1 + n, sp.exp(x), x**2 + 1, sp.sqrt(px), 1 + weight_decay]
)
def test_what_the_domains_keep_from_0_may_divide(factor):
    assert faults(cancelled(factor)) == ()


@pytest.mark.parametrize("slack", [share * (1 - share), 1 - share, share - share**3, 2 - 2 * share**2])
def test_a_domain_with_both_of_its_ends_settles_a_sign(slack):
    assert faults(made(le(x, x + slack), (Line("<=", x + slack, "it", slack=(slack,)),))) == ()


@pytest.mark.parametrize("slack", [share - sp.Rational(1, 2), share * (1 - 2 * share), share - share**2 - sp.S.One / 9])
def test_a_domain_with_both_of_its_ends_settles_no_other_sign(slack):
    (fault, *_) = faults(made(le(x, x + slack), (Line("<=", x + slack, "it", slack=(slack,)),)))
    assert "is not known to be non-negative" in fault


def test_what_is_negative_at_an_end_alone_is_seen():
    """SymPy's own 0^(1 - share), which is 1 at the upper end and 0 before it."""
    slack = -(sp.Integer(0) ** (1 - share))
    (fault, *_) = faults(made(le(x, x + slack), (Line("<=", x + slack, "it", slack=(slack,)),)))
    assert "not known" in fault


@pytest.mark.parametrize("value", [px, x, y - 1, sp.I])
def test_an_instance_is_a_number(value):
    told = faults(made(le(x, px), (Line("<=", px, "it"),), instance={x: value}))
    assert any("is no number" in fault for fault in told), told


@pytest.mark.parametrize("value", [sp.Rational(1, 2), sp.sqrt(2)])
def test_an_instance_of_a_count_is_a_whole_number(value):
    slack = n - n**2
    told = faults(made(le(n**2, n), (Line("<=", n, "it", slack=(slack,)),), instance={n: value}))
    assert any("is not a whole number" in fault for fault in told), told


@pytest.mark.parametrize(
    ("written", "instance"),
    [
        (x / y, {x: 0, y: 0}), (y / x, {x: 0, y: 0}), (x / y, {x: 0}), ((x - 1) / (y - 1), {x: 1, y: 1}),
        (x * sp.sqrt(y), {x: 0, y: -1}), (x / (y / z), {x: 0, y: 0, z: 1}),
    ],
)  # fmt: skip
def test_what_an_instance_makes_0_is_defined_before(written, instance):
    told = faults(made(le(written, 1), (Line("<=", sp.Integer(1), "it", slack=(1 - written,)),), instance=instance))
    assert any("is not known to be" in fault for fault in told), told


@pytest.mark.parametrize(("side", "instance"), [(1 + x, {x: 1}), (x / y, {x: 2, y: 1}), (sp.sqrt(y), {y: 4})])
def test_an_instance_may_attain_its_bound(side, instance):
    assert faults(made(le(side, 2), (Line("<=", sp.Integer(2), "it", slack=(2 - side,)),), instance=instance)) == ()


def test_a_hypothesis_may_keep_a_divisor_from_0():
    line = Line("=", z, "divide", uses=(Use("h0", times=1 / x),))
    assert faults(made(eq(y, z), (line,), eq(x * y, x * z)))
    for given in (ne(x, 0), ne(0, x), lt(0, x), lt(x, 0), sp.Gt(x, 0, evaluate=False)):
        assert [
            fault for fault in faults(made(eq(y, z), (line,), eq(x * y, x * z), given)) if "not known" in fault
        ] == []
    for given in (ne(x, 1), ne(y, 0), le(0, x), lt(0, y)):
        assert any("not known" in fault for fault in faults(made(eq(y, z), (line,), eq(x * y, x * z), given))), given


def test_a_hypothesis_that_keeps_a_divisor_from_0_is_used():
    line = Line("=", z, "divide", uses=(Use("h0", times=1 / x),))
    assert faults(made(eq(y, z), (line,), eq(x * y, x * z), ne(x, 0))) == ()


def test_inequalities_slack_and_values_are_defined_too():
    up = Line("<=", z, "divide", uses=(Use("h0", times=1 / x**2),))
    assert any("divisor" in fault for fault in faults(made(le(y, z), (up,), le(x**2 * y, x**2 * z))))
    slack = Line("<=", y + 1 / x**2, "add", slack=(1 / x**2,))
    assert any("in its slack the divisor" in fault for fault in faults(made(le(y, y + 1 / x**2), (slack,))))
    put = Line("=", sp.Integer(0), "put", uses=(Use("h0", at={z: 1 / x}, times=x**2),))
    assert any("divisor" in fault for fault in faults(made(eq(x * y, 0), (put,), ForAll((z,), eq(y * z, 0)))))
    given = Line("=", sp.Integer(1), "as given", uses=(Use("h0"),))
    assert any("divisor" in fault for fault in faults(made(eq(y / x, 1), (given,), eq(y / x, 1))))


@pytest.mark.parametrize(
    "statement",
    [
        eq(x**y, 1), eq(x ** sp.Rational(1, 3), 0), eq(weight_decay**y, 1), eq(share ** sp.Rational(2, 3), 0),
        eq(sp.log(x), 0), eq(sp.log(weight_decay), 0), eq(sp.log(share), 0), eq((x + y) ** z, 1),
        eq(2 + x ** (px), 1), eq(total(a[k] ** y, k, n), n),
        eq(total(sp.log(a[k]), k, n), 0), eq(sp.sqrt(sp.log(x)), 0), eq(sp.Abs(x) ** y, 1),
    ],
)  # fmt: skip
def test_real_powers_and_logarithms_need_a_positive_number_in_coq_too(statement):
    kernel = replace(made(statement, ()), chain=None)
    assert any("to be positive" in fault for fault in faults(kernel)), faults(kernel)
    hypothesis = replace(made(eq(x, x + y), (), statement), chain=None)
    assert any("to be positive" in fault for fault in faults(hypothesis))


def test_real_powers_of_positive_numbers_and_square_roots_are_fine():
    for statement in (eq(px**y, 1), eq(sp.log(1 + px), 0), eq(sp.sqrt(x), 0), eq((1 + n) ** sp.Rational(1, 3), 1)):
        assert not any("positive" in fault for fault in faults(replace(made(statement, ()), chain=None)))
    given = replace(made(eq(x**y, 1), (), lt(0, x)), chain=None)
    assert not any("positive" in fault for fault in faults(given))


class Positive(sp.Symbol):
    """Looks like x and claims to be positive."""

    def _eval_is_nonnegative(self):
        return True


class Max(sp.Max):
    """Looks like SymPy's."""


class Claim(sp.Expr):
    """Claims whatever is asked of it."""

    is_nonnegative = True


@pytest.mark.parametrize(
    "part",
    [sp.I, sp.oo, -sp.oo, sp.zoo, sp.nan, sp.E, sp.EulerGamma, sp.sec(x), sp.sin(x), sp.sign(x), sp.floor(x),
     sp.gamma(x), sp.Derivative(f(x), x), sp.Integral(x, (x, 0, px)), sp.Product(x, (k, 0, n)),
     sp.Piecewise((1, x > 0), (2, True)), Positive("x"), Max(x, y), Claim(),
     sp.Dummy("x", real=True), sp.Symbol("A", commutative=False),
     sp.Float(0.5), sp.Mod(n, 2), sp.conjugate(sp.Symbol("w")), sp.Subs(f(x), x, 1), sp.factorial(n),
     sp.Symbol("elsewhere", positive=True)],
    ids=lambda part: type(part).__name__,
)  # fmt: skip
def test_a_factor_is_made_of_what_has_a_meaning(part):
    line = Line("=", z, "times", uses=(Use("h0", times=part),))
    assert faults(made(eq(y, z), (line,), eq(y, z)))
    slack = Line("<=", y + 1, "add", slack=(part, 1 - part))
    assert len([fault for fault in faults(made(le(y, y + 1), (slack,))) if "in its slack" in fault]) >= 1


@pytest.mark.parametrize(
    "domain",
    [sp.EmptySet, sp.Union(sp.Interval(-1, 0), sp.Interval(2, 3)), sp.FiniteSet(1), sp.Interval(0, y), sp.Integers,
     sp.Interval(0, 0.5), sp.Range(3)],
    ids=str,
)  # fmt: skip
def test_a_domain_is_one_interval_between_exact_numbers(domain):
    with pytest.raises(ValueError, match="one interval"):
        Row(x, "x", "a number", domain=domain)


@pytest.mark.parametrize(
    "latex", ["x + 100", "2", "x - y", r"\frac{x}{y}", "x=y", r"x\cdot y", "", "10x", r"\sqrt{x}", "x/y"]
)
def test_the_latex_of_a_symbol_is_no_arithmetic(latex):
    with pytest.raises(ValueError, match="one symbol"):
        Row(x, latex, "a number")


def test_two_symbols_are_typeset_apart():
    rows = (Row(x, "y", "a number"), Row(y, "y", "a number"))
    square = Line("<=", x**2 + y**2, "a square", slack=((x - y) ** 2,))
    both = made(le(2 * x * y, x**2 + y**2), (square,))
    assert faults(both) == ()
    assert any("the same LaTeX: y" in fault for fault in faults(replace(both, where=rows)))
    alike = (Row(x, "w_1", "a number"), Row(y, "w_{1}", "a number"))
    assert any("the same LaTeX: w_1" in fault for fault in faults(replace(both, where=alike)))
    again = (*both.where, Row(x, "X", "a number", domain=UNIT))
    assert any("the same code name: x" in fault for fault in faults(replace(both, where=again)))


@pytest.mark.parametrize(("latex", "constant"), [(r"\pi", sp.pi), ("e", sp.exp(y))])
def test_a_symbol_is_not_typeset_as_a_constant_of_the_statement(latex, constant):
    line = Line("<=", x + constant + 1, "more", slack=(1,))
    more = made(le(x + constant, x + constant + 1), (line,))
    assert faults(more) == ()
    rows = (Row(x, latex, "a number"), Row(y, "y", "a number"))
    assert any("is written as the constant" in fault for fault in faults(replace(more, where=rows)))


def test_numbers_are_evidence_and_no_proof():
    for outcome, holds in ((True, False), (False, False), ("no", False), (1, False), (None, False)):
        checked = replace(made(le(0, x), ()), chain=None, numeric_checks={"ok": lambda outcome=outcome: outcome})
        verdict = judge(checked, {}, None)
        assert verdict.holds is holds
        assert str(verdict) == ("not checked" if outcome is True else "FAILS")


def test_a_chain_that_ends_the_program_is_a_fault_of_its_own():
    def leave():
        raise SystemExit(0)

    assert "SystemExit" in judge(replace(made(le(0, x), ()), chain=leave), {}, None).unchecked[0]


def test_a_factor_s_message_says_what_to_do():
    line = Line("<=", x, "times x", uses=(Use("h1", times=x),))
    made_up = made(le(x**2, x), (line,), le(0, x), le(x, 1), example=lambda: Example("one", 1.0, {"x": 1.0}))
    assert any("give the symbol a domain" in fault for fault in faults(made_up))


ENTRY = a[k]
VANISHING = [
    (eq(sp.Mul(x, sp.Pow(x, -1), evaluate=False), 1), sp.Integer(1), "the divisor x"),
    (eq(sp.Pow(sp.sqrt(x), 2, evaluate=False), x), x, "the base x of a root"),
    (eq(sp.Sum(x * (1 / x + k), (k, 0, n - 1)), sp.Sum(1 + x * k, (k, 0, n - 1))),
     sp.Sum(1 + x * k, (k, 0, n - 1)), "the divisor x"),
    (eq(1, sp.Mul(x, sp.Pow(x, -1), evaluate=False)), sp.Mul(x, sp.Pow(x, -1), evaluate=False), "the divisor x"),
]  # fmt: skip


@pytest.mark.parametrize(("conclusion", "end", "says"), VANISHING)
def test_what_cancels_must_be_defined_as_it_is_written(conclusion, end, says):
    assert any(says in fault for fault in faults(made(conclusion, (Line("=", end, "cancel"),))))


def test_a_hypothesis_on_one_entry_defines_no_sum_over_all():
    """It spoke for the index that a sum binds, which has the same name."""
    summed = sp.Sum(1 + x * sp.sqrt(ENTRY), (k, 0, n - 1))
    conclusion = eq((x + summed) * (x - summed), x**2 - summed**2)
    line = Line("=", x**2 - summed**2, "expand")
    assert any("of a root" in fault for fault in faults(made(conclusion, (line,), lt(0, ENTRY))))


def test_an_instance_lies_in_the_domain():
    line = (Line("<=", sp.Integer(1), "n is 0", slack=()),)
    theorem = made(le(n, 1), line, instance={n: 0})
    assert any("outside the domain" in fault for fault in faults(theorem))
    assert not any("outside the domain" in fault for fault in faults(made(le(n, 1), line, instance={n: 1})))
