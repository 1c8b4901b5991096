"""``onebit prove``: table, exit codes, bounds from ``--set``, JSON, LaTeX, the docs page; and the registry."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
import typer
from rich.console import Console
from typer.testing import CliRunner

import theory
from theory import cli, kernel, mutants, registry, theorems
from theory.assignments import parse_assignments, typed_names
from theory.evaluate import inputs
from theory.json_rows import as_json
from theory.registry import all_theorems
from theory.render import escape_latex, latex_appendix
from theory.text import names_of, parse
from theory.theorem import CheckSkipped
from theory.verdict import Verdict
from theory.wording import words_of

ROOT = Path(__file__).parents[2]
app = typer.Typer()
app.command()(cli.prove)


def prove(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))


def test_one_theorem_holds_and_prints_its_row():
    result = prove("T9b")
    assert result.exit_code == 0, result.output
    assert "T9b" in result.output
    assert "holds" in result.output
    assert "kernel-checked" in result.output


@pytest.mark.parametrize("name", ["6a", "6A", "T6a", "t6A", " T6A "])
def test_an_id_is_read_in_small_and_capital_letters(name):
    assert [theorem.id for theorem in theory.select([name])] == ["T6a"]


@pytest.mark.parametrize("name", ["9", "T9", "t9"])
def test_a_number_selects_all_its_parts(name):
    assert [theorem.id for theorem in theory.select([name])] == ["T9a", "T9b", "T9c", "T9d"]


def test_a_letter_selects_one_and_order_is_by_number():
    ids = [theorem.id for theorem in theory.select(["10a", "9b", "T2a"])]
    assert ids == ["T2a", "T9b", "T10a"]
    everything = [theorem.id for theorem in theory.all_theorems()]
    assert everything == sorted(everything, key=registry.sort_key)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["T999"], "no theorem 'T999'; choose from T1"),
        (["1x9"], "no theorem"),
        (["6", "--set", "N"], "NAME=NUMBER"),
        (["6", "--set", "N=many"], "not a number"),
        (["6", "--set", "N=1", "N=2"], "twice"),
        (["6", "--set", "colour=3"], "no selected bound takes colour; they take"),
        (["6a", "--set", "colour=3"], "beta1 (β_1), error_bound (E_Δ), lr (γ), n_steps (T), n_workers (N), "),
        (["6a", "--set", "γ=10"], "0 < -2*beta1**2*lr**2"),
        (["6a", "--set", "E_Δ=2", "E_Delta=2"], "--set gives error_bound twice"),
        (["6a", "--set", "EΔ=2", "EDelta=2"], "--set gives error_bound twice"),
        (["6", "N=64"], "write --set N=64"),
        (["6", "--set", "beta1=1.5"], "beta1 = 1.5 is outside its domain (0, 1)"),
        (["6", "--set", "T=-5"], "n_steps = -5 is not a whole number of at least 1"),
        (["6a", "--set", "N=1,2"], "n_workers is one number (workers), not 2 of them"),
        (["6a", "--set", "N=inf"], "'inf' is not a number: write it like 12, -0.5 or 1e-3"),
        (["6a", "--set", "N=1e6000"], "at most 5000 digits or zeros"),
        (["6g", "--set", "N=64", "T=1", "noise=1"], "T6g does not apply to these numbers"),
        (["6g", "--set", "N=64", "T=1", "noise=1", "beta1=0.9"], "T6g does not apply to these numbers"),
        (["13d", "--set", "N=64", "T=1", "noise=0.001"], "T13d does not apply to these numbers"),
        (["1c", "--set", "second_moment=0.1"], "T1p (The squared mean size is at most the mean square)"),
        (["1c", "--set", "first_moment=0.1", "second_moment=1", "fourth_moment=1"], "they obey T1q"),
        (["6e", "--set", "pl_constant=2", "smoothness=1"], "they obey T6m (Strong convexity is at most smoothness)"),
        (["11g", "--set", "sent_sign=0.5"], "T11g does not apply to these numbers"),
        (["1f", "--set", "magnitude=5"], "T1f does not apply to these numbers"),
        (["7d", "--set", "beta1=0.9", "beta2=0.81"], "T7d does not apply to these numbers"),
        (["6", "--set", "N=nan"], "'nan' is not a number"),
        (["6", "--set", "N=1_000"], "'1_000' is not a number"),
        (["6", "--set", "N=١٢"], "'١٢' is not a number"),
        (["6", "--set", "N=1e9999999999999999999999"], "is not a number"),
        (["9b", "--mutants", "--kernel"], "--mutants goes with --share, --seed and --json alone"),
        (["9b", "--mutants", "--set", "N=4"], "--mutants goes with --share, --seed and --json alone"),
        (["6", "--mutants", "--share", "0"], "--share is a number in (0, 1]"),
        (["9b", "--share", "0.5"], "--share and --seed choose mutants"),
        (["9b", "--seed", "0"], "--share and --seed choose mutants"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_exit_2_with_one_line(arguments, says):
    result = prove(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("T2b", "N=3"), "give worker_errors='[[[1,2],[1,2]],[[1,2],[1,2]]]' and so on"),
        (("T2b", "server_error=1,2,3"), "has 2 axes, not 1: write it like server_error='[[1,2],[1,2]]'"),
        (("T2d", "residual=1"), "has 1 axis, not 0: write it like residual=1,2,3"),
        (("T9d", "worker_errors=[[1,2],3]"), "an array holds lists beside numbers"),
        (("T9d", "worker_errors=[[1,2],[3,x]]"), "is no list of lists: write it like [[1,2],[0.5,1e-3]]"),
        (("T9d", "worker_errors=[[1,2],[3,NaN]]"), "'NaN' is not a number"),
        (("T9d", f"worker_errors={'[' * 100000}"), "is no list of lists"),
        (("T6k", "learning_rates=2,1", "averaged_rates=2,1", "n_steps=3"), "learning_rates (2 of T + 1 entries)"),
        (("T1l", "corrected=1,2,3", "scale_block=8", "n_blocks=2", "rest=5"), "give more of corrected"),
    ],
)
def test_an_array_of_other_axes_is_one_sentence_that_says_how_to_type_it(arguments, says):
    name, *settings = arguments
    result = prove(name, *(word for setting in settings for word in ("--set", setting)))
    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output


def test_an_array_of_two_axes_is_typed_as_nested_lists():
    typed = parse_assignments(["worker_errors=[[1,0.5],[3,1e-3]]"])["worker_errors"]
    assert typed == [[1, Fraction(1, 2)], [3, Fraction(1, 1000)]]
    result = prove("T9d", "--set", "worker_errors=[[1,0.5],[3,1e-3],[0,0]]")
    assert result.exit_code == 0, result.output


def test_the_call_of_the_readme_evaluates_and_names_what_it_assumed(tmp_path):
    result = prove("6", "--set", "N=64", "T=1e5", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    rows = {row["id"]: row for row in json.loads((tmp_path / "out.json").read_text())}
    assert rows["T6a"]["bound"] > 0
    assert "T6a at n_workers = 64, n_steps = 100000, " in result.output
    assert rows["T6a"]["evaluated at"]["beta1"] == 0.9  # the default of the notation table
    assert rows["T6a"]["evaluated at"]["n_workers"] == 64


def numbers(value):
    return all(map(numbers, value)) if isinstance(value, list) else value is None or isinstance(value, (int, float))


@pytest.mark.parametrize(("ids", "status"), [(["6g"], 2), (["6g", "6a"], 0), (["6g", "13d"], 2)])
def test_exit_status_2_means_that_no_bound_has_a_value(ids, status):
    result = prove(*ids, "--set", "N=64", "T=1", "noise=0.001")
    assert result.exit_code == status
    assert "T6g does not apply to these numbers" in result.stderr
    help_text = " ".join(prove("--help").output.split())
    assert "2: the call was wrong, or no bound has a value at the numbers of --set" in help_text


def test_a_number_is_one_in_json_as_far_as_float64_reaches():
    given = {"1": 1, "0.1": 0.1, "1e308": 10**308, "1e309": "1e+309", "1e-307": 1e-307, "1e-309": "1e-309", "0": 0}
    assert {text: as_json(Fraction(text)) for text in given} == given
    assert as_json([Fraction(1, 3), 10**400, np.float64(2), sp.Rational(1, 7)]) == [1 / 3, "1e+400", 2, 1 / 7]
    assert as_json(Fraction(10**9000, 3 * 10**9000 + 1)) == 1 / 3  # Python writes no more than 4300 digits
    assert as_json([float("nan"), np.float32("inf")]) == ["nan", "inf"]  # which JSON has not


def test_what_is_a_number_is_one_in_json(tmp_path):
    """Arrays too: T3i's defaults are those of its example."""
    assert prove("3i", "6a", "--set", "beta1=0.5", "--json", str(tmp_path / "out.json")).exit_code == 0
    for row in json.loads((tmp_path / "out.json").read_text()):
        assert row["evaluated at"]["beta1"] == 0.5
        assert all(map(numbers, row["evaluated at"].values()))
        assert all(numbers(item["default"]) for item in row["inputs"])
        assert isinstance(row["bound"], float)


def test_the_page_has_the_names_that_set_takes_and_their_defaults():
    """Every name that the page gives is taken, and no other."""
    page = (ROOT / "docs" / "theory.md").read_text()
    sections = dict(re.findall(r"^## (T\d+[a-z]?)\. (.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))
    for theorem in all_theorems():
        items = {item.row.code: item.default for item in inputs(theorem)}
        told = re.search(r"\*\*To evaluate\.\*\*.*?\n\n(.*?)\n\n", sections[theorem.id], flags=re.DOTALL)
        rows = re.findall(r"`(\w+)`(?: or `(\w+)`)? \(([^)]*)\)", told[1]) if told else []
        assert [name for name, _, _ in rows] == list(items)
        for name, other, default in rows:
            assert parse_assignments([f"{other or name}=1"], typed_names([theorem])) == {name: 1}
            if np.ndim(items[name]) == 0:
                assert float(default) == pytest.approx(float(items[name]), rel=1e-5)
            else:
                assert default == "an array"


def test_a_symbol_means_what_the_theorem_means_by_it():
    """The paper's w is what the server compresses; the w of T10a is a share of the steps."""
    told = prove("10a", "--set", "w=0.25")
    assert told.exit_code == 0, told.output
    assert "T10a at warmup_share = 0.25, reduction = 16" in told.output
    assert parse_assignments(["w=1"], typed_names(registry.select(["T10b"]))) == {"server_input": 1}, "the paper's"


def test_what_has_no_bound_and_what_is_bounded_is_told():
    told = prove("6", "--set", "N=64", "T=1e5")
    assert told.exit_code == 0, told.output
    assert "the defaults of learning_rates and averaged_rates are those of a small example" in told.output
    assert "–: its bound takes nothing that was set, or was not evaluated" in told.output
    assert "it bounds network_bandwidth, in bytes/s" in prove("8c", "--set", "N=8").output.replace("\n", " ")


def test_an_array_that_is_shorter_than_its_count_is_told_with_the_count():
    """Not another array that keeps its default."""
    told = prove("T11c", "--set", "u=0.5,1,2")
    assert told.exit_code == 2
    assert "vector has 3, and live is 64 unless it is given; give live=3, say" in told.output


def test_a_number_of_three_hundred_digits_is_shown_in_short():
    result = prove("10b", "--set", "N=" + "9" * 300)
    assert result.exit_code == 0, result.output
    assert "T10b at n_workers = 1e+300, " in result.output


@pytest.mark.parametrize(
    ("theorem", "name", "code"),
    [("1c", "epsilon", "deviation"), ("1c", "varepsilon", "deviation"), ("1c", "ε", "deviation"),
     ("1a", "phi", "alignment")],
)  # fmt: skip
def test_variant_letters_are_typed_as_their_letter(theorem, name, code):
    """`--set epsilon` was unknown where the page has an ε."""
    result = prove(theorem, "--set", f"{name}=0.2")
    assert result.exit_code == 0
    assert f"{code} = 0.2" in " ".join(result.output.split())


def test_paper_symbols_and_code_names_are_the_same(tmp_path):
    for number, names in enumerate((["N=64", "T=1e5"], ["n_workers=64", "n_steps=1e5"])):
        assert prove("6a", "--set", *names, "--json", str(tmp_path / f"{number}.json")).exit_code == 0
    first, second = (json.loads((tmp_path / f"{number}.json").read_text()) for number in (0, 1))
    assert [row["bound"] for row in first] == [row["bound"] for row in second]


def test_json_says_what_is_stated_and_how_it_is_proved(tmp_path):
    assert prove("3a", "--json", str(tmp_path / "out.json")).exit_code == 0
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert row["statement"].startswith("momentum[step + 1, k] + server_error")
    assert set(row["hypotheses"]) == {"worker_feedback", "server_feedback"}
    assert row["coq"].startswith("Theorem T3a :")
    assert row["rank"] == "kernel-checked"
    assert {"name": "beta1", "domain": "(0, 1)"}.items() <= {
        key: value for item in row["inputs"] if item["name"] == "beta1" for key, value in item.items()
    }.items()


def test_a_failing_check_is_exit_1_and_named(monkeypatch):
    broken = replace(theory.select(["T9b"])[0], numeric_checks={"two is three": lambda: False})
    monkeypatch.setattr(registry, "collect", lambda: ((broken,), ()))
    result = prove()
    assert result.exit_code == 1
    assert "FAILS" in result.output
    assert "two is three" in result.output


def test_a_file_that_can_not_be_read_is_named_and_the_rest_still_works(monkeypatch):
    theorem = theory.select(["T9b"])[0]
    broken = registry.Broken("theory/theorems/new.py", "NameError: name 'N' is not defined")
    monkeypatch.setattr(registry, "collect", lambda: ((theorem,), (broken,)))
    result = prove()
    assert result.exit_code == 3
    assert "theory/theorems/new.py can't be used: NameError" in result.output
    assert "holds" in result.output


@pytest.mark.parametrize("leave", ["raise SystemExit(0)", "import sys\nsys.exit(2)", "raise GeneratorExit", "1 / 0"])
def test_a_file_that_ends_the_program_is_named_and_the_rest_still_works(monkeypatch, tmp_path, leave):
    (tmp_path / "leaving.py").write_text(leave + "\n")
    monkeypatch.setattr(theorems, "__path__", [*theorems.__path__, str(tmp_path)])
    registry.collect.cache_clear()
    try:
        result, absent = prove("9b"), prove("T999")
    finally:
        registry.collect.cache_clear()
        sys.modules.pop("theory.theorems.leaving", None)
    assert result.exit_code == 3
    assert "theory/theorems/leaving.py can't be used" in result.output
    assert "holds" in result.output
    assert absent.exit_code == 3  # its file may be the one that can't be used
    assert "leaving.py can't be used" in absent.stderr


def test_an_object_of_a_derived_class_is_refused(monkeypatch, tmp_path):
    (tmp_path / "claiming.py").write_text(
        "from dataclasses import fields\nfrom theory.theorem import Theorem\n"
        "from theory.theorems.time_model import THEOREMS as those\n"
        "class Claim(Theorem):\n    rank = 'kernel-checked'\n"
        "values = {field.name: getattr(those[0], field.name) for field in fields(Theorem)}\n"
        "THEOREM = Claim(**{**values, 'id': 'T99'})\n"
    )
    monkeypatch.setattr(theorems, "__path__", [*theorems.__path__, str(tmp_path)])
    registry.collect.cache_clear()
    try:
        broken = registry.collect()[1]
    finally:
        registry.collect.cache_clear()
        sys.modules.pop("theory.theorems.claiming", None)
    assert "must be a Theorem object, not a Claim object" in broken[0].reason


def test_numerical_evidence_is_exit_3(monkeypatch):
    proved, checks = theory.select(["T9b"])[0], {"ok": lambda: True}
    bare = {"example": None, "hypotheses": (), "words": "made up", "numbers": {}}
    only = replace(proved, id="T99", chain=None, numeric_checks=checks, **bare)
    monkeypatch.setattr(registry, "collect", lambda: ((only,), ()))
    result = prove()
    assert result.exit_code == 3
    assert "numerical evidence only (1 of 1 checks could run)" in result.output
    assert " holds" not in result.output


def test_without_coq_nothing_is_checked_by_it(monkeypatch):
    monkeypatch.setattr(kernel, "coq_version", lambda: None)
    result = prove("9b", "--kernel")
    assert result.exit_code == 3
    assert "--kernel needs Coq" in result.stderr


def test_a_sample_without_mutants_is_exit_3():
    result = prove("9b", "--mutants", "--share", "0.000001")
    assert result.exit_code == 3
    assert "leaves no mutant" in result.stderr


def test_numbers_that_overflow_are_refused_without_a_warning():
    result = prove("6a", "--set", "lr=1e300", "T=1e300")
    assert "Warning" not in result.output + result.stderr
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1


def test_what_is_skipped_is_in_sight(monkeypatch, tmp_path):
    def absent():
        raise CheckSkipped("PEPit is not installed: pip install 'onebit-adam[pep]'")

    theorem = replace(theory.select(["T9b"])[0], numeric_checks={"agrees with PEPit": absent})
    monkeypatch.setattr(registry, "collect", lambda: ((theorem,), ()))
    result = prove("--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0
    assert "1 skipped" in result.output
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert "PEPit" in row["skipped"][0]


def test_mutants_are_counted_by_kind_and_a_survivor_is_exit_1(monkeypatch):
    result = prove("3a", "--mutants", "--share", "0.05", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "false mutants rejected" in result.output
    monkeypatch.setattr(mutants, "rejection", lambda theorem, lemmas: None)
    monkeypatch.setattr(mutants, "refuted", lambda theorem, lemmas: True)
    result = prove("3a", "--mutants", "--share", "0.02", "--seed", "3")
    assert result.exit_code == 1
    assert "survived: T3a" in result.output


def test_json_and_latex_are_written_whole(tmp_path):
    result = prove("9", "10", "--json", str(tmp_path / "a" / "out.json"), "--latex", str(tmp_path / "out.tex"))
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "a" / "out.json").read_text())
    assert {row["id"][:-1] for row in rows} == {"T9", "T10"}
    assert all(row["holds"] for row in rows)
    text = (tmp_path / "out.tex").read_text()
    assert text.startswith("\\documentclass")
    assert text.rstrip().endswith("\\end{document}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out.tex"]  # no temporary file is left


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_text("old")

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", full)
    assert prove("9", "--json", str(target)).exit_code == 2
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_latex_has_no_character_that_latex_cannot_set():
    text = latex_appendix(theory.all_theorems())
    strange = {character for character in text if not character.isascii()}
    assert not strange
    assert "?" not in escape_latex("".join(words_of(theorem) for theorem in theory.all_theorems()))


@pytest.mark.long
def test_every_theorem_holds_and_the_docs_page_is_up_to_date(tmp_path):
    result = prove("9b", "--docs", str(tmp_path / "page.md"))
    assert result.exit_code == 0, result.output
    whole = (tmp_path / "page.md").read_text()  # whatever was selected
    assert (ROOT / "docs" / "theory.md").read_text() == whole, "run: onebit prove --docs docs/theory.md"


def test_every_statement_on_the_docs_page_parses_back_to_the_object_that_is_proved():
    page = (ROOT / "docs" / "theory.md").read_text()
    for theorem in theory.all_theorems():
        section = page.split(f"\n## {theorem.id}. ")[1].split("\n## ")[0]
        stated = re.findall(r"```text\n\s*(.*?)\n\s*```", section, re.S)
        formulas = [parse(text, names_of(theorem)) for text in stated]
        assert formulas == [theorem.conclusion, *(item.formula for item in theorem.hypotheses)], theorem.id


def test_importing_theory_does_not_import_sympy():
    code = "import sys, theory; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_theory_never_imports_the_reference():
    code = (
        "import sys, theory; theory.all_theorems(); sys.exit(any(m.split('.')[0] == 'reference' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_footer_has_axioms_of_what_holds_only(capsys):
    verdicts = [
        Verdict(all_theorems()[0], (), axioms=("good",)),
        Verdict(all_theorems()[1], ("it is false",), axioms=("bad",)),
        Verdict(all_theorems()[2], (), ("nobody looked",), axioms=("unknown",)),
    ]
    cli.report_details(Console(), verdicts, {}, ask_coq=True)
    assert "axioms used: good\n" in capsys.readouterr().out
    cli.report_details(Console(), verdicts[1:], {}, ask_coq=True)
    assert "axioms" not in capsys.readouterr().out


@pytest.mark.parametrize(("call", "says"), [
    (["T7m", "--set", "second=-0.1,5"], "T7m does not apply to these numbers"),
    (["T6k", "--set", "T=2", "learning_rates=1,2,1", "averaged_rates=1,1,1"], "no learning rate exceeds"),
    (["T9d", "--set", 'worker_errors=[["7",2],[1,2]]'], '"7" is not a number'),
    (["T9d", "--set", "worker_errors=[[true,2],[1,2]]"], "true is not a number"),
    (["T9d", "--set", "worker_errors=[[1,2],[3,4],[2,5],[7,7]]", "N=3"], "4 entries on its axis 1, and n_workers is 3"),
])  # fmt: skip
def test_arrays_that_no_run_has_are_refused(call, says):
    arguments = [call[0]]
    for text in call[2:]:
        arguments += ["--set", text]
    result = prove(*arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
