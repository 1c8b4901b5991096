"""What theorems say in words: ids that exist, formulas that keep their meaning, numbers of the statement."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import sympy as sp

from tests.theory.theory_support import theorem, x, y
from theory import wording
from theory.chain import faults
from theory.floating import gamma
from theory.formula import eq, le
from theory.mutations import mutants_of
from theory.notation import beta1, contraction
from theory.registry import all_theorems, select
from theory.theorem import Line, Quoted, Theorem
from theory.wording import computed_by, filled, number_text, words_of

DOCS = Path(__file__).parents[2] / "docs"
THEOREMS = all_theorems()
IDS = {theorem.id for theorem in THEOREMS}
NAMED = re.compile(r"\bT\d+[a-z]?\b")


def prose(theorem: Theorem) -> str:
    """Every sentence of a theorem."""
    hypotheses = (hypothesis.words for hypothesis in theorem.hypotheses)
    rows = (row.meaning for row in theorem.variables)
    parts = (theorem.title, theorem.words, theorem.good_for, theorem.source, theorem.remarks, *hypotheses, *rows)
    return "\n".join((*parts, *theorem.numeric_checks))


def unknown_ids(text: str) -> set[str]:
    """Theorem ids in a text that name neither a theorem nor a group of them, such as T5 for T5a, T5b ..."""
    groups = {name.rstrip("abcdefghijklmnopqrstuvwxyz") for name in IDS}
    return {name for name in NAMED.findall(text) if name not in IDS | groups}


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.id)
def test_every_theorem_that_is_named_exists(theorem: Theorem) -> None:
    assert unknown_ids(prose(theorem)) == set()
    assert theorem.id not in NAMED.findall(theorem.words)


@pytest.mark.parametrize("page", ["algorithm.md", "claims.md"])
def test_every_theorem_that_a_page_names_exists(page: str) -> None:
    assert unknown_ids((DOCS / page).read_text(encoding="utf-8")) == set()


def test_a_reference_to_nothing_is_seen() -> None:
    assert unknown_ids("see T5n, T5 and T5a; table T1") == {"T5n"}


def said(words: str, value: sp.Expr) -> str:
    numbers = {"x": value}
    return words_of(
        Theorem(id="T0", title="", conclusion=eq(beta1, beta1), words=words, numbers=numbers, good_for="", source="")
    )


@pytest.mark.parametrize(
    ("words", "value", "text"),
    [
        ("within {x} E of it", 2 - beta1, "within (2 - beta1) E of it"),
        ("the power of E/{x}.", 1 - beta1, "the power of E/(1 - beta1)."),
        ("stays below {x}.", 1 - beta1, "stays below (1 - beta1)."),
        ("the share {x} of u", beta1 / contraction, "the share (beta1/contraction) of u"),
        ("the limit is {x}.", beta1 / contraction, "the limit is beta1/contraction."),
        ("over E/{x}.", beta1 * contraction, "over E/(beta1*contraction)."),
        ("the limit {x} E", beta1 * contraction, "the limit beta1*contraction E"),
        ("E/{x}", beta1, "E/beta1"),
        ("at least {x}, or", sp.Rational(1, 2), "at least 1/2, or"),
        ("E/{x}", sp.Rational(1, 2), "E/(1/2)"),
        ("{x} learning rates", 1 - sp.sqrt(2) / 2, "0.293 learning rates"),
    ],
)
def test_a_formula_keeps_its_meaning_in_a_sentence(words: str, value: sp.Expr, text: str) -> None:
    assert said(words, value) == text


ROUNDING = [theorem for theorem in THEOREMS if theorem.id.startswith("T11") and theorem.numbers]


@pytest.mark.parametrize("theorem", ROUNDING, ids=lambda theorem: theorem.id)
def test_counts_of_roundings_are_those_of_the_bound(theorem: Theorem) -> None:
    numbers = {Quoted.of(number).value for number in theorem.numbers.values()}
    counts = (term.args[0] for term in theorem.conclusion.atoms(gamma))
    counted = {cast(sp.Expr, number).as_coeff_Add()[0] for number in counts}
    assert numbers <= counted


def test_gain_of_one_bit_is_computed_from_the_statement() -> None:
    (theorem,) = select(["T10b"])
    assert Quoted.of(theorem.numbers["gain"]).value == 16
    assert "divides the wire time by 16 " in words_of(theorem)


SAYS = theorem(
    le(2 * x * y, x**2 + 3 * y**2),
    [Line("<=", x**2 + 3 * y**2, "squares", slack=((x - y) ** 2, 2 * y**2))],
)


@pytest.mark.parametrize(
    ("sentence", "numbers", "says"),
    [
        ("at most 3 times", {}, "a number that is not computed: '3'"),
        ("at most 0.937 of it", {}, "a number that is not computed: '0.937'"),
        ("it costs 12 % more", {}, "a number that is not computed: '12'"),
        ("like x^3", {}, "a number that is not computed: 'x^3'"),
        ("less than five times", {}, "'five' is no number of the statement"),
        ("the Fourth power of x", {}, "'Fourth' is no number of the statement"),
        ("it is {x}", {"x": 5}, "the number x, 5, is no part of the statement"),
        ("it is {x}", {"x": 2 * y}, ""),
        ("it is {x}", {"x": y / 2}, "the number x, y/2, is no part"),
        ("it is {x}", {"x": sp.Float(3.0)}, "the number x, 3.0"),
        ("it is {x}", {"x": Quoted(3 * y**2, {y: 2})}, ""),
        ("it is {x}", {"x": Quoted(4 * y**2, {y: 2})}, "the number x, 4*y**2, is no part"),
        ("it is {x}", {"x": Quoted(12, by="a count of something")}, ""),
        ("it is {x} at ten", {"x": Quoted(3 * y**2, {y: 10})}, ""),
        ("it is {x}", {}, "don't name the same: x"),
        ("it is {x}", {"x": Quoted(3 * y**2, {2: 7})}, "at a value of 2, which is no variable"),
        ("it is {x}", {"x": Quoted(3 * y**2, {x * y: 7})}, "at a value of x*y, which is no variable"),
        ("it is {x}", {"x": Quoted(3 * y**2, {y**2: -7})}, "outside the domains, at y**2 = -7"),
        ("it is {x}{x}", {"x": 3}, "'{x}{x}' makes another number of what is quoted"),
        ("it is .{x} of it", {"x": 3}, "'{x}' makes another number"),
        ("it is √{x}", {"x": 3}, "'{x}' makes another number"),
        ("it is {x}% of it", {"x": 3}, "'{x}%' makes another number"),
        ("it is minus {x}", {"x": 3}, "'minus {x}' makes another number"),
        ("it is {x}/{x}", {"x": 3}, "'{x}/{x}' makes another number"),
        ("it is {x} percent", {"x": 3}, "'percent' is no number of the statement"),
        ("an order of magnitude", {}, "'order of magnitude' is no number of the statement"),
        ("trebled", {}, ""),
        ("n\u0456ne of them", {}, "'\\u0456' is neither a Latin nor a Greek letter"),
        ("F\u200bive of them", {}, "'\\u200b' is neither a Latin nor a Greek letter"),
        ("it is so", {"x": 2}, "don't name the same: x"),
        ("twice, three times, three-fold, a threefold square", {}, ""),
        ("third", {}, ""),
        ("half of it", {}, "'half' is no number of the statement"),
        ("½ of x²", {}, "'½' is no number of the statement"),
        ("⅓ of it", {}, "'⅓' is no number of the statement"),
        ("forty-two", {}, "'forty-two' is no number of the statement"),
        ("the Twenty-first", {}, "'Twenty-first' is no number of the statement"),
        ("seven-fold", {}, "is no number of the statement"),
        ("sextuple", {}, "is no number of the statement"),
        ("a trillion", {}, "is no number of the statement"),
        ("two-fifths", {}, "is no number of the statement"),
        ("fifths of it", {}, "is no number of the statement"),
        ("tenfold", {}, "is no number of the statement"),
        ("a dozen", {}, "is no number of the statement"),
        ("quarters", {}, "is no number of the statement"),
        ("quadrupled", {}, "is no number of the statement"),
        ("thirteen", {}, "is no number of the statement"),
        ("ninety", {}, "is no number of the statement"),
        ("¼", {}, "is no number of the statement"),
        ("x⁴", {}, "is no number of the statement"),
        ("Ⅳ", {}, "is no number of the statement"),
        ("f-i-v-e of it", {}, "'five' is no number of the statement"),
        ("sevenish", {}, "'sevenish' is no number of the statement"),
        ("a Hundredweight", {}, "'Hundredweight' is no number of the statement"),
        ("a century", {}, "'century' is no number of the statement"),
        ("for centuries and millennia", {}, "'centuries' is no number of the statement"),
        ("in the forties", {}, "'forties' is no number of the statement"),
        ("halving it", {}, "'halving' is no number of the statement"),
        ("quadrupling", {}, "'quadrupling' is no number of the statement"),
        ("doubling, trebling, a cubic, a triplet, threesome", {}, ""),
        ("It tends to a Fourier transform, a tensor under tension; often the weight, in attendance", {}, ""),
        ("fiveeight of it", {}, "a number that is not computed: 'fiveeight'"),
        ("Onethree times", {}, "a number that is not computed: 'Onethree'"),
        ("vii of it", {}, "a number that is not computed: 'vii'"),
        ("at most XL", {}, "a number that is not computed: 'XL'"),
        ("IIII times", {}, "a number that is not computed: 'IIII'"),
        ("{} of it", {}, "'{}' is no place for a number"),
        ("{x of it", {}, "'{x' is no place for a number"),
        ("{x.real} of it", {}, "'{x.real}' is no place for a number"),
        ("{x} squared", {"x": Quoted(3 * y**2, {y: 2})}, "makes another number of what is quoted"),
        ("it is {x}", {"x": Quoted(3 * y**2, {y: sp.Symbol("z")})}, "the number x is quoted at z, which is no symbol"),
        ("a five-sided one", {}, "'five' is no number of the statement"),
        ("it is zero", {}, "'zero' is no number of the statement"),
        ("nil of it", {}, "'nil' is no number of the statement"),
        ("xi, a mix, a linear limit of different diagonals, x-y, virtual, two-sided", {}, ""),
        ("where step_size is met", {}, "step_size is neither one of its hypotheses nor a code name"),
        ("the limit p_max of freeze_step", {}, ""),
        ("it is {x}", {"x": Quoted(3 * y**2, {y: sp.nan})}, "the number x is quoted outside the domains, at y = nan"),
        ("it is {x}", {"x": Quoted(3 * y**2, {y: sp.I})}, "outside the domains, at y = I"),
        ("it is {x}", {"x": Quoted(3 * y**2, {y: sp.oo})}, "the number x has no value: 3*y**2 is oo there"),
        ("T1a, L2, beta1, the l2 scale, 1-bit LAMB, 0/1 Adam, two-sided, float32", {}, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["title", "words", "good_for"])
def test_a_number_in_a_sentence_is_computed_from_the_statement(place, sentence, numbers, says):
    made = replace(SAYS, numbers=numbers, **{place: sentence})
    if place == "title" and "{x}" in sentence:
        says = f"title: a number has no place there: {'{x}'}"
    found = faults(made)
    assert found == () if not says else any(says in fault for fault in found), found


@pytest.mark.parametrize("mark", ["\n", "|", "<", "`", "#", "\\", "\t", "\u2028"])
def test_a_title_is_one_line_of_plain_words(mark):
    assert any(
        f"title: {mark!r} has no place" in fault for fault in faults(replace(SAYS, title=f"an upper{mark}bound"))
    )


def test_no_numeral_is_taken_for_several_that_run_together():
    assert [word for word in wording.LETTERS if wording.RUN_TOGETHER.search(word)] == []


def test_a_share_in_letters_is_a_share_of_the_statement():
    """Of 2xy "half" was taken for the 2."""
    squares = x**2 / 2 + 3 * y**2 / 2
    line = Line("<=", squares, "squares", slack=((x - y) ** 2 / 2, y**2))
    assert faults(theorem(le(x * y, squares), [line], words="half of it, ½ of x², halved")) == ()


def test_what_is_said_is_what_is_computed():
    numbers = {
        "at": Quoted(3 * y**2, {y: 2}),
        "count": Quoted(254, by="a count"),
        "share": Quoted(y / 7, {y: 1}, by="it"),
    }
    made = replace(SAYS, words="{at}, {count}", good_for="{share}", numbers=numbers)
    assert words_of(made) == "12, 254"
    assert filled(made, made.good_for) == "1/7"
    assert computed_by(made) == "254 is a count; 1/7 is it"
    assert number_text(sp.Rational(7, 370)) == "0.0189"


def test_a_changed_number_of_the_words_is_rejected_and_no_word_says_it_without_a_place():
    """Who changes the statement and forgets the sentence is told, where the number is no longer in the statement."""
    made = replace(SAYS, words="at most {bound}", numbers={"bound": x**2 + 3 * y**2})
    assert faults(made) == ()
    changed = [mutant for mutant in mutants_of(made) if mutant.kind == "words"]
    assert len(changed) > 5
    assert all(any("is no part of the statement" in fault for fault in faults(mutant.theorem)) for mutant in changed)
    other = le(2 * x * y, x**2 + 4 * y**2)
    lines = (Line("<=", other.rhs, "squares", slack=((x - y) ** 2, 3 * y**2)),)
    forgotten = replace(made, conclusion=other, chain=lambda: lines)
    assert faults(forgotten) == (
        "the number bound, x**2 + 3*y**2, is no part of the statement: `Quoted(..., by=)` says whose it is",
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-4, "outside the domains, at live = -4"),
        (sp.Rational(1, 2), "at live = 1/2"),
        (0, "has no value: 1/live is zoo"),
    ],
)
def test_a_number_is_quoted_within_the_domains(value: sp.Expr, says: str) -> None:
    """The end of a domain may be a limit."""
    (proved,) = select(["T1o"])
    ((name, number),) = proved.numbers.items()
    (symbol,) = sp.sympify(Quoted.of(number).part).free_symbols
    changed = replace(proved, numbers={name: Quoted(1 / cast(sp.Expr, symbol), {symbol: value})})
    assert any(says in fault for fault in wording.faults(changed))
