"""What a contributor may get wrong in the form of a theorem: a sentence each, and the other theorems go on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import sympy as sp
import typer
from typer.testing import CliRunner

from tests.theory.theory_support import SQUARE, theorem, u, x, y, z
from theory import cli, form, mutants, registry
from theory.chain import faults
from theory.cli import input_text
from theory.formula import ForAll, Implies, array, eq, le
from theory.notation import N, Row, k
from theory.theorem import Example, Hypothesis, Line, Use
from theory.verdict import judge

app = typer.Typer()
app.command()(cli.prove)


def prove(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))


BOOLEANS = [sp.Eq(1, 2), sp.And(x > 1, y > 1), x <= x - 1, sp.Not(sp.Eq(x, y) & (x < y)), True, None]


@pytest.mark.parametrize("boolean", BOOLEANS, ids=str)
def test_what_is_no_relation_is_refused_and_the_rest_goes_on(boolean, monkeypatch, tmp_path):
    broken = [
        theorem(boolean, [Line("=", x, "nothing")]),
        replace(SQUARE, id="T98", hypotheses=(Hypothesis("h", boolean, "it is so"),)),
        replace(SQUARE, id="T97", hypotheses=(Hypothesis("h", ForAll((z,), Implies((boolean,), le(z, x))), "so"),)),
    ]
    monkeypatch.setattr(registry, "collect", lambda: ((*broken, SQUARE), ()))
    monkeypatch.setattr(registry, "select", lambda ids=(): tuple(registry.collect()[0]))
    result = prove("--json", str(tmp_path / "out.json"))
    assert result.exit_code == 1, result.output
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["holds"] for row in rows] == [False, False, False, True]
    for row, where in zip(
        rows, ("the conclusion", "the hypothesis 'h'", f"in the hypothesis 'h' {boolean}"), strict=False
    ):
        assert row["faults"] == [f"{where} is no relation: write it with eq, ne, le, lt or ge of theory.formula"]
        assert row["faults"][0] in result.output
    for option in (("--set", "x=1"), ("--latex", str(tmp_path / "out.tex")), ("--mutants",)):
        refused = prove(*option)
        assert refused.exit_code == 2, refused.output
        assert "no relation" in refused.stderr


w = sp.Symbol("w", real=True)
PLAIN = le(x, y)
MEANINGLESS = [
    sp.floor(w), sp.ceiling(w), sp.Mod(w, 2), sp.Heaviside(w), sp.sign(w), sp.Piecewise((1, w > 0), (2, True)), sp.O(w),
    sp.zoo, sp.nan, sp.oo, sp.I, sp.exp(1), sp.Product(w, (k, 0, N - 1)), sp.gamma(w), sp.Integral(w, (w, 0, 1)),
    sp.factorial(N), sp.Max(x, sp.Heaviside(w)), x + sp.sin(w),
]  # fmt: skip


@pytest.mark.parametrize("part", MEANINGLESS, ids=str)
@pytest.mark.parametrize("place", ["conclusion", "hypothesis", "implied", "line", "factor", "slack"])
def test_a_part_without_a_meaning_is_named(part, place):
    def made(line, conclusion=PLAIN, **more):
        values = {"x": 1.0, "y": 1.0, "w": 1.0, "n_workers": 1}
        where = (*SQUARE.where, Row(w, "w", "a number"))
        return theorem(conclusion, [line], example=lambda: Example("one", 1.0, values), where=where, **more)

    given = Hypothesis("h", le(x, y), "x is at most y")
    odd = Hypothesis("h", sp.Le(x, part, evaluate=False), "x is at most this")
    one = Line("<=", y, "as given", (Use("h"),))
    broken = {
        "conclusion": lambda: made(one, sp.Le(x, part, evaluate=False), hypotheses=(given,)),
        "hypothesis": lambda: made(one, hypotheses=(odd,)),
        "implied": lambda: made(one, hypotheses=(given,), implied=(replace(SQUARE, conclusion=odd.formula),)),
        "line": lambda: made(Line("<=", part, "this"), hypotheses=(given,)),
        "factor": lambda: made(Line("<=", y, "this", (Use("h", times=part),)), hypotheses=(given,)),
        "slack": lambda: made(Line("<=", y, "this", (Use("h"),), slack=(part,)), hypotheses=(given,)),
    }[place]()
    verdict = judge(broken, {}, None)
    assert verdict.unchecked == ()
    assert any("has no meaning here" in fault for fault in verdict.faults), verdict.faults


@pytest.mark.parametrize(
    ("inputs", "attained", "says"),
    [
        ({"u": [1.0], "x": 1.0}, 1.0, "arrays are too short"),
        ({"u": [], "x": 1.0}, 1.0, "arrays are too short"),
        ({"u": [1.0, 1.0, 1j], "x": 1.0}, 1.0, "u = [1.0, 1.0, 1j]: a value of type complex is no real number"),
        ({"u": np.full(3, 1j), "x": 1.0}, 1.0, "a value of type complex128 is no real number"),
        ({"u": [1.0, [2.0], 1.0], "x": 1.0}, 1.0, "is no real number, nor an array of them"),
        ({"u": [1.0] * 3, "x": 1j}, 1.0, "x = 1j: a value of type complex is no real number"),
        ({"u": [1.0] * 3, "x": "one"}, 1.0, "x = 'one': a value of type str is no real number"),
        ({"u": [1.0] * 3, "x": None}, 1.0, "x"),
        ({"u": [1.0] * 3, "x": 1.0}, 1j, "`example().attained` must be a number, not 1j"),
        ({"u": [1.0] * 3, "x": 1.0}, "one", "`example().attained` must be a number, not 'one'"),
        ({"u": [1.0] * 3}, 1.0, "x"),
    ],
)
def test_what_is_no_example_is_refused_in_a_sentence(inputs, attained, says):
    given = Hypothesis("h", le(x, u[2]), "x is at most u[2]")
    line = Line("<=", u[2], "as given", (Use("h"),))
    made = theorem(le(x, u[2]), [line], hypotheses=(given,), example=lambda: Example("odd", attained, inputs))
    verdict = judge(made, {}, None)
    assert verdict.unchecked == ()
    assert any(says in fault for fault in verdict.faults), verdict.faults


EQUAL, LESS = Hypothesis("h", eq(x, y), "x is y"), Hypothesis("h", le(x, y), "x is at most y")
VANISHING = (z - 1) ** 2 - z**2 + 2 * z - 1


@pytest.mark.parametrize(
    ("hypothesis", "lines"),
    [
        (EQUAL, [Line("<=", z + 1, "one more", (Use("h"), Use("h", -1)), slack=(sp.Integer(1),))]),
        (EQUAL, [Line("<=", z + 1, "one more", (Use("h", z), Use("h", 1 - z), Use("h", -1)), slack=(sp.Integer(1),))]),
        (EQUAL, [Line("=", z + y - x, "there", (Use("h"),)),
                 Line("<=", z + 1, "and back", (Use("h", -1),), slack=(sp.Integer(1),))]),
        (LESS, [Line("<=", z + 1, "times nothing", (Use("h", VANISHING),), slack=(sp.Integer(1),))]),
        (LESS, [Line("<=", z + 1, "times 0", (Use("h", 0),), slack=(sp.Integer(1),))]),
        (Hypothesis("h", le(x, x), "no more"), [Line("<=", z + 1, "idle", (Use("h"),), slack=(sp.Integer(1),))]),
    ],
)  # fmt: skip
def test_a_hypothesis_whose_uses_cancel_is_not_used(hypothesis, lines):
    made = theorem(le(z, z + 1), lines, hypotheses=(hypothesis,))
    assert faults(made) == ("what the lines take from 'h' adds up to 0: that is no use of it",)


def test_a_hypothesis_is_used_where_its_uses_do_not_cancel():
    lines = [Line("=", y, "once", (Use("h"),)), Line("=", 2 * y - x, "again", (Use("h"),))]
    assert faults(theorem(eq(x, 2 * y - x), lines, hypotheses=(EQUAL,))) == ()


NAMES = ["pi", "E", "I", "oo", "nan", "zoo", "S", "N", "O", "Q", "Sum", "Abs", "all", "_", "__", "Product", "Max",
         "Min", "exp", "log", "floor", "sign", "beta", "gamma", "sgn", "At", "fl", "sum", "lambda", "sqrt", "True",
         "for", "then"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["free", "bound", "array"])
def test_a_name_that_means_something_else_is_refused(name, kind):
    number = sp.Symbol(name, real=True)
    thing, value = (array(name), array(name)[0]) if kind == "array" else (number, number)
    conclusion = le(x, x + value**2) if kind != "bound" else le(x, x + 1)
    slack = value**2 if kind != "bound" else sp.Integer(1)
    hypotheses = (Hypothesis("h", ForAll((number,), le(x, x + number**2)), "so"),) if kind == "bound" else ()
    row = Row(thing, "w", "a number")
    made = theorem(conclusion, [Line("<=", x + slack, "a square", slack=(slack,))], where=(*SQUARE.where, row))
    assert any(f"the name {name!r} " in fault for fault in faults(replace(made, hypotheses=hypotheses)))


@pytest.mark.parametrize("name", ["x", "x_domain", "u", "k"])
def test_a_hypothesis_has_a_name_of_its_own(name):
    given = Hypothesis(name, ForAll(((k, N),), le(u[k], x)), "every u is at most x")
    (fault,) = form.faults(theorem(le(u[0], x), hypotheses=(given,)))
    assert fault == f"a hypothesis and a variable, or its domain, have the same name {name}: choose another"


@pytest.mark.parametrize("name", ["lr", "beta1", "n_workers", "grads"])
def test_a_name_of_the_notation_table_keeps_its_meaning(name):
    number = sp.Symbol(name, real=True)
    row = Row(number, "w", "a number", domain=cast(sp.Interval, sp.Interval(-5, 5)))
    made = theorem(
        le(x, x + number**2), [Line("<=", x + number**2, "a square", slack=(number**2,))], where=(row, *SQUARE.where)
    )
    assert faults(made) == (
        f"`where` has {name} of the notation table: narrow it in `domains`, or choose another name",
    )


def test_a_symbol_that_looks_like_one_of_the_checker_s_own_is_another():
    """A share in (0, 1) is o/(1 + o) where its sign is looked for: with an o that a theorem could have as well."""
    own, share = sp.Symbol("o_share", positive=True), sp.Symbol("share", positive=True)
    rows = (Row(own, "o", "a number"), Row(share, "s", "a share", domain=sp.Interval.open(0, 1)))
    slack = share * (1 + own) - own
    false = theorem(le(own, share * (1 + own)), [Line("<=", share * (1 + own), "no", slack=(slack,))], where=rows)
    assert any("not known to be non-negative" in fault for fault in faults(false))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"), (1.0, "1"), (np.float64(1.0), "1"), (np.int64(3), "3"), (0.1, "0.1"), (np.float32(0.5), "0.5"),
        (1e-8, "1e-08"), (-2.5, "-2.5"), (1e300, "1e+300"), (float("inf"), "inf"),
        ([1.0, 2], "[1, 2]"), (np.array([[1.0, 0.5]]), "[[1, 0.5]]"), ((), "[]"),
        (np.arange(9.0), "[0, 1, 2, 3, ..., 5, 6, 7, 8]"), (np.arange(8.0), "[0, 1, 2, 3, 4, 5, 6, 7]"),
    ],
)  # fmt: skip
def test_an_input_is_shown_as_a_plain_number(value, text):
    assert input_text(value) == text


def test_no_line_of_the_bounds_shows_how_a_number_is_stored():
    result = prove("6", "--set", "N=8", "T=10", "noise=0.001")
    assert "smoothness = 1," in result.output
    assert not any(odd in result.output for odd in ("np.", "float", "= 1.0,"))


def test_a_theorem_that_is_rejected_has_no_mutants(monkeypatch):
    wrong = theorem(le(x, y), [Line("<=", y, "wish")])
    monkeypatch.setattr(mutants, "select", lambda ids=(): (wrong,))
    with pytest.raises(ValueError, match="its mutants say nothing: line 1"):
        mutants.judge_part(("T99", 0), 1.0, 0)


def test_a_wrong_form_is_told_before_any_mutant_is_judged(monkeypatch):
    monkeypatch.setattr(mutants, "select", lambda ids=(): (theorem(sp.true, [Line("=", x, "nothing")]),))
    monkeypatch.setattr(mutants, "judge_part", lambda part, share, seed: pytest.fail("a mutant is judged"))
    with pytest.raises(ValueError, match=r"T99 is rejected as it is, .* the conclusion is no relation"):
        mutants.run([mutants.TOLERANCES, "T99"])
