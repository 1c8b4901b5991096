"""`from onebit import OneBitAdam, verify, prove`: loaded when asked for, known to checkers; packages that hide ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(code, cwd=ROOT):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, cwd=cwd)


def test_nothing_is_loaded_before_it_is_asked_for():
    done = python("import sys, onebit; print({'torch', 'sympy', 'hypothesis', 'typer'} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


def test_the_three_names():
    code = """
from dataclasses import replace
from onebit import OneBitAdam, prove, verify
from verification.search.plan import PROFILES
import gpu_impl
assert OneBitAdam is gpu_impl.OneBitAdam
held = prove("T2")
assert held and all(held.values())

class Wrong:
    scale, server_chunks = "l1", 1
    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        return buffers_ND.mean(axis=0), worker_errors_ND, server_error_D

PROFILES["quick"] = replace(PROFILES["quick"], exact=4, simplifying=10, largest=40, longest=4)
print(sorted({verdict.outcome for verdict in verify(Wrong, minutes=30).verdicts}))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "fails" in done.stdout


def test_a_package_that_hides_ours_is_named(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "__init__.py").write_text("")
    done = python(
        f"import sys; sys.path.append({str(ROOT)!r}); import onebit; sys.argv = ['onebit', 'prove']; onebit.main()",
        tmp_path,
    )
    assert done.returncode == 2
    assert "hides this project's package 'reference'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_name_is_refused():
    assert (
        "has no 'prov'; there are OneBitAdam, OneBitLamb, ZeroOneAdam, prove, verify"
        in python("from onebit import prov").stderr + python("import onebit; onebit.prov").stderr
    )
