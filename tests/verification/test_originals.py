"""A class that replaces functions with which it is judged."""

from __future__ import annotations

import pytest
import typer
from test_commands import call

from verification.cli import verify
from verification.search.plan import PROFILES


@pytest.fixture
def quick(monkeypatch, brief):
    monkeypatch.setitem(PROFILES, "quick", brief)


REPLACING = """
import math
import numpy as np
from theory.rounding import formats
from verification.independent.collectives import Vectorised
from verification.relation.compression import CompressionRound
class Wrong(Vectorised):
    workers = 1, 2
    def allreduce(self, *arrays):
        output_D, errors_ND, error_D = super().allreduce(*arrays)
        {inside}
        return 2 * output_D, errors_ND, error_D
{outside}
"""


@pytest.mark.parametrize(
    "text",
    [
        "np.flatnonzero = lambda array: np.zeros(0, int)",
        "np.abs = np.zeros_like",
        "formats.gamma = lambda *about: 1e9",
        "CompressionRound.conservation = lambda self: iter(())",
        "CompressionRound.findings.__code__ = (lambda self, judged=None, *, advises=True: []).__code__",
        "math.ldexp = None",
    ],
)
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_a_class_that_replaces_what_judges_it_is_told(text, place, tmp_path, quick, capsys):
    path = tmp_path / "replaces.py"
    path.write_text(REPLACING.format(**{"inside": "", "outside": "", place: text}))
    told = ""
    try:
        assert call(verify, f"{path}:Wrong") == 1
    except typer.BadParameter as error:  # on a plain input
        told = str(error)
    assert "the class replaced" in told + " ".join(capsys.readouterr().out.split())
