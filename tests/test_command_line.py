"""The front door: help, exit codes, one-line errors, files written by ``--json``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from onebit_command import run
from onebit_files import replacing, writable_file
from theory.rounding import gamma

ROOT = Path(__file__).parents[1]


def onebit(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "onebit", *arguments],
        capture_output=True, text=True, cwd=cwd or ROOT, env=os.environ | environment, check=False, timeout=1800,
    )  # fmt: skip


@pytest.fixture
def said(capsys):
    """What a call prints, in this process: starting one takes seconds."""

    def call(*arguments):
        capsys.readouterr()
        status = run(list(arguments))
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return call


def test_help_lists_only_what_works(said):
    shown = onebit("--help")
    assert shown.returncode == 0
    assert onebit().stdout == shown.stdout
    listed = {line.split()[1] for line in shown.stdout.splitlines() if line.startswith("│ ") and line[2].islower()}
    assert listed >= {"prove", "figures", "bench"}
    for verb in listed:
        verb_help = said(verb, "--help")
        assert verb_help.returncode == 0, f"{verb} --help failed: {verb_help.stderr}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["draw"], "No such command 'draw'"),
        (["figures", "mona_lisa"], "there is no figure 'mona_lisa' at --scale quick; there are byte_roofline"),
        (
            ["figures", "convergence_denoise"],
            "there is no figure 'convergence_denoise' at --scale quick; did you mean convergence_denoising",
        ),
        (["figures", "--scale", "huge"], "--scale must be quick or full, got 'huge'"),
        (["figures", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["claims", "P99"], "there is no claim 'P99'; did you mean P9"),
        (["claims", "--scale", "huge"], "--scale must be quick or full, got 'huge'"),
        (["report", "--scale", "huge"], "--scale must be quick or full, got 'huge'"),
        (["bench"], "Missing command"),
        (["bench", "reference", "--workers", "0"], "Invalid value for '--workers'"),
        (["bench", "reference", "--dim", "many"], "Invalid value for '--dim'"),
        (["prove", "T99"], "T99"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(arguments, says, said):
    result = said(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("onebit")


def test_bench_reference_measures_what_it_prints(tmp_path):
    result = onebit("bench", "reference", "--workers", "3", "--dim", "20000", "--json", str(tmp_path / "b.json"))
    assert result.returncode == 0, result.stderr
    rows = json.loads((tmp_path / "b.json").read_text())
    assert [row["scale"] for row in rows] == ["l1", "l2"]
    for row in rows:
        assert row["multiple"] == row["step_seconds"] / row["add_seconds"] > 0
        assert row["nanoseconds"] == pytest.approx(row["step_seconds"] * 1e9 / (3 * 20000), rel=gamma(8, "float64"))
        assert re.search(rf"{row['scale']} +3 +{row['nanoseconds']:.1f} ", result.stdout)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path, said):
    (tmp_path / "file").write_text("")
    result = said("bench", "reference", "--dim", "1000", "--json", str(tmp_path / "file" / "b.json"))
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "file" in result.stderr


@pytest.mark.parametrize("command", ["figures --out", "report --out", "verify x.py:Y --junit", "prove --latex"])
def test_what_can_not_be_written_is_refused_before_any_work(command, tmp_path, said):
    """A file where a folder would have to be: that stops an administrator too."""
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "new" / "x"
    result = said(*command.split(), str(path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"onebit: {path} can't be written: Not a directory\n"


def test_a_message_names_the_file_that_was_asked_for(tmp_path):
    """Not the one beside it that takes its place."""
    path = tmp_path / ("x" * 250)  # with the mark of an unfinished file, longer than a name may be
    with pytest.raises(OSError, match="can't be written") as told, replacing(path) as part:
        part.write_text("")
    assert str(told.value).startswith(str(path))
    assert writable_file(path.with_name("new")) == path.with_name("new")
    assert list(tmp_path.iterdir()) == []


def test_the_version_and_the_short_help(said):
    shown = onebit("--version")
    assert (shown.returncode, shown.stdout) == (0, f"onebit-adam {version('onebit-adam')}\n")
    for command in ([], ["bench", "kernels"]):
        assert said(*command, "-h").stdout == said(*command, "--help").stdout != ""


NAMES = [
    (["ver"], ["verify"]),
    (["figures", "convergence_d"], ["convergence_denoising", "convergence_digits_mlp"]),
    (["prove", "T6"], ["T6a", "T6b"]),
    (["prove", "10"], ["10a", "10b"]),
    (["verify", "x.py:Y", "--clause", "optimizer.res"], ["optimizer.resume", "optimizer.resize"]),
    (["mutants", "--only", "ServerZero"], ["ServerZeroIsMinus"]),
    (["mutants", "--only", "sign"], ["signs"]),
]
FILES = [
    ["verify", "READ"],
    ["convert", "do"],
    ["prove", "--json", "do"],
    ["figures", "--out", "do"],
    ["mutants", "--json", "x"],
]
COMPLETE = """
import contextlib, io, json, os, sys
import onebit
said = []
for words in json.loads(sys.argv.pop()):
    os.environ |= {"COMP_WORDS": " ".join(["onebit", *words]), "COMP_CWORD": str(len(words))}
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        onebit.main()
    said.append(out.getvalue().split())
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def completed():
    """What a shell is offered for some words; one process says it for all."""
    every = [words for words, _ in NAMES] + FILES
    command = [sys.executable, "-c", COMPLETE, json.dumps(every)]
    environment = os.environ | {"_ONEBIT_COMPLETE": "complete_bash"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=True, timeout=1800)
    found = json.loads(done.stdout)
    return lambda words: found[every.index(words)]


def test_a_shell_can_complete():
    found = onebit(_ONEBIT_COMPLETE="complete_bash", COMP_WORDS="onebit ver", COMP_CWORD="1")
    assert found.stdout.split() == ["verify"]


@pytest.mark.xdist_group("completion")
@pytest.mark.parametrize(("words", "some"), NAMES)
def test_a_shell_completes_names(words, some, completed):
    found = completed(words)
    assert set(some) <= set(found)
    assert all(name.startswith(words[-1]) for name in found)


@pytest.mark.xdist_group("completion")
@pytest.mark.parametrize("words", FILES)
def test_files_are_left_to_the_shell(words, completed):
    """It completes files where nothing is offered (``complete -o default``): so nothing may be."""
    assert completed(words) == []


def test_one_claim_is_decided_alone(tmp_path):
    """From what it rests on: no other figure is drawn, nothing is proved or checked."""
    listed = onebit("claims", "--json", "list.json", cwd=tmp_path).stdout
    rows = json.loads((tmp_path / "list.json").read_text())
    assert listed.splitlines() == ["{id:<4} {verdict:<26} {title}".format(**row) for row in rows]
    assert re.search(r"^P22  reproduced with conditions +Throughput$", listed, flags=re.MULTILINE)
    done = onebit("claims", "p22", "--json", "claims.json", cwd=tmp_path, ONEBIT_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "rests on no figure (seconds, less what is in the cache), and on profile, published" in done.stdout
    assert "P22. Throughput: reproduced with conditions" in done.stdout
    (record,) = json.loads((tmp_path / "claims.json").read_text())
    assert [check["outcome"] for check in record["checks"]] == ["holds", "fails"]


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--steps", "2", "--dim", "64"]])
def test_a_reader_that_goes_away_is_no_finding(arguments):
    """Not 1, which is "found false"; nothing is printed about it."""
    command = [sys.executable, "-m", "onebit", *arguments]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False, timeout=1800)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
