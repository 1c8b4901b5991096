"""``onebit list`` names every optimizer with its source, and prints what was counted."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from typer.testing import CliRunner

from onebit_command import app
from reference import OPTIMIZERS
from reference.allreduce import dense_allreduce_bytes
from reference.listing import count
from reference.optimizers import SOURCES
from theory.rounding import gamma


def test_every_optimizer_has_a_source_and_its_file_names_it():
    assert list(SOURCES) == list(OPTIMIZERS)
    for name, source in SOURCES.items():
        module = inspect.getsource(inspect.getmodule(OPTIMIZERS[name]))
        for paper in re.findall(r"\d{4}\.\d{5}", source):
            assert paper in module, f"{name} does not name {paper}"


@pytest.mark.parametrize(("name", "rounds", "share"), [
    ("adam", 1.0, 1.0), ("local_sgd", 1 / 4, 1 / 4), ("local_adam", 1 / 4, 3 / 4), ("sketched_sgd", 2.0, None),
    ("diloco", 0.0, 0.0), ("merit", 1.0, 1.0),
])  # fmt: skip
def test_what_is_counted(name, rounds, share):
    entry = count(name, n_workers=4, dim=96, steps=8)
    assert entry.rounds_per_step == rounds
    if share is None:
        share = (dense_allreduce_bytes(5 * 200, 4) + dense_allreduce_bytes(2 * 5, 4)) / dense_allreduce_bytes(96, 4)
    assert entry.share_of_dense == pytest.approx(share, rel=gamma(8, "float64"))  # sums of eight steps
    assert entry.bytes_per_step == entry.share_of_dense * dense_allreduce_bytes(96, 4) / 4


def test_the_list_is_printed_and_written(tmp_path):
    runner, path = CliRunner(env={"COLUMNS": "200"}), tmp_path / "list.json"
    result = runner.invoke(app, ["list", "--workers", "2", "--dim", "40", "--steps", "8", "--json", str(path)])
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in json.loads(path.read_text())}
    assert set(rows) == set(OPTIMIZERS)
    for name, row in rows.items():
        line = next(line for line in result.output.splitlines() if line.split()[:1] == [name])
        assert row["source"] in line
        assert f"{row['bytes_per_step']:,.0f}" in line
        assert f"{row['rounds_per_step']:.2f}" in line
    assert runner.invoke(app, ["list", "--workers", "1"]).exit_code == 2


def test_an_optimizer_without_a_source_is_one_sentence(monkeypatch):
    monkeypatch.delitem(SOURCES, "adam")
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["list"])
    assert result.exit_code == 2
    assert "adam has no entry in SOURCES of reference/optimizers/__init__.py" in result.output
