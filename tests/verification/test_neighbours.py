"""A checked file may import the modules beside it, and none of them takes the place of a module found elsewhere."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from verification.loading import load_class
from verification.neighbours import folders
from verification.search.fresh import alone
from verification.search.program import Program

CODE = "import helper\nimport installed\n\n\nclass A:\n    said = helper.SAID, installed.SAID\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A file, a helper beside it, and a module of a name that a later finder knows, as of an editable install."""
    mine, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    for place, name, text in (
        (mine, "helper", "SAID = 'beside'\n"),
        (mine, "installed", "SAID = 'beside'\n"),
        (mine, "mine", CODE),
        (elsewhere, "installed", "SAID = 'installed'\n"),
    ):
        place.mkdir(exist_ok=True)
        (place / f"{name}.py").write_text(text)

    class Editable:
        def find_spec(self, name, path=None, target=None):
            return PathFinder.find_spec(name, [str(elsewhere)]) if name == "installed" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable()])
    yield mine
    for name in ("helper", "installed"):
        sys.modules.pop(name, None)


def test_a_module_beside_the_file_is_found_after_all_others(folder):
    before = list(sys.path)
    assert load_class(f"{folder / 'mine.py'}:A").said == ("beside", "installed")
    assert sys.path == before
    load_class(f"{folder / 'mine.py'}:A")
    assert folders().count(str(folder)) == 1


def test_a_program_is_tried_with_the_same_neighbours(folder):
    load_class(f"{folder / 'mine.py'}:A")
    program = Program((), "A", ("assert A.said[0] != 'beside'",))
    assert alone(program, str(folder / "mine.py"), raises=False, seconds=1800) == "fails"
