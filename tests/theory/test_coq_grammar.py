"""What a Coq file may say, and what the words of statements mean: everything else is refused before Coq reads it."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pytest
import sympy as sp

from tests.theory.theory_support import GOOD, a_kernel_theorem, coq, theorem, u, x
from theory import coq_grammar, coq_statement, kernel, kernel_record, vocabulary
from theory.chain import faults
from theory.formula import eq, le, sgn, total
from theory.notation import Row, count, d

y = sp.Symbol("y", real=True)
FOLDER = Path(kernel.__file__).parent / "theorems"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.v")), ids=lambda path: path.stem)
def test_every_file_of_ours_keeps_to_the_list(path):
    assert list(coq_grammar.faults(path)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Axiom classic : False.",
        "Conjecture wish : False.",
        "Parameter wish : False.",
        "Variable wish : False.",
        "Hypothesis wish : False.",
        "Context (wish : False).",
        "Let wish := 0.",
        "Fact Rabs (x : R) : R. Proof. exact x. Defined.",
        "Remark Rabs (x : R) : R. Proof. exact x. Defined.",
        "Corollary Rabs (x : R) : R. Proof. exact x. Defined.",
        "Example Rabs : R. Proof. exact 0. Defined.",
        "Instance Rabs : True := I.",
        "Canonical Structure s := 0.",
        "Coercion INR : nat >-> R.",
        "Class c := { f : R }.",
        "CoInductive c := C : c -> c.",
        'Notation "a <= b" := True : R_scope.',
        'Local Notation "a <= b" := True : R_scope.',
        'Infix "<=" := foo.',
        "Notation R := nat.",
        "Module M. End M.",
        "Module Type M. Parameter wish : False. End M.",
        "Declare Module M : T.",
        "Include M.",
        "Import M.",
        "Export M.",
        "Open Scope nat_scope.",
        "Bind Scope nat_scope with R.",
        "Unset Guard Checking.",
        "Set Universe Polymorphism.",
        "#[bypass_check(guard)] Fixpoint wish (n : nat) : False := wish n.",
        "Program Definition wish : R := 0.",
        "Load Evil.",
        'Load "Evil.v".',
        'Declare ML Module "evil".',
        "Require Import Reals.",
        "Require Onebit.Evil.",
        "From Onebit Require Import Absent.",
        "From Elsewhere Require Import All.",
        'Redirect "file" Print nat.',
        'Extraction "file" plus.',
        "Quit.",
        "Drop.",
        "Abort All.",
        "Admit Obligations.",
        "Definition wish : False.",
        "Lemma wish : False. Admitted.",
        "Lemma wish : False. Proof. Admitted.",
        "Lemma wish : False. Proof. Axiom bad : False. exact bad. Qed.",
        "Lemma wish : False. Proof. - { Axiom bad : False. } exact bad. Qed.",
        "Lemma wish : False. Proof. 1: { Unset Guard Checking. } exact bad. Qed.",
        "Lemma wish : False. Proof. #[local] Axiom bad : False. exact bad. Qed.",
        "Lemma wish : False. (* Proof. *) exact bad. Qed.",
        "Lemma one : True with Rabs : R -> R. Proof. exact I. exact (fun x => x). Qed.",
        "Lemma wish : True. Proof. exact I.",
        "Section S. Variable wish : False.",
        "Section S. Variable a : R. End S. Variable wish : False.",
        '(* "*)" *) Axiom wish : False.',
        "(* (* *) Axiom wish : False.",
        "(* *) Axiom wish : False. (* *)",
        'Definition a := "(*". Axiom wish : False. (* "*)" *)',
        "Definition a := 0",
        "Definition ℝ := nat.",
    ],
)
def test_every_other_command_is_refused(tmp_path, text):
    file = tmp_path / "T99.v"
    file.write_text(text + "\n")
    assert list(coq_grammar.faults(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Notation R := nat.", "stands outside of a section: write Local Notation"),
        ("Let wish := 0.", "stands outside of a section: write Definition"),
        ("Variable wish : False.", "stands outside of a section: there it is an axiom"),
        ('Notation "a <= b" := True : R_scope.', "a notation may be the short name of a term"),
        ('Local Notation "a <= b" := True : R_scope.', "a notation may be the short name of a term"),
    ],
)
def test_a_hint_is_true_of_what_the_file_has(tmp_path, text, says):
    """Who follows it has a file that is accepted."""
    file = tmp_path / "T99.v"
    file.write_text(text + "\n")
    [reason] = coq_grammar.faults(file)
    assert says in reason
    if "write" in reason:
        command = reason.partition("write ")[2]
        file.write_text(f"{command} {text.partition(' ')[2]}\n")
        assert list(coq_grammar.faults(file)) == []


def test_comments_and_strings_are_read_as_coq_reads_them():
    text = 'Lemma(*"*)Rabs. Defined.\n(*"*) a (* x (* y. *) z. *) : True. (* . *) Proof. exact I. Qed.\n'
    assert list(coq_grammar.sentences(text)) == ["Lemma a : True", "Proof", "exact I", "Qed"]
    assert list(coq_grammar.requirements("From(* *)Onebit Require\n Import A B. From Coq Require C.")) == ["A", "B"]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("Prelude", "Rle_dec 0 x", "Rle_dec (-1) x"),
        ("Prelude", "| S m => bigsum m f + f m", "| S m => bigsum m f + f n"),
        ("Prelude", "(* Sign with", "Lemma Rle_dec : R -> R -> {True} + {False}.\nProof. left. exact I. Defined.\n(*"),
        ("Prelude", "Fixpoint bigsum", "Local Notation R0 := R1.\nFixpoint bigsum"),
        ("Rounding", "/ 2 ^ precision", "/ 2 ^ (precision - 1)"),
        ("Rounding", "ZnearestE", "ZnearestA"),
        ("Rounding", "if only_products then O else 1%nat", "O"),
        ("Updates", "| Multiple c a => c * ideal a x", "| Multiple c a => ideal a x"),
    ],
)  # fmt: skip
def test_a_changed_definition_is_found_without_coq(tmp_path, file, old, new):
    text = (FOLDER / f"{file}.v").read_text()
    assert text.count(old) >= 1
    for other in vocabulary.VOCABULARY:
        shutil.copy(FOLDER / f"{other}.v", tmp_path)
    assert not list(vocabulary.faults((file,), tmp_path))
    (tmp_path / f"{file}.v").write_text(text.replace(old, new, 1))
    assert any("pinned" in fault for fault in vocabulary.faults((file,), tmp_path))


def test_a_lemma_after_the_last_definition_needs_no_new_pin(tmp_path):
    text = (FOLDER / "Prelude.v").read_text()
    (tmp_path / "Prelude.v").write_text(text + "Lemma more : True.\nProof. exact I. Qed.\n")
    assert not list(vocabulary.faults((), tmp_path))


def test_words_of_a_file_that_is_not_pinned_are_refused(tmp_path):
    shutil.copy(FOLDER / "Prelude.v", tmp_path)
    (tmp_path / "Evil.v").write_text("Definition Rabs (x : nat) := x.\n")
    assert any("enter them, and a pin" in fault for fault in vocabulary.faults(("Evil",), tmp_path))


def test_a_file_that_requires_itself_ends(tmp_path):
    made = a_kernel_theorem(tmp_path, GOOD, "From Onebit Require Import A.")
    (tmp_path / "A.v").write_text("From Onebit Require Import B.\n")
    (tmp_path / "B.v").write_text("From Onebit Require Import A.\n")
    assert {path.stem for path in kernel.sources(made.coq_file)} == {"A", "B", "Prelude", "T99"}


@pytest.mark.parametrize("kind", ["nonnegreal", "nat -> R", "R"])
def test_a_number_has_no_coq_type_of_its_own(kind):
    with pytest.raises(ValueError, match="Coq type"):
        Row(x, "x", "any number", coq=kind)


@pytest.mark.parametrize(
    "kind",
    ["nat -> nonnegreal", "R -> R) (bad : False", "R", "", "nat -> nat", "R -> Prop", "(R -> R) -> R",
     "forall n : nat, R", "R -> R (* *)", "R->R", "R -> posreal -> R"],
)  # fmt: skip
def test_a_function_s_coq_type_is_arrows_between_numbers(kind):
    with pytest.raises(ValueError, match="Coq type"):
        Row(sp.Function("f", real=True), "f", "a function", coq=kind)


@pytest.mark.parametrize("kind", ["nat -> nonnegreal", "nat -> R", "nat -> R) (no : 0 = 1"])
def test_an_array_s_coq_type_comes_from_its_use(kind):
    with pytest.raises(ValueError, match="Coq type"):
        Row(u, "u", "any numbers", coq=kind)


@coq
def test_an_axiom_in_a_support_file_is_refused_by_its_place_even_past_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr(coq_grammar, "faults", lambda path: iter(()))  # Coq must find it out by itself
    made = a_kernel_theorem(
        tmp_path,
        "intros. destruct Onebit.Classical_Prop.classic.",
        "From Onebit Require Classical_Prop.",
    )
    (tmp_path / "Classical_Prop.v").write_text("Axiom classic : False.\n")
    found = kernel.check_all([made], tmp_path / "out")["T99"].faults
    assert any("Onebit.Classical_Prop.classic" in fault for fault in found), found


@coq
def test_a_word_that_the_file_hides_is_found_even_past_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr(coq_grammar, "faults", lambda path: iter(()))
    shutil.copy(FOLDER / "Prelude.v", tmp_path)
    (tmp_path / "Evil.v").write_text(
        "From Onebit Require Import Prelude.\nFact sgn (x : R) : R.\nProof. exact 1. Defined.\n"
    )
    made = theorem(eq(sgn(x), 1), folder=tmp_path)
    stated = coq_statement.statement_of(made)
    made.coq_file.write_text(f"From Onebit Require Import Prelude Evil.\n{stated}\nProof. intros. reflexivity. Qed.\n")
    assert kernel.check_all([made], tmp_path / "out")["T99"].faults


@coq
def test_the_definitions_mean_what_python_evaluates(tmp_path):
    shutil.copy(FOLDER / "Prelude.v", tmp_path)
    checks = {
        "sgn 0 = 1": "unfold sgn; destruct (Rle_dec 0 0); lra",
        "sgn (- (1 / 2)) = -1": "unfold sgn; destruct (Rle_dec 0 (- (1 / 2))); lra",
        "sgn (1 / 2) = 1": "unfold sgn; destruct (Rle_dec 0 (1 / 2)); lra",
        "bigsum 0 (fun k => 7) = 0": "simpl; lra",
        "bigsum 3 (fun k => INR k) = 3": "simpl; lra",
    }
    lines = [f"Lemma l{place} : {what}.\nProof. {how}. Qed.\n" for place, (what, how) in enumerate(checks.items())]
    (tmp_path / "Points.v").write_text("From Onebit Require Import Prelude.\n" + "".join(lines))
    for name in ("Prelude", "Points"):
        kernel.run_coq(tmp_path / f"{name}.v")


def test_a_refused_statement_says_where_it_differs(tmp_path):
    made = a_kernel_theorem(tmp_path, GOOD)
    text = made.coq_file.read_text()
    made.coq_file.write_text(text.replace("((INR live) * x).", "((INR live) + x)."))
    assert "it has `" in (coq_statement.mismatch(made) or "")
    assert "(INR live) + x)" in (coq_statement.mismatch(made) or ""), coq_statement.mismatch(made)


@coq
def test_an_interruption_ends_every_coq_at_once(tmp_path):
    (tmp_path / "Long.v").write_text("Goal True. do 1000000000 (try fail). Abort.\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    def interrupted() -> None:
        with kernel.workers(1) as pool:
            running = [pool.submit(kernel.run_coq, tmp_path / "Long.v") for _ in range(2)]
            while not kernel.RUNNING and not running[0].done():
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not kernel.RUNNING
    took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert took < kernel.SECONDS / 4  # of a processor; it would have run to its limit


def test_the_record_is_read_as_strictly_as_coq(tmp_path):
    made = a_kernel_theorem(tmp_path, GOOD)
    stated = " ".join(coq_statement.statement_of(made).split())
    entry = {
        "statement": kernel.digest(stated), "file": kernel.file_digest(made),
        "axioms": ["ClassicalDedekindReals.sig_forall_dec"], "coq": "8.16.1", "date": "2026-01-01",
    }  # fmt: skip
    assert kernel_record.faults(made, {"T99": entry}) == ()
    wrong = [
        {"axioms": ["T1a.bad"]}, {"axioms": None}, {"axioms": "Classical_Prop.classic"}, {"coq": "99"}, {"coq": "99.1"},
        {"coq": "8.15.2"}, {"coq": None}, {"date": "2099-01-01"}, {"date": "soon"}, {"date": 3}, {"statement": "0"},
        {"file": "0"}, {"more": "x"},
    ]  # fmt: skip
    for change in wrong:
        assert kernel_record.faults(made, {"T99": {**entry, **change}}), change
    for key in entry:
        assert kernel_record.faults(made, {"T99": {other: value for other, value in entry.items() if other != key}}), (
            key
        )
    assert kernel_record.faults(made, {"T99": None})
    assert kernel_record.faults(made, {"T99": []})


def test_a_damaged_record_is_told_from_a_missing_one(tmp_path):
    entry = {"statement": "0", "file": "0", "axioms": ["Classical_Prop.classic"], "coq": "8.16.1", "date": "2026-01-01"}
    record = tmp_path / "record.json"
    assert kernel_record.read_record(record) == {}
    whole = kernel_record.text_of({"T99": entry})
    record.write_text(whole)
    assert kernel_record.read_record(record) == {"T99": entry}
    twice = whole.replace(' "T99": {', ' "T99": {}, "T99": {')
    edited = whole.replace("2026", "2025"), whole.replace("Classical", "classical"), twice
    for damaged in ("", "{", "[]", "3", "{}", whole[:-3], *edited):
        assert damaged != whole
        record.write_text(damaged)
        with pytest.raises(kernel_record.DamagedRecord, match=r"record\.json is damaged or was edited: run"):
            kernel_record.read_record(record)


def test_bound_names_hide_no_word():
    index = count("bigsum", least=0)
    made = theorem(le(0, total(u[index] ** 2, index, d)), numeric_checks={"a": lambda: True})
    assert any("one of Coq's own words" in fault for fault in faults(made))


@coq
@pytest.mark.parametrize(
    ("preamble", "proof"),
    [
        ("Local Notation R := nat. Local Notation Rle := le.", "intros. apply le_0_n."),
        ("Definition R := nat. Definition Rle (a b : nat) := True.", "intros. exact I."),
        ("Inductive R : Set := zero.", "intros. destruct x. lra."),
        ("Section S. Variable bad : False.", "destruct bad. Qed. End S. Lemma rest : True. Proof. exact I."),
        ("Section S. Hypothesis bad : forall a, 0 <= a.", "exact bad. Qed. End S. Lemma one : True. Proof. exact I."),
    ],
)  # fmt: skip
def test_what_the_list_allows_deceives_no_one(tmp_path, preamble, proof):
    shutil.copy(FOLDER / "Prelude.v", tmp_path)
    made = theorem(le(0, y), where=(Row(y, "y", "any number"),), folder=tmp_path)
    stated = coq_statement.statement_of(made)
    made.coq_file.write_text(f"From Onebit Require Import Prelude.\n{preamble}\n{stated}\nProof. {proof} Qed.\n")
    assert not list(coq_grammar.faults(made.coq_file))
    assert kernel.check_all([made], tmp_path / "out")["T99"].faults
