"""The repository itself: what README says runs, what is promised exists, and importing stays cheap."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ["theory", "reference", "gpu_impl", "verification", "paper_figures"]


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False, timeout=1800
    )


def tracked():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


PROGRAMS = range(len(re.findall(r"```python\n", (ROOT / "README.md").read_text())))


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.soak), *PROGRAMS[1:]])
def test_readme_code_runs(number, tmp_path):
    """The kernel is verified, as the README says; everything else is run as it stands.

    That it is found where it is wrong, is in ``verification/test_messages.py``.
    """
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[number]
    if "MyAllreduce" in code:
        (tmp_path / "mykernel.py").write_text(code)
        command = [sys.executable, "-m", "onebit", "verify", str(tmp_path / "mykernel.py:MyAllreduce")]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=1800)
    else:
        result = python(code)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout


@pytest.mark.parametrize(
    "document", [p.relative_to(ROOT).as_posix() for p in ROOT.glob("*.md")] + ["docs/algorithm.md"]
)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert target.startswith("http") or (path.parent / target).exists(), f"{document} points at {target}"


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_say_what_they_are(name):
    result = python(f"import {name}; print({name}.__doc__)")
    assert result.returncode == 0, result.stderr
    assert len(result.stdout) > 60


def test_importing_the_reference_needs_numpy_alone():
    """A reader of Algorithm 1 should not need torch, pandas, matplotlib or scikit-learn."""
    heavy = {"torch", "pandas", "matplotlib", "sklearn", "sympy"}
    assert python(f"import sys, reference; print({heavy} & set(sys.modules))").stdout.strip() == "set()"


def test_every_make_target_is_described_and_ci_runs_the_tests():
    makefile = (ROOT / "Makefile").read_text()
    shown = subprocess.run(["make", "help"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    for target in ("reproduce", "test", "lint", "bench", "gpu-check", "clean"):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
        assert f"make {target} " in shown
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_pins_satisfy_the_declared_ranges():
    from packaging.requirements import Requirement
    from packaging.version import Version

    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [r for name, group in project["optional-dependencies"].items() if name != "all" for r in group]
    for text in [*project["dependencies"], *extras]:
        requirement = Requirement(text)
        pinned = pins[requirement.name.lower().replace("_", "-")]
        assert requirement.specifier.contains(Version(pinned)), f"{requirement} against the pin {pinned}"


def test_nothing_of_this_machine_is_in_the_tree():
    private = re.compile("|".join(["/wor" + "k/", "/far" + "m/", r"\.libr" + "ary/", "/ro" + "ot/"]))
    for path in tracked():
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".csv", ""}:
            assert not private.search(path.read_text(errors="replace")), path


def test_what_all_packages_share_imports_python_alone():
    """``onebit_files.py`` is a module, which import-linter can't take as a root."""
    tree = ast.parse((ROOT / "onebit_files.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert len(names) > 3
    assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "__future__"}


@pytest.mark.xdist_group("one")
def test_what_belongs_to_one_worker_is_sent_to_one(request):
    """With some versions of pytest the mark is not heard, and what shares a network or a launcher runs side by side."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there is one process alone")
    assert request.node.nodeid.endswith("@one")
