"""Evidence: found once, kept until the code or a version changes; and the command that makes the page of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import made_up_report as made_up
import pytest
import typer
from html_checks import problems
from rich.progress import Progress

from paper_figures import render
from paper_figures.claims.registry import all_claims
from paper_figures.report import stages
from paper_figures.report.cli import report
from paper_figures.report.committed import ROOT, environment
from paper_figures.report.evidence import obtain, source_digest, versions_of
from verification.mutants.score import sample
from verification.search.clauses import CLAUSES

PROGRESS = Progress(disable=True)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two sources that may be edited."""
    root = tmp_path / "sources" / "some_package"
    (root / "inner").mkdir(parents=True)
    (root / "__init__.py").write_text("x = 1\n")
    (root / "inner" / "kernel.c").write_text("int x;\n")
    monkeypatch.syspath_prepend(root.parent)
    return root


class Finder:
    """Counts how often something had to be found out."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"found": self.calls}


def call(find, folder, command="onebit find", libraries=("numpy",)):
    return obtain("thing", command, packages=["some_package"], libraries=libraries, folder=folder, find=find)


def test_it_is_found_once(package, tmp_path):
    find = Finder()
    first, second = call(find, tmp_path / "kept"), call(find, tmp_path / "kept")
    assert find.calls == 1
    assert first == second
    assert first.result == {"found": 1}
    assert set(first.versions) == {"python", "machine", "numpy"}
    assert json.loads(first.to_json())["source_digest"] == first.source_digest


def test_what_was_changed_is_found_again(package, tmp_path):
    find, folder = Finder(), tmp_path / "kept"
    call(find, folder)
    (file,) = folder.iterdir()
    for changed in (file.read_text().replace('"found": 1', '"found": 7'), "[1]", "[" * 200_000, ""):
        file.write_text(changed)
        assert call(find, folder).result == {"found": find.calls}
    assert find.calls == 5


def edit(package):
    (package / "__init__.py").write_text("x = 2\n")


def edit_the_kernel(package):
    (package / "inner" / "kernel.c").write_text("float x;\n")


def rename(package):
    (package / "inner" / "kernel.c").rename(package / "inner" / "other.c")


@pytest.mark.parametrize("change", [edit, edit_the_kernel, rename])
def test_other_code_finds_it_again(package, tmp_path, change):
    find = Finder()
    call(find, tmp_path / "kept")
    change(package)
    assert call(find, tmp_path / "kept").result == {"found": 2}


def test_another_command_or_library_finds_it_again(package, tmp_path):
    find = Finder()
    call(find, tmp_path)
    call(find, tmp_path, command="onebit find --deep")
    call(find, tmp_path, libraries=("numpy", "scipy"))
    assert find.calls == 3


def test_a_folder_that_can_not_be_written_is_told_before_anything_is_found(package, tmp_path):
    (tmp_path / "file").touch()
    find = Finder()
    with pytest.raises(OSError, match="file"):
        call(find, tmp_path / "file")
    assert find.calls == 0


@pytest.mark.parametrize("damage", ["", '{"name": "thing"', '{"other": 1}', "[]"])
def test_a_damaged_file_is_found_again(package, tmp_path, damage):
    find = Finder()
    call(find, tmp_path / "kept")
    (file,) = (tmp_path / "kept").iterdir()
    file.write_text(damage)
    assert call(find, tmp_path / "kept").result == {"found": 2}
    assert json.loads(file.read_text())["result"] == {"found": 2}


def test_what_is_not_source_does_not_matter(package):
    before = source_digest(["some_package"])
    (package / "results.json").write_text("{}")
    assert source_digest(["some_package"]) == before


def test_an_absent_library_is_said():
    assert versions_of(["no-such-library"])["no-such-library"] == "not installed"


def test_an_interruption_keeps_what_was_found(package, tmp_path):
    find = Finder()
    call(find, tmp_path)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain("other", "onebit other", packages=["some_package"], libraries=[], folder=tmp_path, find=interrupt)
    assert call(find, tmp_path).result == {"found": 1}
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_our_implementations_have_adapters():
    for adapter in stages.IMPLEMENTATIONS.values():
        file, _, name = adapter.partition(":")
        assert f"class {name}" in (stages.ADAPTERS / file).read_text()


def test_a_verification_is_the_one_of_the_command():
    """With few cases and no clock; the command's own are in tests/verification."""
    few = replace(stages.PAIRS, exact=5, minutes=60, largest=300, longest=12)
    found = stages.verify("verification/adapters/reference.py:ReferenceCollective", few)
    assert found["target"] == "verification/adapters/reference.py:ReferenceCollective"
    assert {row["property"] for row in found["properties"]} >= {"collective.one_bit", "collective.wire_bytes"}
    assert {row["outcome"] for row in found["properties"]} == {"holds"}
    assert found["coverage"][0]["pairs"][0] == found["coverage"][0]["pairs"][1]


def test_the_mutants_are_the_ones_of_the_command():
    found = stages.run_mutants(PROGRESS, 1, 1)
    (row,) = found["mutants"]
    assert row["mutant"] == sample("held-out", 1, 0)[0].id
    assert {item["id"] for item in found["properties"]} == {clause.id for clause in CLAUSES}


def test_the_environment_names_the_versions():
    facts = environment()
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"numpy", "torch", "processor", "machine"} <= set(facts)
    assert "commit" not in environment(Path("/"))
    assert ("commit" in facts) == (ROOT / ".git").exists()


@pytest.fixture
def cheap(monkeypatch, tmp_path):
    """The command with everything found at no cost; returns its evidence, which a test may spoil."""
    content = made_up.content(tmp_path)
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stages, "gather", lambda folder, progress, jobs, every: content.evidence)
    figures = {figure.name: figure for figure, _ in content.pictures}
    monkeypatch.setattr(render, "all_figures", lambda scale: figures)
    monkeypatch.setattr(render, "render", lambda figures, folder, **rest: [file for _, file in content.pictures])
    return content.evidence


def test_the_command_writes_the_page_and_its_data(cheap, tmp_path, capsys):
    report(out=tmp_path / "out", scale="quick", jobs=1)
    assert problems((tmp_path / "out" / "index.html").read_text()) == []
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"index.html", "claims.json", *(f"{name}.json" for name in cheap)}
    assert json.loads((tmp_path / "out" / "proofs.json").read_text())["result"] == cheap["proofs"].result
    said = capsys.readouterr().out
    claims = json.loads((tmp_path / "out" / "claims.json").read_text())
    for verdict, count in Counter(claim["verdict"] for claim in claims).items():
        assert f"{count} claims {verdict}\n" in said
    assert f"the report is {tmp_path / 'out' / 'index.html'}" in said


def test_the_command_ends_with_1_when_something_is_false(cheap, tmp_path, capsys):
    cheap["proofs"].result[0] |= {"holds": False, "faults": ["the second line"]}
    with pytest.raises(typer.Exit) as ended:
        report(out=tmp_path / "out", scale="quick", jobs=1)
    assert ended.value.exit_code == 1
    assert "fails: the second line" in capsys.readouterr().out
    assert (tmp_path / "out" / "index.html").is_file(), "the page says it too"


def test_what_takes_long_is_left_to_all_and_the_page_says_so(cheap, tmp_path, monkeypatch, capsys):
    known = [*render.all_figures("quick").values(), replace(made_up.figure("robustness"), extra=True)]
    monkeypatch.setattr(render, "all_figures", lambda scale: {figure.name: figure for figure in known})
    report(out=tmp_path / "out", scale="quick", jobs=1)
    decided = {claim["id"] for claim in json.loads((tmp_path / "out" / "claims.json").read_text())}
    assert decided == {claim.id for claim in all_claims()} - {"P31"}
    assert "  1 claims left to --all: P31\n" in capsys.readouterr().out
    page = (tmp_path / "out" / "index.html").read_text()
    assert "onebit report --all" in page
    assert "P31 The forms with a floor" in page


def test_a_wrong_scale_is_one_sentence(cheap, tmp_path):
    with pytest.raises(typer.BadParameter, match="--scale must be quick or full, got 'huge'"):
        report(out=tmp_path, scale="huge", jobs=1)


def test_a_killed_report_leaves_no_check_behind(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, os, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from paper_figures.report.stages import end_with_parent\n"
        "if __name__ == '__main__':\n"
        "    spawn = multiprocessing.get_context('spawn')\n"
        "    pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=end_with_parent)\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    pool.submit(time.sleep, 600).result()\n"
    )
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as report:
        assert report.stdout is not None
        check = int(report.stdout.readline())
        report.kill()
    end = time.monotonic() + 1800
    while is_running(check) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(check)


def test_calls_made_side_by_side_end_with_the_first_failure():
    calls, others = {"a": partial(time.sleep, 600), "b": partial(int, "no number")}, set(active_children())
    with pytest.raises(ValueError, match="no number"):
        stages.side_by_side(calls, 2, PROGRESS, "calls")
    assert set(active_children()) == others


def test_calls_made_side_by_side_have_processes_of_their_own():
    pids = stages.side_by_side({"a": os.getpid, "b": os.getpid}, 2, PROGRESS, "calls")
    assert set(pids) == {"a", "b"}
    assert os.getpid() not in pids.values()


def is_running(pid):
    """Whether there is such a process, and not only its exit status that nobody asks for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
