"""The machinery itself: what is stated is what is proved, and everything else is refused with one sentence."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import sympy as sp

from tests.theory.theory_support import SQUARE, theorem, u, x, y, z
from theory.chain import faults
from theory.evaluate import bound, implied
from theory.formula import At, ForAll, Implies, array, eq, ge, le, lt, mean, total
from theory.notation import N, Row, beta1, contraction, d, i, k, t
from theory.registry import all_theorems, collect
from theory.text import names_of, parse, text_of
from theory.theorem import Example, Hypothesis, Line, Rank, Use
from theory.verdict import LAWS, judge

ROOT = Path(__file__).parents[2]
BY_ID = {item.id: item for item in all_theorems()}


def test_a_correct_chain_has_no_faults():
    assert faults(SQUARE) == ()
    assert SQUARE.rank is Rank.SYMBOLIC


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (theorem(eq(x, y), []), "the proof is empty"),
        (theorem(eq(x, y)), "there is no proof"),
        (theorem(eq(x, y), [Line("=", x, "nothing")]), "both sides are the same"),
        (theorem(eq(x, y), [Line("=", 2 * x - x + 0 * y, "nothing")]), "both sides are the same"),
        (theorem(eq(x, y), [Line("=", (x**2 - 1) / (x - 1) - 1, "true of x")]), "the proof ends at"),
        (theorem(le(2 * x * y, x**2), SQUARE.chain()), "the proof ends at"),
        (theorem(le(x * y, x**2 + y**2), SQUARE.chain()), "the residual is not 0"),
        (theorem(eq(2 * x * y, x**2 + y**2), SQUARE.chain()), "the statement has =="),
        (theorem(sp.Ge(2 * x * y, x**2 + y**2, evaluate=False), SQUARE.chain()), "the statement has >="),
        (theorem(le(x, y), [Line("<=", y, "wish", slack=(y - x,))]), "not known to be non-negative"),
        (theorem(eq(x, y), [Line("=", y, "wish", slack=(y - x,))]), "an identity has no slack"),
        (theorem(le(x, 0.5 * y), [Line("<=", 0.5 * y, "wish", slack=(0.5 * y - x,))]), "a float"),
        (theorem(eq(x, y), [Line("=", y, "wish", (Use("wish"),))]), "neither a hypothesis nor in `needs`"),
        (theorem(eq(x, y), [Line("?", y, "wish")]), "unknown relation"),
        (theorem(eq(x, sp.Symbol("w")), [Line("=", sp.Symbol("w"), "wish")]), "neither the notation table nor"),
        (theorem(eq((x**2 - y**2) / (x - y), x + y), [Line("=", x + y, "cancel")]), "not known to be other than 0"),
        (theorem(eq(sp.sqrt(x - y) ** 4, (x - y) ** 2), [Line("=", (x - y) ** 2, "it")]), "both sides are"),
        (
            theorem(eq(sp.sqrt(x - y) ** 3, (x - y) * sp.sqrt(x - y)), [Line("=", (x - y) * sp.sqrt(x - y), "it")]),
            "same",
        ),
        (theorem(le(0, sp.sqrt(x - y)), [Line("<=", sp.sqrt(x - y), "root", slack=(sp.sqrt(x - y),))]), "of a root"),
        (theorem(sp.true, [Line("=", 1, "wish")]), "the conclusion is no relation"),
        (replace(SQUARE, words="at most 7 times"), "a number that is not computed: '7'"),
        (replace(SQUARE, words="at most {most} times"), "don't name the same"),
        (replace(SQUARE, hypotheses=(Hypothesis("idle", le(x, y), "not needed"),)), "no line uses the hypothesis"),
    ],
)  # fmt: skip
def test_what_is_no_proof_is_refused_in_one_sentence(broken, says):
    found = faults(broken)
    assert found, "accepted"
    assert any(says in fault for fault in found), found


def test_a_hypothesis_carries_a_chain_and_only_with_the_right_sign():
    small = Hypothesis("small", le(x, y), "x is small")
    good = theorem(le(z * x, z * y), [Line("<=", z * y, "times z", (Use("small", z),))], hypotheses=(small,))
    assert faults(good) == ()
    flipped = theorem(le(-x, -y), [Line("<=", -y, "times -1", (Use("small", -1),))], hypotheses=(small,))
    assert any("not known to be non-negative" in fault for fault in faults(flipped))


def test_a_quantified_hypothesis_is_used_within_its_range_only():
    step = Hypothesis("step", ForAll(((i, N),), le(u[i + 1], u[i])), "u falls")

    def at(index):
        return theorem(
            le(u[index + 1], u[index]), [Line("<=", u[index], "it", (Use("step", 1, {i: index}),))], hypotheses=(step,)
        )

    assert faults(at(N - 1)) == ()
    assert any("not known to be below" in fault for fault in faults(at(N)))


def test_a_lemma_needs_its_hypotheses_and_its_domain():
    lemma = theorem(le(contraction * x, x), [Line("<=", x, "q < 1", slack=((1 - contraction) * x,))], id="T98")
    assert faults(lemma) == ()

    def using(value):
        return theorem(
            le(value * y, y), [Line("<=", y, "T98", (Use("T98", 1, {contraction: value, x: y}),))], needs=("T98",)
        )

    assert faults(using(beta1), {"T98": lemma}) == ()
    assert any("not known to lie in" in fault for fault in faults(using(2 * beta1), {"T98": lemma}))
    given = Hypothesis("given", le(x, 1), "x <= 1")
    lines = (*lemma.chain(), Line("<=", 1, "given", (Use("given"),)))
    guarded = replace(lemma, conclusion=le(contraction * x, 1), chain=lambda: lines, hypotheses=(given,))
    assert faults(guarded) == ()
    user = theorem(
        le(beta1 * y, 1), [Line("<=", 1, "it", (Use("T98", 1, {contraction: beta1, x: y}),))], needs=("T98",)
    )
    assert any("none of this theorem's" in fault for fault in faults(user, {"T98": guarded}))


AT_LEAST_ONE = replace(theorem(le(1, N), [Line("<=", N, "domain", slack=(N - 1,))]), id="T900")
TIMES = replace(theorem(eq(total(x, k, N), N * x), [Line("=", N * x, "a sum of one number")]), id="T901")
BELOW = replace(
    theorem(
        le(u[0], x),
        [Line("<=", x, "put 0", (Use("all", 1, {k: 0}),))],
        hypotheses=(Hypothesis("all", ForAll(((k, N),), le(u[k], x)), "every u is at most x"),),
    ),
    id="T902",
)


@pytest.mark.parametrize(
    ("conclusion", "use", "hypotheses", "says"),
    [
        (le(1, -7), Use("T900", 1, {N: -7}), (), "n_workers = -7 is not known to be a whole number of at least 1"),
        (le(1, z), Use("T900", 1, {N: z}), (), "z is not known to be a whole number"),
        (le(1, N - d), Use("T900", 1, {N: N - d}), (), "is not known to be a whole number"),
        (eq(total(k + 1, k, N), N * (k + 1)), Use("T901", 1, {x: k + 1}), (), "k is bound there"),
        (le(u[0], y), Use("T902", 1, {x: y}), BELOW.hypotheses, "'all' of T902 is none of this theorem's"),
        (
            eq(total(k * u[k], k, N), k * y),
            Use("sum", 1, {i: k}),
            (Hypothesis("sum", ForAll((i,), eq(total(i * u[k], k, N), i * y)), "y is the sum of u"),),
            "k is bound there",
        ),
    ],
)
def test_a_lemma_is_used_for_what_it_speaks_of(conclusion, use, hypotheses, says):
    """Its counts take whole numbers alone, and a name that it binds can't stand for one of the user's."""
    lemmas = {item.id: item for item in (AT_LEAST_ONE, TIMES, BELOW)}
    assert [faults(item) for item in lemmas.values()] == [(), (), ()]
    needs = tuple({use.name} & lemmas.keys())
    line = Line("=" if conclusion.rel_op == "==" else "<=", conclusion.rhs, "the lemma", (use,))
    wrong = theorem(conclusion, [line], hypotheses=hypotheses, needs=needs)
    assert any(says in fault for fault in faults(wrong, lemmas)), faults(wrong, lemmas)


def test_what_a_theorem_needs_is_used():
    idle = replace(SQUARE, needs=("T999",))
    assert "no line uses T999, which it needs" in faults(idle)


def test_an_example_lies_in_the_instance():
    """Else a theorem whose hypotheses fail at the instance would hold of nothing."""
    w = sp.Symbol("w", real=True)
    made = theorem(
        le(w**2, 1),
        [Line("<=", 1, "as given", (Use("low", sp.Rational(3, 2)),))],
        hypotheses=(Hypothesis("low", le(w, 0), "w is not positive"),),
        instance={w: 2},
        example=lambda: Example("outside", 1.0, {"w": -1.0}),
        where=(Row(w, "w", "a number"),),
    )
    assert judge(made, {}, None).faults == ("the example lies outside the instance: w is -1.0, not 2",)


@pytest.mark.parametrize("given", [9, 9.0, sp.Integer(9)])
def test_an_instance_and_its_example_are_compared_as_numbers(given):
    made = replace(SQUARE, instance={x: 9}, example=lambda: Example("nines", 162.0, {"x": given, "y": 9.0}))
    assert judge(made, {}, None).faults == ()


def test_both_sides_of_a_conclusion_differ_whatever_its_rank(tmp_path):
    same = theorem(le(x, x), folder=tmp_path)
    says = "both sides of the conclusion are the same: it says nothing"
    assert says in faults(replace(same, numeric_checks={"it is": lambda: True}))
    assert says in faults(replace(same, chain=lambda: (Line("<=", x + y, "up", slack=(y,)), Line("<=", x, "down"))))
    same.coq_file.write_text("From Coq Require Import Reals.\n")
    assert same.rank is Rank.KERNEL
    assert faults(same) == (says,)


@pytest.mark.parametrize("same", [le(x, y), ge(y, x)])
def test_a_conclusion_is_none_of_the_hypotheses(same):
    made = theorem(
        le(x, y),
        [Line("<=", y, "as given", (Use("same"),))],
        hypotheses=(Hypothesis("same", same, "x is at most y"),),
        example=lambda: Example("ones", 1.0, {"x": 1.0, "y": 1.0}),
    )
    assert any("'same' is the conclusion itself" in fault for fault in judge(made, {}, None).faults)


def test_of_a_sum_without_a_form_that_always_holds_it_is_said_where_its_proof_goes():
    """SymPy's form of it has a case for beta1 = 1, of which nobody spoke."""
    made = theorem(le(total(beta1**k, k, N), N), [Line("<=", N, "each is below 1")])
    (fault,) = faults(made)
    assert fault.endswith(
        "the residual is not 0, or SymPy does not see that it is (what needs sums or induction goes to Coq)"
    )


def test_an_instance_is_never_called_more():
    cauchy = theorem(
        le(total(u[k], k, N) ** 2, N * total(u[k] ** 2, k, N)),
        [Line("<=", N * total(u[k] ** 2, k, N), "a square", slack=((u[0] - u[1]) ** 2,))],
        instance={N: 2},
    )
    assert faults(cauchy) == ()
    assert cauchy.rank is Rank.INSTANCE
    assert faults(replace(cauchy, instance={N: 3}))


def test_assumptions_of_a_symbol_must_follow_from_its_domain():
    with pytest.raises(ValueError, match="don't follow"):
        Row(x, "x", "positive by assumption", domain=sp.Interval(-1, 1))


def test_a_default_lies_in_its_domain():
    with pytest.raises(ValueError, match="is outside of the domain"):
        Row(x, "x", "a share", domain=sp.Interval.open(0, 1), default=1.5)


@pytest.mark.parametrize("latex", [
    r"x \over z", r"x\div z", r"\dfrac{x}{z}", r"\tfrac xz", r"x\mp z", r"x\ast z", r"x\ne z", r"\neg x", "x y", "xy",
    "x^{2}", "x^2", "-x", "|x|", "2", "x!", "x_{1+2}", r"\hat x y", r"\beta\delta", r"\sqrt x", "", " ",
])  # fmt: skip
def test_a_symbol_is_typeset_as_one_symbol(latex):
    with pytest.raises(ValueError, match="must be one symbol"):
        Row(x, latex, "a number")


def test_a_count_has_no_domain():
    """Its assumptions are stated and no other; a narrower domain would be lost on the way to the statement."""
    narrowed = theorem(le(N, N + 1), domains={N: sp.Interval(2, 5)})
    with pytest.raises(ValueError, match="a count has no domain; say in a hypothesis what is asked of it"):
        narrowed.variables  # noqa: B018  (it is computed)


def test_laws_are_those_of_the_algorithm():
    listed = re.findall(r"\*\*([CL]\d+)|^\| (L\d+) ", (ROOT / "docs" / "algorithm.md").read_text(), re.M)
    assert {a or b for a, b in listed} == LAWS
    made = replace(BY_ID["T1a"], laws=("L99", "C2"))
    assert "it speaks of L99, which is no law" in judge(made, BY_ID, None).faults


@pytest.mark.parametrize("name", ["T6d", "T6e", "T13a", "T13c"])
def test_numbers_between_which_nothing_lies_are_refused(name):
    """All P lie between p_min and p_max, so p_min above p_max describes no run."""
    with pytest.raises(ValueError, match="it needs that p_min <= p_max"):
        bound(BY_ID[name], p_min=2.0, p_max=1.0)


def test_what_lies_between_is_found_under_quantifiers_of_any_name():
    low, high = ForAll(((k, d),), lt(x, u[k])), ForAll(((i, d),), le(u[i], y))
    whole = Hypothesis("low", low, "above x"), Hypothesis("high", high, "at most y")
    [squeezed] = implied(theorem(le(x, y), hypotheses=whole))
    assert squeezed.formula == lt(x, y)
    between = le(u[0], y), le(y, u[1]), le(u[1], u[2]), le(u[2], z)  # nothing but u lies between y and z
    chain = tuple(Hypothesis(f"h{n}", formula, "in a chain") for n, formula in enumerate(between))
    assert le(y, z) in {item.formula for item in implied(theorem(le(x, y), hypotheses=chain))}
    any_number = sp.Symbol("n", integer=True, nonnegative=True)
    perhaps_none = Hypothesis("low", ForAll(((k, any_number),), lt(x, u[k])), "for no k, perhaps")
    by_index = Hypothesis("high", ForAll(((i, d),), le(u[i], y * i)), "at most y i")
    assert implied(theorem(le(x, y), hypotheses=(perhaps_none, whole[1]))) == ()
    assert implied(theorem(le(x, y), hypotheses=(whole[0], by_index))) == ()


def test_a_text_names_no_theorem_that_there_is_not():
    proved = all_theorems()[0]
    lemmas = {item.id: item for item in all_theorems()}
    for part in ("title", "good_for", "remarks"):
        found = judge(replace(proved, **{part: "By T99z and T6."}), lemmas, None).faults
        assert found == ("it speaks of T99z, which is no theorem",)


@pytest.mark.parametrize("item", all_theorems(), ids=lambda item: item.id)
def test_the_text_of_every_statement_parses_back_to_the_object(item):
    names = names_of(item)
    for formula in item.formulas:
        assert parse(text_of(formula), names) == formula


def test_text_of_nested_formulas_parses_back():
    f = sp.Function("f", real=True)
    v = array("v")
    names = {"f": f, "u": u, "n_workers": N, "step": t, "beta1": beta1, "At": At}
    inner = Implies((le(u[t], beta1), le(0, u[t])), eq(f(v), mean(u[i], i, N)))
    for formula in (ForAll((v, (t, N)), inner), ForAll((t,), le(At(v, t), u[t]))):
        assert parse(text_of(formula), {**names, "v": v}) == formula


def test_every_bound_evaluates_with_its_defaults_and_refuses_what_is_outside_its_domain():
    for item in all_theorems():
        assert sp.sympify(float(bound(item))).is_finite, item.id
        for row in item.variables:
            if row.symbol in item.conclusion.rhs.free_symbols and row.interval.end == 1 and not row.is_count:
                with pytest.raises(ValueError, match="outside its domain"):
                    bound(item, **{row.code: 1.5})


def test_every_file_of_theorems_can_be_read():
    """That every theorem holds is what the page of them rests on (test_prove_command.py)."""
    assert collect()[1] == ()


def test_a_theorem_can_not_rest_on_itself_or_in_a_circle():
    own = theorem(le(x, y), [Line("<=", y, "itself", (Use("T99"),))], needs=("T99",))
    assert any("it rests on itself: T99 needs T99" in fault for fault in faults(own, {"T99": own}))
    other = replace(own, id="T98", chain=lambda: (Line("<=", y, "the other", (Use("T99"),)),))
    pair = {"T98": other, "T99": replace(own, needs=("T98",))}
    assert any("rests on itself" in fault for fault in faults(pair["T99"], pair))


@pytest.mark.parametrize(
    ("lemma", "says"),
    [
        (theorem(le(x, y), numeric_checks={"a": lambda: True}, id="T98"), "it can't carry a proof"),
        (theorem(le(x, y), [Line("<=", y, "wish", slack=(y - x,))], id="T98"), "T98 does not hold"),
        (theorem(le(x, y), [Line("<=", y, "x", slack=(y - x,))], id="T98", instance={N: 1}), "it can't carry a proof"),
    ],
)
def test_a_lemma_that_is_not_proved_supports_nothing(lemma, says):
    user = theorem(le(4, 2), [Line("<=", 2, "T98", (Use("T98", 1, {x: 4, y: 2}),))], needs=("T98",))
    assert any(says in fault for fault in faults(user, {"T98": lemma}))


def test_a_hypothesis_about_one_number_says_nothing_of_another():
    hypothesis = Hypothesis("one", le(1, x), "x is at least 1")
    user = theorem(le(1, y), [Line("<=", y, "put y", (Use("one", 1, {x: y}),))], hypotheses=(hypothesis,))
    assert any("speaks of one x only" in fault for fault in faults(user))


def test_contradictory_hypotheses_need_an_example_that_there_is_not():
    low, high = Hypothesis("low", le(x, 1), "x <= 1"), Hypothesis("high", le(2, x), "2 <= x")
    made = theorem(
        le(2, 1), [Line("<=", x, "high", (Use("high"),)), Line("<=", 1, "low", (Use("low"),))], hypotheses=(low, high)
    )
    assert faults(made) == ()
    assert any("no example" in fault for fault in judge(made, {}, None).faults)
    claimed = replace(made, example=lambda: Example("none", 1.0, {"x": 1.5}))
    assert any("it needs that 2 <= 1" in fault for fault in judge(claimed, {}, None).faults)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Row(sp.Symbol("e", integer=True, positive=True, even=True), "e", "even in secret"),
        lambda: Row(sp.IndexedBase("w", positive=True), "w", "positive in secret"),
        lambda: Row(sp.Function("f", positive=True), "f", "positive in secret", coq="R -> R"),
    ],
)
def test_a_symbol_assumes_nothing_in_secret(make):
    with pytest.raises(ValueError, match="assume"):
        make()


class sgn_(sp.Function):  # noqa: N801 - looks like the project's
    def _eval_is_positive(self):
        return True


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (theorem(le(0, sgn_(x)), [Line("<=", sgn_(x), "sign", slack=(sgn_(x),))]), "has no meaning here"),
        (theorem(eq(sp.Sum(1, (k, 0, N - 6)), N - 5), [Line("=", N - 5, "count")]), "must run from 0"),
        (theorem(eq(sp.Product(x, (k, 0, N - 3)), x ** (N - 2)), [Line("=", x ** (N - 2), "it")]), "no meaning"),
        (theorem(eq(x, y), [Line("=", y, "w")], hypotheses=(Hypothesis("h : (g", eq(x, y), "x"),)), "no identifier"),
        (theorem(eq(sp.Symbol("sqrt", positive=True), x), [Line("=", x, "w")]), "neither the notation"),
        (theorem(le(0, u[N - 5]), [Line("<=", u[N - 5], "index", (Use("all", 1, {k: N - 5}),))], hypotheses=(
            Hypothesis("all", ForAll(((k, N),), le(0, u[k])), "u is non-negative"),)), "to be a natural number"),
        (theorem(le(x, y), [Line("<=", y, "none", (Use("idle", 0),), slack=(y - x,))], hypotheses=(
            Hypothesis("idle", le(x, y), "x <= y"),)), "adds up to 0"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(broken, says):
    assert any(says in fault for fault in faults(broken)), faults(broken)


def test_a_strict_chain_needs_a_positive_slack():
    assert (
        faults(theorem(sp.Lt(x, x + 1, evaluate=False), [Line("<", x + 1, "one more", slack=(sp.Integer(1),))])) == ()
    )
    flat = theorem(
        sp.Lt(2 * x * y, x**2 + y**2, evaluate=False), [Line("<", x**2 + y**2, "square", slack=((x - y) ** 2,))]
    )
    assert any("known to be positive" in fault for fault in faults(flat))
