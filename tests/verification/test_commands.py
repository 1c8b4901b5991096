"""``onebit verify`` and ``onebit mutants``: verdicts, exit states, reports; nothing but one line for a wrong call."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import typer
from rich.console import Console
from search_support import BRIEF

from onebit_signals import stoppable
from verification.cli import _print_causes, mutants, verify
from verification.independent.optimizers import Eager
from verification.mutants import score as scoring
from verification.raised import of_the_user
from verification.search.cases import CollectiveCase
from verification.search.causes import Cause
from verification.search.clauses import CLAUSES
from verification.search.driver import Driver
from verification.search.plan import PROFILES
from verification.search.search import search

CODE = """
import numpy as np

class NoCompression:
    scale, workers = "l2", (1, 2)
    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        u_ND = buffers_ND + worker_errors_ND
        return u_ND.mean(axis=0) + server_error_D, np.zeros_like(u_ND), np.zeros_like(server_error_D)

class Wrong:
    def allreduce(self, a, b, c):
        return c[:-1], b, c
"""


def call(command, *arguments, **options):
    """Exit status of a command body with typer's defaults filled in."""
    app = typer.Typer()
    app.command()(command)
    texts = [str(argument) for argument in arguments]
    for name, value in options.items():
        texts += [f"--{name.replace('_', '-')}", str(value)]
    try:
        return app(texts, standalone_mode=False) or 0
    except typer.Exit as stop:
        return stop.exit_code


@pytest.fixture
def quick(monkeypatch, brief):
    monkeypatch.setitem(PROFILES, "quick", brief)


@pytest.fixture
def file(tmp_path, quick):
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def test_failures_are_reported_in_three_ways(file, tmp_path, capsys):
    found = {"clause": "collective.one_bit", "json": tmp_path / "out.json", "junit": tmp_path / "out.xml"}
    assert call(verify, f"{file}:NoCompression", **found) == 1
    text = capsys.readouterr().out
    assert "fails       collective.one_bit" in text
    assert "cause 1 of 1: collective.one_bit" in text
    assert "= mine.allreduce(" in text
    assert "\nassert " in text
    [row] = json.loads(found["json"].read_text())["properties"]
    assert row["outcome"] == "fails"
    suite = ElementTree.parse(found["junit"]).getroot()
    assert suite.get("failures") == "1"
    assert suite[0].find("failure") is not None


def test_holds(file):
    assert call(verify, f"{file}:NoCompression", clause="collective.conservation") == 0


def test_expected_failures_must_fail(file, tmp_path):
    expected = tmp_path / "expected.txt"
    expected.write_text("# known\ncollective.one_bit  # it does not compress\n")
    assert call(verify, f"{file}:NoCompression", clause="collective.one_bit", expected_failures=expected) == 0
    expected.write_text("collective.conservation  # it does not compress\n")
    given = {"clause": "collective.conservation", "expected_failures": expected, "junit": tmp_path / "out.xml"}
    assert call(verify, f"{file}:NoCompression", **given) == 1
    assert ElementTree.parse(given["junit"]).getroot().get("failures") == "1"


def test_reports_and_expected_failures_that_are_none_are_refused(file, tmp_path):
    """One file for two reports, and a failure that nobody gives a reason for."""
    same = tmp_path / "out"
    with pytest.raises(typer.BadParameter, match="--json and --junit name the same file"):
        call(verify, f"{file}:NoCompression", json=same, junit=same)
    expected = tmp_path / "expected.txt"
    expected.write_text("collective.one_bit\n")
    with pytest.raises(typer.BadParameter, match=r"line 1: say why collective\.one_bit must fail"):
        call(verify, f"{file}:NoCompression", expected_failures=expected)


def test_an_expected_failure_that_was_not_run_is_told(file, tmp_path, capsys, monkeypatch, brief):
    """Another level's clause, and one that is left out; --clause leaves the others alone."""
    monkeypatch.setitem(PROFILES, "quick", replace(brief, largest=8, exact=0, simplifying=0))
    expected = tmp_path / "expected.txt"
    expected.write_text(
        "optimizer.resume  # later\ncollective.wire_bytes  # later\n"
        "collective.one_bit  # as it is\ncollective.server_scale  # as it is\n"
    )
    assert call(verify, f"{file}:NoCompression", clause="collective.one_bit", expected_failures=expected) == 0
    capsys.readouterr()
    call(verify, f"{file}:NoCompression", expected_failures=expected)
    told = [line for line in capsys.readouterr().out.splitlines() if "was expected to fail" in line]
    assert told == [
        f"{name} was expected to fail and was not checked" for name in ("collective.wire_bytes", "optimizer.resume")
    ]
    file.write_text(
        "from verification.adapters.reference import ReferenceCollective\n"
        "class Mine(ReferenceCollective):\n    bytes_per_worker, workers = None, (1, 2)\n"
    )
    expected.write_text("collective.wire_bytes  # later\n")
    assert call(verify, f"{file}:Mine") == 0
    assert call(verify, f"{file}:Mine", expected_failures=expected) == 3


def test_causes_have_the_numbers_of_the_report(tmp_path, quick, capsys):
    path, out = tmp_path / "two.py", tmp_path / "out.json"
    path.write_text(TWO_FAULTS)
    assert call(verify, f"{path}:Two", json=out) == 1
    report = json.loads(out.read_text())
    printed = re.findall(r"cause (\d+) of (\d+): (.*)", capsys.readouterr().out)
    assert [int(number) for number, _, _ in printed] == list(range(1, len(printed) + 1))
    assert {int(of) for _, of, _ in printed} == {len(report["causes"])}
    for number, _, names in printed:
        assert names.split(", ") == report["causes"][int(number) - 1]["clauses"]
        assert {row["property"] for row in report["properties"] if row["cause"] == int(number)} == set(
            names.split(", ")
        )


def test_a_cause_begins_with_what_its_program_shows_and_tells_the_rest(capsys):
    """Whatever order the clauses have in the table; what was expected to fail is left out."""
    told = {"a.raises": "v is inf", "a.frozen": "v changed", "a.one_bit": "two sizes", "a.scale": "s is 0"}
    failed = [
        {"property": name, "law": "L", "findings": [{"message": text}], "counterexample": f"# {text}\nassert False"}
        for name, text in told.items()
    ]
    case = CollectiveCase(())
    causes = [Cause(["a.expected"], case, ()), Cause(["a.frozen", "a.scale", "a.raises"], case, ())]
    _print_causes(Console(soft_wrap=True), failed, causes)
    assert capsys.readouterr().out.splitlines() == [
        "", "cause 1 of 3: a.expected, as expected",
        "", "cause 2 of 3: a.frozen, a.scale, a.raises", "# v changed", "assert False",
        "# the smallest case of a.scale (L): s is 0",
        "# the smallest case of a.raises (L): v is inf", "", "cause 3 of 3: a.one_bit", "# two sizes", "assert False",
    ]  # fmt: skip


TWO_FAULTS = """
import numpy as np
from verification.mutants.base_collective import BaseCollective
class Two(BaseCollective):
    workers = 1, 2
    def allreduce(self, buffers_ND, *others):
        found = super().allreduce(buffers_ND, *others)
        buffers_ND[0, 0] = 0
        return found
    def worker_scale(self, u_D, live_D):
        return super().worker_scale(u_D, live_D) * np.float32(1.01 if u_D.size > 200 else 1)
"""


def test_a_trait_that_raises_is_one_sentence(tmp_path):
    path = tmp_path / "meta.py"
    path.write_text(
        "class Meta(type):\n"
        "    @property\n"
        "    def {name}(cls):\n"
        "        raise ZeroDivisionError('trait\\nof two lines')\n"
        "class H(metaclass=Meta):\n    def start(self): pass\n    def step(self): pass\n    def snapshot(self): pass\n"
    )
    text = path.read_text()
    for name in ("workers", "allreduce", "load"):
        path.write_text(text.format(name=name))
        with pytest.raises(typer.BadParameter, match=rf"^H\.{name} raised ZeroDivisionError: trait$"):
            call(verify, f"{path}:H")


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        ("mine.py", {}, r"FILE\.py:ClassName"),
        ("nowhere.py:A", {}, "there is no file"),
        ("{file}:Missing", {}, r"has no class Missing; the classes there are: NoCompression, Wrong"),
        ("{file}:Wrong", {}, r"output_D must have shape \(16,\), got \(15,\)"),
        ("{file}:NoCompression", {"profile": "slow"}, "--profile must be one of"),
        ("{file}:NoCompression", {"clause": "collective.nothing"}, "there is no clause"),
        ("{file}:NoCompression", {"clause": "optimizer.apply"}, "its levels are collective"),
        ("{file}:NoCompression", {"expected_failures": "nowhere.txt"}, "can't be read"),
    ],
)
def test_wrong_calls_are_one_sentence(file, target, options, sentence):
    with pytest.raises(typer.BadParameter, match=sentence) as caught:
        call(verify, target.format(file=file), **options)
    assert "\n" not in str(caught.value)


def test_expected_failures_that_are_no_text_are_one_sentence(file, tmp_path):
    path = tmp_path / "expected.txt"
    path.write_bytes(b"collective.one_bit  # \xff\n")
    with pytest.raises(typer.BadParameter, match=r"expected\.txt, can't be read: 'utf-8' codec"):
        call(verify, f"{file}:NoCompression", expected_failures=path)


def test_a_file_that_raises_is_one_sentence(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('first\\nsecond')\n")
    with pytest.raises(typer.BadParameter, match=r"raised RuntimeError when it was loaded: first$"):
        call(verify, f"{path}:A")


def test_code_is_loaded_from_the_path_alone(file):
    before = list(sys.path)
    call(verify, f"{file}:NoCompression", clause="collective.conservation")
    assert sys.path == before


QUITS = {
    "in a step": "    def step(self, g):\n        os._exit(0) if self.n == 3 else super().step(g)\n",
    "in C": "    def step(self, g):\n        ctypes.CDLL(None).exit(0) if self.n == 3 else super().step(g)\n",
    "a fork whose parent ends": (
        "    def step(self, g):\n        super().step(g)\n"
        "        if self.n == 3 and os.fork():\n            os._exit(0)\n"
    ),
    "at the load": "os._exit(0)\n",
    "at the end": "    def save(self):\n        atexit.register(os._exit, 0)\n        return super().save()\n",
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", QUITS)
def test_no_class_ends_its_check_with_status_0(how, tmp_path, brief, monkeypatch, capsys):
    monkeypatch.setitem(PROFILES, "quick", replace(brief, arrays=2, largest=8, exact=0))
    path = tmp_path / "quits.py"
    path.write_text(
        "import atexit, ctypes, os\nfrom verification.independent.optimizers import Eager\n"
        "class Quits(Eager):\n    pass\n" + QUITS[how]
    )
    out = tmp_path / "out.json"
    if how == "at the load":
        with pytest.raises(typer.BadParameter, match="ended its process with exit status 0 before there was a verdict"):
            call(verify, f"{path}:Quits")
        return
    status = call(verify, f"{path}:Quits", json=out)
    outcomes = {row["outcome"] for row in json.loads(out.read_text())["properties"]}
    if how == "at the end":
        assert (status, outcomes) == (0, {"holds"})
    else:
        assert (status, outcomes) == (3, {"not checked"})
        assert "ended its process with exit status 0 before there was a verdict" in capsys.readouterr().out


@pytest.mark.parametrize("written", [b"\0\0\0\x05wrong", b"\0\0\0\x02N.", b"\0\0\0\x04I42\n.", b"\x70longer"])
def test_what_the_class_writes_into_the_pipe_of_the_check_is_told(written, tmp_path, brief, monkeypatch, capsys):
    """Bytes that are no pickle, pickles that are no message, and a length of what never comes."""
    monkeypatch.setitem(PROFILES, "quick", replace(brief, arrays=2, largest=8, exact=0))
    path = tmp_path / "writes.py"
    path.write_text(
        "import os, time\nfrom contextlib import suppress\nfrom verification.independent.optimizers import Eager\n"
        "class Writes(Eager):\n    def step(self, grads_ND):\n        super().step(grads_ND)\n"
        "        for descriptor in range(3, 256):\n            with suppress(OSError):\n"
        f"                os.write(descriptor, {written!r})\n"
        "        time.monotonic = lambda: 1e9\n"  # the time of the search is over
    )
    told = ""
    try:
        assert call(verify, f"{path}:Writes") == 3
    except typer.BadParameter as error:  # before the first case
        told = str(error)
    assert "wrote into a file descriptor that it did not open" in told + " ".join(capsys.readouterr().out.split())


def test_a_class_that_closes_the_pipe_of_the_check_is_told_in_one_line(tmp_path, quick, capfd):
    path = tmp_path / "closes.py"
    path.write_text(
        "import os\nfrom verification.independent.optimizers import Eager\n"
        "class Closes(Eager):\n    def step(self, g):\n        super().step(g)\n        os.closerange(3, 256)\n"
    )
    with pytest.raises(typer.BadParameter, match="or closed it"):
        call(verify, f"{path}:Closes")
    assert not capfd.readouterr().err


def test_a_clause_that_raises_does_not_blame_the_class(tmp_path, quick):
    path = tmp_path / "mine.py"
    path.write_text(
        "from verification.independent.collectives import Float64\n"
        "from verification.relation.compression import CompressionRound\n"
        "from verification import originals\n"
        "def boom(self):\n    raise TypeError('no law')\n"
        "originals._known.clear()  # so that it is none of the class\nCompressionRound.worker_scale = boom\n"
    )
    said = r"^the check itself failed, not the class \(mine\.py, line 5\): TypeError: no law"
    with pytest.raises(typer.BadParameter, match=said):
        call(verify, f"{path}:Float64")


@pytest.mark.parametrize("raised", ["GeneratorExit()", "KeyboardInterrupt()", "BaseException('x')"])
def test_whatever_a_class_raises_is_a_sentence(raised, tmp_path, quick):
    path = tmp_path / "raises.py"
    path.write_text(
        "from verification.independent.optimizers import Eager\n"
        f"class Raises(Eager):\n    def step(self, g):\n        raise {raised}\n"
    )
    with pytest.raises(typer.BadParameter, match=f"raised {raised.split('(')[0]}"):
        call(verify, f"{path}:Raises")


@pytest.mark.parametrize("begins", [True, False], ids=["in a step", "at import"])
def test_a_call_that_never_comes_back_is_ended(begins, tmp_path, quick, monkeypatch, capsys):
    path, hung, out = tmp_path / "hangs.py", tmp_path / "hung", tmp_path / "out.json"
    hang = f"pathlib.Path({str(hung)!r}).touch()\n{{}}time.sleep(0.1)\n"
    path.write_text(
        "import pathlib, time\nfrom verification.independent.optimizers import Eager\n"
        "class Hangs(Eager):\n    def step(self, g):\n        while self.n != 2:\n"
        f"            {hang.format(' ' * 12)}        super().step(g)\n"
    )
    if not begins:
        path.write_text(path.read_text() + f"while True:\n    {hang.format(' ' * 4)}")
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 1000 * hung.exists())  # the time is over
    monkeypatch.setattr("verification.isolated.time", later)
    assert call(verify, f"{path}:Hangs", minutes=5, json=out) == 3
    assert re.search(r"30 s after the time was over: .*does a call not come back\?", capsys.readouterr().out)
    assert {row["outcome"] for row in json.loads(out.read_text())["properties"]} == {"not checked"}


STOPPABLE = (
    "import signal, sys, typer; from verification.cli import verify\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "app = typer.Typer()\napp.command()(verify)\napp(sys.argv[1:])\n"
)
"""The command, which answers Ctrl-C wherever the tests are run."""


@pytest.mark.parametrize("only", [(), ("optimizer.frozen", "optimizer.dead")])
def test_a_search_that_is_stopped_before_its_first_case_lists_every_clause_as_not_checked(tmp_path, only):
    path, out, junit = tmp_path / "stops.py", tmp_path / "out.json", tmp_path / "out.xml"
    path.write_text("import os, signal, time\nos.kill(os.getppid(), signal.SIGINT)\ntime.sleep(300)\n")
    options = [part for name in only for part in ("--clause", name)]
    arguments = [sys.executable, "-c", STOPPABLE, f"{path}:Stops", "--json", out, "--junit", junit, *options]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.returncode == 130
    rows = json.loads(out.read_text())["properties"]
    assert [row["property"] for row in rows] == list(only or (clause.id for clause in CLAUSES))
    assert {row["outcome"] for row in rows} == {"not checked"}
    assert all("was stopped" in row["note"] for row in rows)
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("errors") == suite.get("tests") == str(len(rows))
    assert f"{len(rows)} not checked" in ran.stdout


def test_a_stopped_search_says_and_writes_what_it_found(tmp_path, quick):
    path, out = tmp_path / "stops.py", tmp_path / "out.json"
    path.write_text(
        "import os, signal\nfrom verification.independent.optimizers import Eager\n"
        "class Stops(Eager):\n    seen = 0\n    def step(self, g):\n        super().step(g)\n"
        "        self.x *= 2\n        Stops.seen += 1\n"
        "        if Stops.seen == 500:\n            os.kill(os.getppid(), signal.SIGINT)\n"
    )
    arguments = [sys.executable, "-c", STOPPABLE, f"{path}:Stops", "--json", str(out)]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.returncode == 130
    assert "the search was stopped" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    report = json.loads(out.read_text())
    found = {row["property"]: row["outcome"] for row in report["properties"]}
    assert found["optimizer.adam_params"] == "fails"
    assert set(found.values()) == {"fails", "not checked"}
    causes = {name: cause["counterexample"] for cause in report["causes"] for name in cause["clauses"]}
    assert set(causes) == {name for name, outcome in found.items() if outcome == "fails"}
    assert "def test" in causes["optimizer.adam_params"] or "findings(" in causes["optimizer.adam_params"]


def test_a_second_signal_changes_nothing():
    before = signal.getsignal(signal.SIGTERM)
    with stoppable():
        with pytest.raises(KeyboardInterrupt) as stopped:
            signal.raise_signal(signal.SIGTERM)
        assert of_the_user(stopped.value)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    with stoppable() as finish:
        finish()
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_exit_status_3_where_something_was_not_checked(file, capsys):
    path = file.with_name("refuses.py")
    path.write_text(
        "from verification.adapters.reference import ReferenceOptimizer\n"
        "class Refuses(ReferenceOptimizer):\n"
        "    def start(self, params_D, n_workers, hyper):\n"
        "        raise NotImplementedError('next year')\n"
    )
    assert call(verify, f"{path}:Refuses") == 3
    text = capsys.readouterr().out
    assert "0.0 % of the pairs of feature levels" in text
    assert "declare what the class takes" in text


def test_coverage_is_printed(file, capsys):
    assert call(verify, f"{file}:NoCompression", clause="collective.conservation") == 0
    text = capsys.readouterr().out
    assert "collective: 100 % of the pairs of feature levels" in text
    assert "pairs are left out: products would overflow" in text
    assert " s of processor time" in text
    assert "left out, because NoCompression has no bytes_per_worker(): wire_bytes" in text


def test_a_signal_inside_a_call_of_the_class_stops_the_search():
    """It is no finding against the class, which with mutants would count as found."""

    class Interrupted(Eager):
        calls = 0

        def step(self, grads_ND):
            Interrupted.calls += 1
            if Interrupted.calls == 300:
                signal.raise_signal(signal.SIGTERM)
            super().step(grads_ND)

    with stoppable(), pytest.raises(KeyboardInterrupt):
        search(Driver(Interrupted), profile=BRIEF)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [["--count", "400"], ["--false-alarms", "200"]], ids=lambda options: options[0])
def test_stopped_mutants_keep_what_is_done(tmp_path, number, options):
    """Also where SIGINT is ignored, as in the background jobs of a shell script."""
    out = tmp_path / "score.json"
    script = (
        "import os, signal, sys, typer\nimport rich.progress\nfrom verification.cli import mutants\n"
        "from verification.mutants import score\n"
        "score.row_of = lambda mutant, profile: score.Row(mutant.id, '', '', '', True, {'none': ''}, 1)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "def track(results, *arguments, **options):\n"
        "    yield next(iter(results))\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    yield from results\n"
        "rich.progress.track = track\n"
        "app = typer.Typer()\napp.command()(mutants)\napp(sys.argv[1:])\n"
    )
    arguments = [sys.executable, "-c", script, *options, "--jobs", "1", "--json", str(out)]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.returncode == 130, ran.stderr
    assert "stopped after" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    written = json.loads(out.read_text())
    assert written.get("cases", 0) > 0 or len(written["mutants"]) == 1


def test_one_fault_is_tried_and_each_line_is_printed(monkeypatch, tmp_path, capsys):
    def row_of(mutant, profile):
        return scoring.Row(mutant.id, "signs", mutant.level, mutant.bug.text, True, {"here": "wrong"}, 1)

    monkeypatch.setattr(scoring, "row_of", row_of)
    assert call(mutants, only="ZeroIsMinus", jobs=1, json=tmp_path / "score.json") == 0
    told = capsys.readouterr().out
    assert told.count("signs.ZeroIsMinus") == 5
    assert "held-out triggers, ZeroIsMinus, seed 0, quick: 5 of 5 mutants killed" in told
    assert json.loads((tmp_path / "score.json").read_text())["only"] == ["ZeroIsMinus"]
    with pytest.raises(typer.BadParameter, match="no fault or family 'Nothing'"):
        call(mutants, only="Nothing")
    with pytest.raises(typer.BadParameter, match="give one of them"):
        call(mutants, only="signs", false_alarms=1)


def test_mutants_are_sampled(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(PROFILES, "quick", BRIEF)
    out = tmp_path / "score.json"
    status = call(mutants, count=2, seed=3, split="development", jobs=1, json=out)
    told = capsys.readouterr().out
    assert "seed 3, quick: " in told
    score = json.loads(out.read_text())
    alive = score["counted"] - score["killed"]
    assert (status, told.count("lives  ")) == (min(alive, 1), alive)  # which ones live is not this test's matter
    assert len(score["mutants"]) == 2
    for wrong in ({"jobs": 0}, {"split": "all"}, {"profile": "slow"}):
        with pytest.raises(typer.BadParameter, match="must be"):
            call(mutants, **wrong)
