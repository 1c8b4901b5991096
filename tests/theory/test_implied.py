"""What refuses a user's inputs is proved: each theorem that another names as implied follows from its hypotheses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

from tests.theory.theory_support import theorem, u, x, y, z
from theory import chain, kernel, kernel_record, mutants, registry
from theory.chain import faults
from theory.evaluate import bound, inputs
from theory.formula import le, lt
from theory.mutants import Score, judge_mutant
from theory.mutations import mutants_of
from theory.notation import N
from theory.registry import all_theorems
from theory.theorem import Example, Hypothesis, Line, Use
from theory.verdict import judge

BY_ID = {item.id: item for item in all_theorems()}
GIVEN = Hypothesis("given", le(x**2 + u[0] ** 2, 2 * x * y), "x is below twice y, and by how much u says")
OTHER = Hypothesis("other", le(y, x), "y is at most x")
LEMMA = theorem(
    le(x, 2 * y),
    [Line("<=", 2 * y, "divided by x", (Use("given", 1 / x),), slack=(u[0] ** 2 / x,))],
    id="T98",
    title="x is at most twice y",
    hypotheses=(GIVEN,),
)
OF_ARRAYS = replace(
    LEMMA,
    conclusion=le(u[0] ** 2, 2 * x * y),
    chain=lambda: (Line("<=", 2 * x * y, "without a square", (Use("given"),), slack=(x**2,)),),
)
OF_OTHERS = replace(
    LEMMA, conclusion=le(x, 2 * y + z), chain=lambda: (*LEMMA.chain(), Line("<=", 2 * y + z, "z is positive", (), (z,)))
)
FROM_ANOTHER = replace(
    LEMMA,
    hypotheses=(OTHER,),
    title="y is at most twice x",
    conclusion=le(y, 2 * x),
    chain=lambda: (Line("<=", 2 * x, "as given", (Use("other"),), slack=(x,)),),
)
USER = theorem(
    le(x**2 + u[0] ** 2, 2 * x * y + y),
    [Line("<=", 2 * x * y + y, "y is positive", (Use("given"),), slack=(y,))],
    hypotheses=(GIVEN,),
    implied=(LEMMA,),
    example=lambda: Example("ones", 2.0, {"x": 1.0, "y": 1.0, "u": [1.0]}),
)


def test_what_is_implied_refuses_inputs_and_is_no_input_itself():
    assert judge(USER, {"T98": LEMMA}, None).holds
    assert bound(USER, x=2.0, y=1.0) == 5.0
    with pytest.raises(ValueError, match=r"needs that they obey T98 \(x is at most twice y\)"):
        bound(USER, x=3.0, y=1.0)
    assert {item.row.code for item in inputs(USER)} == {"x", "y"}
    narrower = replace(USER, domains={x: sp.Interval.open(0, 2)})
    assert faults(narrower, {"T98": LEMMA}) == ()


@pytest.mark.parametrize(
    ("lemma", "lemmas", "says"),
    [
        (LEMMA, {}, "T98, which it names as implied, is none of the theorems"),
        (LEMMA, {"T98": replace(LEMMA)}, "T98, which it names as implied, is none of the theorems"),
        (replace(LEMMA, chain=None, numeric_checks={"a": lambda: True}), None, "only of the rank numerical"),
        (replace(LEMMA, instance={N: 1}), None, "only of the rank instance"),
        (replace(LEMMA, conclusion=le(x, y)), None, "T98 does not hold: the proof ends at 2*y, the statement at y"),
        (FROM_ANOTHER, None, "the hypothesis 'other' of T98 is none of this theorem's"),
        (replace(LEMMA, domains={x: sp.Interval.open(0, 1)}), None, "x is not known to lie in Interval.open(0, 1)"),
        (replace(LEMMA, domains={y: sp.Interval.Lopen(0, 9)}), None, "y is not known to lie in Interval.Lopen(0, 9)"),
        (replace(LEMMA, needs=("T99",)), None, "it rests on itself: T99 needs T98 needs T99"),
        (replace(LEMMA, implied=(USER,)), None, "it rests on itself: T99 needs T98 needs T99"),
        (OF_ARRAYS, None, "T98 is no condition on its inputs: it speaks of u"),
        (OF_OTHERS, None, "T98 is no condition on its inputs: it speaks of z"),
        (replace(LEMMA, conclusion=sp.Ge(x, sp.oo, evaluate=False)), None, "has no meaning here"),
    ],
)
def test_what_does_not_follow_is_refused_in_a_sentence(lemma, lemmas, says):
    user = replace(USER, implied=(lemma,))
    verdict = judge(user, {"T98": lemma} if lemmas is None else lemmas, None)
    assert verdict.unchecked == ()
    assert len(verdict.faults) == 1, verdict.faults
    assert says in verdict.faults[0], verdict.faults


def test_the_lemmas_of_these_tests_hold_by_themselves():
    for lemma in (LEMMA, OF_ARRAYS, OF_OTHERS, FROM_ANOTHER):
        assert faults(lemma, {}) == ()


def test_an_id_or_a_relation_is_no_theorem():
    for odd in ("T1p", GIVEN):
        with pytest.raises(TypeError, match=r"`T99.implied\[0\]` must be a Theorem object"):
            registry._check_kinds(replace(USER, implied=(odd,)))


def test_what_coq_has_not_checked_leaves_unchecked_what_rests_on_it(monkeypatch):
    record = kernel_record.read_record()
    assert judge(BY_ID["T1c"], BY_ID, None).holds
    monkeypatch.setattr(kernel_record, "read_record", lambda: {name: record[name] for name in record if name != "T1p"})
    first = BY_ID["T1p"]
    line = Line("<=", first.conclusion.rhs, "T1p", (Use("T1p"),))
    chained = replace(first, id="T99", chain=lambda: (line,), needs=("T1p",))
    for user in (BY_ID["T1c"], chained):
        [reason] = judge(user, BY_ID, None).unchecked
        assert reason.startswith("T1p, on which it rests: no record that Coq has checked it")
    monkeypatch.setattr(kernel_record, "read_record", lambda: {name: record[name] for name in record if name != "T3a"})
    assert judge(BY_ID["T3e"], BY_ID, None).holds  # Coq has read T3a's file for it


def test_a_changed_implied_theorem_is_rejected_and_survives_where_nobody_looks(monkeypatch):
    user = BY_ID["T6e"]
    changed = [mutant for mutant in mutants_of(user) if mutant.kind == "implied"]
    assert {mutant.part for mutant in changed} == {"implied T6m"}
    score = Score()
    judge_mutant(changed[0], user, BY_ID, score)
    assert score.rejected == {"implied": 1}
    monkeypatch.setattr(chain, "_not_implied", lambda theorem, lemmas: iter(()))
    judge_mutant(changed[0], user, BY_ID, score)
    assert score.survived == [str(changed[0])]


def test_a_number_of_the_words_that_is_accepted_is_no_true_mutant(monkeypatch):
    user = BY_ID["T1n"]
    mutant = next(mutant for mutant in mutants_of(user) if mutant.kind == "words")
    monkeypatch.setattr(mutants, "rejection", lambda theorem, lemmas: None)
    score = Score()
    judge_mutant(mutant, user, BY_ID, score)
    assert (score.survived, score.true) == ([str(mutant)], [])


def test_a_strict_conclusion_refuses_the_equal_case():
    """Not proved here: a strict relation is compared strictly."""
    strict = replace(LEMMA, conclusion=lt(x, 2 * y))
    with pytest.raises(ValueError, match="they obey T98"):
        bound(replace(USER, implied=(strict,)), x=2.0, y=1.0)


def test_the_sample_through_coq_changes_statements(monkeypatch, tmp_path):
    """A mutant of the words has the statement as it was, of which Coq could only say that it is true."""
    both = [next(item for item in mutants_of(BY_ID["T1n"]) if item.kind in kinds) for kinds in (("words",), ("sign",))]
    monkeypatch.setattr(mutants, "mutants_of", lambda one: iter(both))
    monkeypatch.setattr(kernel, "compiled", lambda path, folder: None)

    def refuse(file):
        raise kernel.CoqFailed(file.name)

    monkeypatch.setattr(kernel, "run_coq", refuse)
    score = Score()
    for seed in range(10):
        mutants.coq_sample([BY_ID["T1n"]], tmp_path, count=1, seed=seed, jobs=1, score=score)
    assert (score.coq_rejected, score.coq_true) == (10, [])
