"""``onebit prove``: table, exit codes, bounds from ``--set``, JSON, LaTeX, the docs page; and the registry."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import theory
from theory import cli, registry
from theory.render import escape_latex, latex_appendix, markdown
from theory.theorem import CheckSkipped
from theory.theorems import worst_case_error_feedback

ROOT = Path(__file__).parents[2]
app = typer.Typer()
app.command()(cli.prove)


TOO_FAST = ["N=8", "T=9", "lr=9", "beta1=0.9", "L=1", "sigma=1", "error_bound=1", "f0_minus_fstar=1", "p_max=1"]


def prove(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))


def test_one_theorem_holds_and_prints_its_row():
    result = prove("T9b")
    assert result.exit_code == 0, result.output
    assert "T9b" in result.output
    assert "holds" in result.output
    assert "proved" in result.output


@pytest.mark.parametrize("name", ["9", "T9", "t9"])
def test_a_number_selects_all_its_parts(name):
    assert [theorem.id for theorem in theory.select([name])] == ["T9a", "T9b"]


def test_a_letter_selects_one_and_order_is_by_number():
    ids = [theorem.id for theorem in theory.select(["10a", "9b", "T2a"])]
    assert ids == ["T2a", "T9b", "T10a"]
    everything = [theorem.id for theorem in theory.all_theorems()]
    assert everything == sorted(everything, key=registry.sort_key)
    assert {registry.sort_key(name)[0] for name in everything} == set(range(1, 13))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["T99"], "no theorem 'T99'; choose from T1"),
        (["1x9"], "no theorem"),
        (["6", "--set", "N"], "NAME=NUMBER"),
        (["6", "--set", "N=many"], "not a number"),
        (["6", "--set", "N=1", "N=2"], "twice"),
        (["6", "--set", "colour=3"], "T6a takes lr beta1 n_workers"),
        (["6", "--set", "N=64", "T=1e5"], "still needs"),
        (["6", "N=64"], "write --set N=64"),
        (["T9b", "--set", "lr=1", "beta1=1", "preconditioner=1", "Delta=1"], "T9b: beta1 must be in"),
        (["T6a", "--set", *TOO_FAST], "too large"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_exit_2_with_one_line(arguments, says):
    result = prove(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        ["--set", "w=1", "--set", "warmup_share=0.15"],
        ["--set", "warmup_share=0.15", "dense_bits=16"],
        ["--set", "warmup_share=0.15", "--set", "dense_bits=16"],
    ],
)
def test_set_evaluates_the_bound_in_either_form(settings, tmp_path):
    result = prove("T10a", *settings, "--json", str(tmp_path / "out.json"))
    if "w=1" in settings:
        assert result.exit_code == 2  # w is the server input in the notation table, no parameter of this bound
        return
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert row["bound"] == pytest.approx(1 / (0.15 + 0.85 / 16), rel=1e-15)


def test_paper_symbols_and_code_names_are_the_same(tmp_path):
    rest = ["beta1=0.9", "noise=1", "error_bound=0.1", "f0_minus_fstar=2", "p_max=1", "smoothness=1"]
    for number, names in enumerate((["N=64", "T=1e5"], ["n_workers=64", "n_steps=1e5"])):
        assert prove("6", "--set", *names, *rest, "--json", str(tmp_path / f"{number}.json")).exit_code == 0
    first, second = (json.loads((tmp_path / f"{number}.json").read_text()) for number in (0, 1))
    bounds = {row["id"]: row["bound"] for row in first}
    assert bounds == {row["id"]: row["bound"] for row in second}
    assert bounds["T6b"] > 0
    assert bounds["T6a"] is None  # lr was not given


def test_a_failing_certificate_is_exit_1_and_named(monkeypatch):
    broken = replace(theory.select(["T9b"])[0], numeric_checks={"two is three": lambda: False})
    monkeypatch.setattr(registry, "all_theorems", lambda: (broken,))
    result = prove()
    assert result.exit_code == 1
    assert "FAILS" in result.output
    assert "two is three" in result.output


def test_a_missing_extra_is_skipped_in_sight(monkeypatch, tmp_path):
    monkeypatch.setattr(worst_case_error_feedback, "find_spec", lambda name: None)
    with pytest.raises(CheckSkipped, match="pep"):
        worst_case_error_feedback.agrees_with_pepit()
    result = prove("12", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0
    assert "1 skipped" in result.output
    assert "onebit-adam[pep]" in result.output
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert "PEPit" in row["skipped"][0]


def test_json_and_latex_are_written_whole(tmp_path):
    result = prove("9", "10", "--json", str(tmp_path / "a" / "out.json"), "--latex", str(tmp_path / "out.tex"))
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "a" / "out.json").read_text())
    assert [row["id"] for row in rows] == ["T9a", "T9b", "T10a", "T10b", "T10c"]
    assert all(row["holds"] and row["links"] > 0 for row in rows)
    text = (tmp_path / "out.tex").read_text()
    assert text.startswith("\\documentclass")
    assert text.rstrip().endswith("\\end{document}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out.tex"]  # no temporary file is left


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_text("old")

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(cli.Path, "replace", full)
    assert prove("9", "--json", str(target)).exit_code == 2
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_latex_has_no_character_that_latex_cannot_set():
    text = latex_appendix(theory.all_theorems())
    strange = {character for character in text if not character.isascii()}
    assert not strange
    assert text.count("\\begin{enumerate}") == text.count("\\end{enumerate}") == len(theory.all_theorems())
    assert "?" not in escape_latex("".join(theorem.words for theorem in theory.all_theorems()))


def test_the_docs_page_is_up_to_date(tmp_path):
    expected = markdown(theory.all_theorems())
    assert prove("9b", "--docs", str(tmp_path / "page.md")).exit_code == 0
    assert (tmp_path / "page.md").read_text() == expected  # whole, whatever was selected
    assert (ROOT / "docs" / "theory.md").read_text() == expected, "run: onebit prove --docs docs/theory.md"


def test_importing_theory_does_not_import_sympy():
    code = "import sys, theory; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_theory_never_imports_the_reference():
    code = (
        "import sys, theory; theory.all_theorems(); sys.exit(any(m.split('.')[0] == 'reference' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
