"""A zoo of false theorems, by the rules of CONTRIBUTING: each is rejected with one sentence that names the cause."""

from __future__ import annotations

import pytest
import sympy as sp

from theory import coq_statement
from theory.chain import faults
from theory.coq_printer import NotPrintable, statement
from theory.formula import ForAll, array, eq, le, lt, total
from theory.notation import N, Row, count, i
from theory.theorem import Example, Hypothesis, Line, Theorem, Use
from theory.verdict import judge

x, y = sp.symbols("x y", positive=True)
a, b = sp.symbols("a b", real=True)
u = array("u")
INJECTED = count("k => 0) - bigsum n_workers (fun k : nat", least=0)
ANY_X = sp.Symbol("x", real=True)
WHERE = (*(Row(symbol, str(symbol), "a number") for symbol in (x, y, a, b)), Row(u, "u", "a vector"))


def theorem(conclusion, *lines, **more):
    plain = {"id": "T99", "title": "made up", "words": "made up", "good_for": "tests", "source": "ours", "where": WHERE}
    return Theorem(conclusion=conclusion, chain=lambda: lines, **{**plain, **more})


LEMMA = theorem(
    le(2 * x * y, x**2 + y**2), Line("<=", x**2 + y**2, "a square", slack=((x - y) ** 2,)), id="T98"
)  # fmt: skip
BOUNDED = Hypothesis("bounded", le(a, b), "a is at most b")
LOW, HIGH = Hypothesis("low", le(x, 1), "x is at most one"), Hypothesis("high", le(2, x), "x is at least two")

ZOO = {
    "a wrong constant": (
        theorem(le(3 * x * y, x**2 + y**2), Line("<=", x**2 + y**2, "a square", slack=((x - y) ** 2,))),
        "residual is not 0",
    ),
    "a wrong sign": (
        theorem(le(x, y - 1), Line("<=", y - 1, "one less", slack=(y - x - 1,))),
        "not known to be non-negative",
    ),
    "a wrong exponent": (
        theorem(eq((x + y) ** 3, x**2 + 2 * x * y + y**2), Line("=", x**2 + 2 * x * y + y**2, "binomial")),
        "residual is not 0",
    ),
    "a relation the wrong way": (
        theorem(le(x**2 + y**2, 2 * x * y), Line(">=", 2 * x * y, "a square", slack=((x - y) ** 2,))),
        "the statement has <=",
    ),
    "strict where there is equality": (
        theorem(lt(2 * x * y, x**2 + y**2), Line("<=", x**2 + y**2, "a square", slack=((x - y) ** 2,))),
        "the statement has <",
    ),
    "a missing hypothesis": (
        theorem(le(a, b), Line("<=", b, "it is bounded", (Use("bounded"),))),
        "'bounded', which is neither a hypothesis",
    ),
    "a division by a hidden zero": (
        theorem(eq((a**2 - b**2) / (a - b), a + b), Line("=", a + b, "cancel a - b")),
        "not known to be other than 0",
    ),
    "a root of a negative number": (
        theorem(eq(sp.sqrt(a) ** 3, a * sp.sqrt(a) + 0 * b), Line("=", sp.expand(2 * a * sp.sqrt(a)), "root")),
        "of a root is not known to be non-negative",
    ),
    "a product by something of either sign": (
        theorem(le(a * x, b * x), Line("<=", b * x, "times a", (Use("bounded", a),)), hypotheses=(BOUNDED,)),
        "factor a of 'bounded' is not known to be non-negative",
    ),
    "itself as a lemma": (
        theorem(le(a, b), Line("<=", b, "as proved in T99", (Use("T99"),)), needs=("T99",)),
        "rests on itself",
    ),
    "a hypothesis that is not used": (
        theorem(le(x, x + y), Line("<=", x + y, "y > 0", slack=(y,)), hypotheses=(LOW,)),
        "no line uses the hypothesis 'low'",
    ),
    "a lemma that says less": (
        theorem(le(4 * x * y, x**2 + y**2), Line("<=", x**2 + y**2, "T98", (Use("T98"),)), needs=("T98",)),
        "residual is not 0",
    ),
    "a lemma that nobody has stated": (
        theorem(le(x, y), Line("<=", y, "well known", (Use("T97"),)), needs=("T97",)),
        "neither a hypothesis nor in `needs`",
    ),
    "an index beyond the array": (
        theorem(
            le(u[N], x), Line("<=", x, "all are", (Use("all_small", 1, {i: N}),)),
            hypotheses=(Hypothesis("all_small", ForAll(((i, N),), le(u[i], x)), "every entry is at most x"),),
        ),
        "not known to be below n_workers",
    ),
    "a proof of something else": (
        theorem(le(x, x + 2 * y), Line("<=", x + y, "y > 0", slack=(y,))),
        "the proof ends at",
    ),
    "no proof": (theorem(le(x, y)), "the proof is empty"),
    "an approximate number": (
        theorem(le(x / 3, 0.3334 * x), Line("<=", 0.3334 * x, "a third", slack=((0.3334 - 1 / 3) * x,))),
        "is a float",
    ),
    "an index that is a piece of Coq": (
        theorem(le(total(1, INJECTED, N), 0), Line("<=", 0, "see the name", slack=(0,))),
        "is no identifier",
    ),
    "a hypothesis that is a piece of Coq": (
        theorem(
            le(a, b), Line("<=", b, "it is bounded", (Use("h : False) (g"),)),
            hypotheses=(Hypothesis("h : False) (g", le(a, b), "a is at most b"),),
        ),
        "is no identifier",
    ),
    "a bound variable with the name of a free one": (
        theorem(
            le(y, 0), Line("<=", 0, "at x = 0", (Use("below", 1, {ANY_X: 0}),), slack=(x,)),
            hypotheses=(Hypothesis("below", ForAll((ANY_X,), le(y, x)), "y is below x"),),
        ),
        "two different symbols have the same name x",
    ),
    "a bound count with the name of a free one": (
        theorem(
            eq(a, 0), Line("=", 0, "at one"),
            hypotheses=(Hypothesis("all", ForAll((count(N.name, least=0),), le((N - 1) * a, 0)), "for all"),),
        ),
        "two different symbols have the same name n_workers",
    ),
    "words with a number of their own": (
        theorem(le(x, x + y), Line("<=", x + y, "y > 0", slack=(y,)), words="At most 5 times x."),
        "a number that is not computed: '5'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ZOO)
def test_a_false_theorem_is_rejected_and_the_cause_is_named(name):
    false, cause = ZOO[name]
    found = faults(false, {"T98": LEMMA, "T99": false})
    assert any(cause in fault for fault in found), found
    assert all("\n" not in fault for fault in found)


@pytest.mark.parametrize("name", ["an index that is a piece of Coq", "a hypothesis that is a piece of Coq"])
def test_no_name_reaches_coq_that_is_none(name):
    with pytest.raises(NotPrintable, match="is no identifier"):
        coq_statement.statement_of(ZOO[name][0])
    with pytest.raises(NotPrintable, match="is no identifier"):
        statement("T99", {"x : R) (y": "R"}, {}, "True")


CONTRADICTORY = theorem(
    le(2, 1), Line("<=", x, "high", (Use("high"),)), Line("<=", 1, "low", (Use("low"),)), hypotheses=(LOW, HIGH)
)


@pytest.mark.parametrize(
    ("example", "cause"),
    [
        (None, "no example that meets them"),
        (lambda: Example("x = 1", 1.0, {"x": 1.0}), "it needs that 2 <= 1"),
        (lambda: Example("x = -1", 1.0, {"x": -1.0}), "it needs that 2 <= 1"),
    ],
)
def test_contradictory_hypotheses_prove_everything_and_have_no_example(example, cause):
    from dataclasses import replace

    found = judge(replace(CONTRADICTORY, example=example), {}, None).faults
    assert any(cause in fault for fault in found), found


def test_the_lemma_of_the_zoo_is_true():
    assert faults(LEMMA) == ()
