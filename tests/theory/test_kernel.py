"""Proofs that Coq checks: what it may be told, what is recorded of it, and who is believed."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest

from tests.theory.theory_support import GOOD, a_kernel_theorem, coq, u, x
from theory import coq_grammar, coq_statement, kernel, kernel_record
from theory.formula import le, total
from theory.notation import d, k
from theory.theorem import Hypothesis, Rank


@coq
def test_coq_accepts_a_proof_of_what_is_stated_and_the_record_keeps_it(tmp_path):
    made = a_kernel_theorem(tmp_path, GOOD)
    assert made.rank is Rank.KERNEL
    result = kernel.check_all([made], tmp_path / "out")["T99"]
    assert result.faults == ()
    record = tmp_path / "record.json"
    kernel_record.write_record([made], {"T99": result}, path=record)
    assert kernel_record.faults(made, kernel_record.read_record(record)) == ()
    made.coq_file.write_text(made.coq_file.read_text() + "(* changed *)\n")
    assert any("has changed since" in fault for fault in kernel_record.faults(made, kernel_record.read_record(record)))


@coq
@pytest.mark.parametrize(
    ("proof", "preamble", "says"),
    [
        ("Admitted. Lemma rest : True. exact I.", "", "axiom T99"),
        ("intros. apply wish.", "Axiom wish : forall a b : R, a <= b.", "axiom T99.wish"),
        ("intros. lra.", "", "Error"),
        (
            "intros. apply (wish 0).",
            "Unset Guard Checking. Fixpoint wish (n : nat) {struct n} : forall a b : R, a <= b := wish n. "
            "Set Guard Checking.",
            "Coq says",
        ),
        (GOOD, "Definition bigsum (n : nat) (f : nat -> R) := 0 * INR n.", "Error"),
        (
            "intros. reflexivity.",
            'Notation "a <= b" := (a = a) (only parsing) : R_scope.',
            "Error",
        ),
    ],
)
def test_coq_is_not_deceived(tmp_path, monkeypatch, proof, preamble, says):
    monkeypatch.setattr(coq_grammar, "faults", lambda path: iter(()))  # Coq must find it out by itself
    made = a_kernel_theorem(tmp_path, proof, preamble)
    found = kernel.check_all([made], tmp_path / "out")["T99"].faults
    assert any(says in fault for fault in found), found


@coq
def test_what_was_compiled_by_somebody_else_is_not_believed(tmp_path):
    made = a_kernel_theorem(tmp_path, GOOD)
    out = tmp_path / "out"
    assert kernel.check_all([made], out)["T99"].faults == ()
    (out / "Prelude.vo").write_bytes(b"another Prelude")
    assert kernel.check_all([made], out)["T99"].faults == ()  # compiled again
    assert (out / "Prelude.vo").read_bytes() != b"another Prelude"


def test_two_processes_that_end_together_keep_both_entries(tmp_path, monkeypatch):
    record = tmp_path / "record.json"
    monkeypatch.setattr(kernel_record, "read_record", slowly(kernel_record.read_record))
    made = [replace(a_kernel_theorem(tmp_path, GOOD), id=name) for name in ("T98", "T97")]
    for item in made:
        shutil.copy(tmp_path / "T99.v", item.coq_file)
    monkeypatch.setattr(kernel_record, "_fits", lambda theorem, entry: True)
    monkeypatch.setattr(kernel_record, "coq_version", lambda: "8.16.1")  # it need not be installed here

    def write(item):
        kernel_record.write_record(made, {item.id: kernel.Checked(item.id, ())}, path=record)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write, made)) == [None, None]
    assert kernel_record.read_record(record).keys() == {"T97", "T98"}


def slowly(function):
    """The function, after which somebody else has his turn."""

    def wrapped(*arguments):
        result = function(*arguments)
        sleep(0.05)
        return result

    return wrapped


@coq
def test_the_file_that_is_to_blame_is_named(tmp_path):
    """A lemma in a file of its own, once right and compiled, then only claimed."""
    helper = tmp_path / "Helper.v"
    lemma = "From Onebit Require Import Prelude.\nLemma fine : 0 <= 1.\nProof. {} Qed.\n"
    helper.write_text(lemma.format("lra."))
    made = a_kernel_theorem(tmp_path, GOOD, "From Onebit Require Import Helper.")
    assert kernel.check_all([made], tmp_path / "out")["T99"].faults == ()
    helper.write_text(lemma.format("Admitted."))
    [fault] = kernel.check_all([made], tmp_path / "out")["T99"].faults
    assert "Helper.v: no command may stand in a proof: `Admitted`" in fault


def test_what_a_theorem_needs_is_what_its_coq_file_requires(tmp_path):
    """By way of a file of lemmas too, and that file may require itself."""
    shutil.copy(Path(kernel.__file__).parent / "theorems" / "T1b.v", tmp_path)
    shutil.copy(Path(kernel.__file__).parent / "theorems" / "Signs.v", tmp_path)
    (tmp_path / "Helper.v").write_text("From Onebit Require T1b Helper.\n")
    alone, helped = a_kernel_theorem(tmp_path, GOOD), "From Onebit Require Import Helper."
    assert kernel.untrusted(alone) is None
    assert kernel.untrusted(replace(alone, needs=("T1b",))) == "`needs` names T1b, and T99.v doesn't require its file"
    for preamble in ("From Onebit Require T1b.", helped):
        made = a_kernel_theorem(tmp_path, GOOD, preamble)
        missing = "T99.v requires the file of T1b, which `needs` doesn't name"
        assert kernel.untrusted(made) == missing
        assert kernel_record.faults(made, {}) == (missing,)
        assert kernel.untrusted(replace(made, needs=("T1b",))) is None
    (tmp_path / "Other.v").write_text("From Onebit Require T6a.\n")
    (tmp_path / "T1b.v").write_text("From Onebit Require T6a Other.\n")  # what T1b needs is its own affair
    shutil.copy(Path(kernel.__file__).parent / "theorems" / "T6a.v", tmp_path)
    assert kernel.borrowed(a_kernel_theorem(tmp_path, GOOD, "From Onebit Require T1b.").coq_file) == {"T1b"}


@coq
def test_a_hypothesis_that_the_coq_proof_does_not_use_is_found(tmp_path):
    idle = Hypothesis("idle", le(x, x + 1), "not needed")
    made = a_kernel_theorem(tmp_path, GOOD)
    more = replace(made, hypotheses=(*made.hypotheses, idle))
    text = made.coq_file.read_text().replace(coq_statement.stated_in_file(made), coq_statement.statement_of(more))
    made.coq_file.write_text(text.replace("x_domain small.", "x_domain small idle."))
    assert any("'idle'" in fault for fault in kernel.check_all([more], tmp_path / "out")["T99"].faults)


def test_a_statement_changed_on_one_side_only_is_found(tmp_path):
    made = a_kernel_theorem(tmp_path, GOOD)
    changed = replace(made, conclusion=le(total(u[k] ** 2, k, d), (d + 1) * x))
    assert "states something else" in (coq_statement.mismatch(changed) or "")
    assert kernel_record.faults(changed, {})
