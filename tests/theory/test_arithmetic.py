"""Bounds from typed numbers: digits that are right, near 1, near 0 and far beyond a float."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy as sp
import typer
from typer.testing import CliRunner

from theory import assignments, cli
from theory.arithmetic import Intervals, NotEvaluated, intervals, settled
from theory.digits import plain, rounded, shown
from theory.evaluate import bound, evaluate, exact_bound
from theory.formula import array
from theory.registry import all_theorems, select
from theory.verdict import ROUNDING

app = typer.Typer()
app.command()(cli.prove)
x, v = sp.Symbol("x", positive=True), array("v")


def prove(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))


def value_of(path, *arguments):
    result = prove(*arguments, "--json", str(path / "out.json"))
    assert result.exit_code == 0, result.output
    return result.output, {row["id"]: row["bound"] for row in json.loads((path / "out.json").read_text())}


@pytest.mark.parametrize(
    ("arguments", "name", "shown_as"),
    [
        (["7a", "--set", "beta2=0.99999999999999993"], "T7a", "7e-17"),
        (["4c", "--set", "beta2=0.9999999999999999999999"], "T4c", "2e-22"),
        (["4b", "--set", "beta2=0.999999999999999876"], "T4b", "1.5376e-32"),
        (["6f", "--set", "noise=1e-175", "N=3"], "T6f", "3.33333e-351"),
        (["7i", "--set", "beta2=1e-7", "window=50"], "T7i", "4e-352"),
        (["6f", "--set", "noise=1e200", "N=7"], "T6f", "1.42857e+399"),
        (["7h", "--set", "step=12345678"], "T7h", None),
        (["1c", "--set", "first_moment=0.3", "second_moment=0.09", "fourth_moment=0.0081"], "T1c", "0"),
        (["7c", "--set", "beta2=0.9", "window=2", "threshold=0.81"], "T7c", "0"),
        (["7n", "--set", "mean_gradient=0.3", "at_end=0.3", "n_steps=10", "beta1=0.9"], "T7n", "0"),
    ],
)
def test_six_digits_are_right_at_every_size(tmp_path, arguments, name, shown_as):
    output, values = value_of(tmp_path, *arguments)
    if shown_as:
        assert f" {shown_as} " in output
    value = values[name]
    short = f" {shown(Decimal(f'{Decimal(str(value)):.5e}'))} "
    assert shown_as is None or short.strip() == shown_as
    assert isinstance(value, str) == (value != 0 and not 2.3e-308 <= abs(Decimal(str(value))) <= Decimal("1.7e308"))


def test_json_is_the_nearest_double(tmp_path):
    """1 - beta2^t for beta2 = 0.9, t = 7: its double is that of the exact decimal."""
    _, values = value_of(tmp_path, "7a", "--set", "beta2=0.9", "step=7", "gradient_bound=0", "frozen_variance=1")
    assert values["T7a"] == float(1 - Fraction(9, 10) ** 7)


def test_what_was_typed_is_shown_as_it_was_typed():
    result = prove("7a", "--set", "beta2=0.99999999999999993", "step=3e2")
    assert "beta2 = 0.99999999999999993" in result.output
    assert "step = 300," in result.output


def test_every_exact_bound_is_near_the_float_and_fast():
    """As near as the verdict wants an example to be, which a float bound is compared with."""
    for item in all_theorems():
        near = float(exact_bound(item).double)
        assert near == pytest.approx(float(bound(item)), rel=ROUNDING, abs=0.0), item.id


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (sp.sqrt(x) ** 3, mpmath.mpf(7) ** 1.5),
        (sp.exp(-x) * sp.log(x), mpmath.exp(-7) * mpmath.log(7)),
        (sp.Max(x, 2) / sp.Min(x, 2), mpmath.mpf("3.5")),
        (sp.Abs(x - 9) ** sp.pi, mpmath.mpf(2) ** mpmath.pi),
        (1 / sp.sqrt(x - 3), mpmath.mpf("0.5")),
    ],
)
def test_an_interval_holds_the_value(expression, value):
    with mpmath.workprec(200):
        for bits in (64, 128, 512):
            low, high = intervals(bits).ends(evaluate(expression, {x: 7}, intervals(bits)))
            near = Fraction(int(mpmath.floor(value * 2**52))) / 2**52
            assert low <= high
            assert abs(low - near) < Fraction(1, 2**45)


def test_numbers_that_are_equal_are_not_told_apart():
    with pytest.raises(NotEvaluated, match="too near"):
        settled(lambda a: a.below(evaluate(sp.sqrt(x) * sp.sqrt(x + 1), {x: 2}, a), a.context.sqrt(6), strict=True))


def test_what_has_no_value_is_said():
    with pytest.raises(NotEvaluated, match="divided by 0"):
        settled(lambda a: evaluate(1 / (x - 1), {x: 1}, a))
    with pytest.raises(NotEvaluated, match="under a root"):
        settled(lambda a: evaluate(sp.sqrt(x - 2), {x: 1}, a))
    with pytest.raises(IndexError, match="-1 is no index"):
        evaluate(v[x - 2], {x: 1, v: np.array([1.0, 2.0])})


def test_a_narrow_interval_is_needed_and_had():
    near = sp.exp(sp.Rational(1, 10**90)) - 1

    def told(arithmetic: Intervals) -> str:
        return str(rounded(evaluate(near, {}, arithmetic), arithmetic))

    assert settled(told) == "1e-90"
    assert told(intervals(512)) == "1e-90"
    with pytest.raises(NotEvaluated):
        told(intervals(128))  # too few bits are not taken for an answer


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (64, "64"), (10**6, "1000000"), (Fraction(1, 10), "0.1"), (Fraction(1, 3), "0.333333"),
     (Fraction(10**9 - 1, 10**9), "0.999999999"), (10**300 - 1, "1e+300"), (1e-8, "1e-08"), (Fraction(-3, 2), "-1.5")],
)  # fmt: skip
def test_a_number_in_short(number, text):
    assert plain(number) == text


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-5, 123456.0, 1234567.0, 1e22, 3.14159, 1e-300, 100000.0, 0.0001])
def test_shown_as_the_format_g(value):
    assert shown(Decimal(f"{value:.5e}")) == f"{value:g}"


def test_arrays_of_defaults_are_read_as_they_are_printed():
    given = assignments._as_typed({"a": np.array([[0.1, 2.0]])}["a"])
    assert given == [[Fraction(1, 10), 2]]
    (item,) = select(["T1g"])
    assert assignments.evaluated([item], {"other_magnitude": Fraction(1, 10)})
