"""The files of CONTRIBUTING.md, as they stand, are found, hold, and are drawn."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from typer.testing import CliRunner

import paper_figures.figures
import theory.theorems
from onebit_command import app
from paper_figures import contributions
from paper_figures.figure import Scale
from paper_figures.render import all_figures
from theory import registry
from theory.theorem import Line, by_id
from theory.verdict import judge
from verification.mutants.base_collective import BaseCollective

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
WHOLE = dict(re.findall(r"This\sis\sa\swhole\sfile, `([\w/.]+)`.*?```python\n(.*?)```", PAGE, flags=re.DOTALL))


@contextmanager
def added(package, tmp_path, *caches):
    """The file that the page has for ``package``, in a folder of its own that belongs to it."""
    folder = package.__name__.replace(".", "/")
    ((name, code),) = [(name, code) for name, code in WHOLE.items() if name.startswith(folder)]
    (tmp_path / Path(name).name).write_text(code)
    package.__path__.append(str(tmp_path))
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        package.__path__.remove(str(tmp_path))
        for cache in caches:
            cache.cache_clear()


def onebit(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(map(str, arguments)))


def test_the_page_has_them_all():
    files = (
        "theory/theorems/twice_a_product.py",
        "verification/mutants/small_is_minus.py",
        "paper_figures/figures/residual.py",
    )
    assert tuple(WHOLE) == files


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_of_the_page_passes_the_linter_in_its_place(name):
    for command in (["check"], ["format", "--check"]):
        line = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        done = subprocess.run(
            line, cwd=ROOT, input=WHOLE[name], capture_output=True, text=True, timeout=1800, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_mutant_of_the_page_is_killed():
    space: dict = {"__name__": "small_is_minus"}
    exec(compile(WHOLE["verification/mutants/small_is_minus.py"], "small_is_minus.py", "exec"), space)
    bug = space["SmallIsMinus"]
    u_D = np.array([[1.0, 1e-6]], np.float32)
    _, errors_ND, _ = bug().allreduce(u_D, np.zeros_like(u_D), np.zeros(2, np.float32))
    right = BaseCollective().allreduce(u_D, np.zeros_like(u_D), np.zeros(2, np.float32))[1]
    assert errors_ND[0, 1] > 0 > right[0, 1]


def test_the_theorem_holds_and_a_wrong_one_does_not(tmp_path):
    with added(theory.theorems, tmp_path, registry.collect):
        assert registry.collect()[1] == ()
        (made,) = registry.select(["T99"])
        lemmas = by_id(registry.all_theorems())
        assert judge(made, lemmas, None).holds
        x, y = (row.symbol for row in made.where)
        half = lambda: (Line("<=", x**2 + y**2, "wrong", slack=((x - y) ** 2 / sp.Integer(2),)),)  # noqa: E731
        assert not judge(replace(made, chain=half), lemmas, None).holds
        told = onebit("prove", "T99", "--set", "x=2", "y=5")
        assert (told.exit_code, "29" in told.output) == (0, True), told.output
        told = onebit("prove", "T99", "--mutants")
        assert told.exit_code == 0, told.output
        assert re.search(r"[1-9]\d* of \d+ false mutants rejected", told.output)
    with pytest.raises(ValueError, match="no theorem 'T99'"):
        registry.select(["T99"])


def test_the_figure_passes_the_test_that_the_page_names(tmp_path):
    """In a process of its own, for the tests of figures list them when they are imported."""
    (tmp_path / "residual.py").write_text(WHOLE["paper_figures/figures/residual.py"])
    file = re.search(r"`pytest (\S+) -k NAME`", PAGE)[1]
    program = f"""
import sys, pytest, paper_figures.figures
paper_figures.figures.__path__.append({str(tmp_path)!r})
sys.exit(pytest.main(["-p", "no:cacheprovider", {file!r}, "-k", "residual"]))"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_figure_is_drawn_and_says_what_the_others_say(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "code").mkdir()
    with added(paper_figures.figures, tmp_path / "code", contributions.read):
        assert contributions.broken() == ()
        figure = all_figures()["residual"]
        assert len(figure.caption) > 150
        assert {config.seed for config in figure.runs(Scale.QUICK)} == set(range(5))
        told = onebit("figures", "residual", "--out", tmp_path / "drawn", "--jobs", 1)
        assert told.exit_code == 0, told.output
        listed = onebit("figures", "--list")
        assert re.search(r"^residual +not measured", listed.output, flags=re.MULTILINE)
    table = pd.read_csv(tmp_path / "drawn" / "residual.csv")
    frozen = table.groupby(table["step"] > 50)["total_error_norm"]
    assert frozen.max()[False] == 0 < frozen.min()[True], "the caption says so"
    assert (tmp_path / "drawn" / "residual.png").stat().st_size > 10_000
