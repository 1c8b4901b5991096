"""``onebit doctor``: it says the truth about a machine that has everything and about one that has nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
BARE = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
import onebit_doctor
onebit_doctor.HUGE_PAGES = onebit_doctor.Path("/nowhere")
onebit_doctor.version_of = lambda name: None
sys.argv = ["onebit", "doctor", "--json", {file!r}]
import onebit
onebit.main()
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, check=False, timeout=1800,
    )  # fmt: skip


@pytest.mark.parametrize("absent", [(), ("torch", "sklearn", "joblib", "pandas", "matplotlib", "hypothesis")])
def test_a_bare_machine_is_described_and_nothing_crashes(tmp_path, absent):
    file = tmp_path / "findings.json"
    empty = {"PATH": str(tmp_path), "CC": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path)}
    done = run(
        BARE.format(absent=absent, file=str(file)), **empty, ONEBIT_DEEPSPEED_PYTHON=str(tmp_path / "no-such-python")
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    findings = {finding["name"]: finding for finding in json.loads(file.read_text())}
    missing = {"C compiler", "Chromium", "DeepSpeed 0.19.6", "huge pages", "scikit-learn", "joblib", "hypothesis"}
    missing |= {"root and iproute2", "transformers", "accelerate", "lightning"}
    missing |= {"torch"} if absent else {"Triton"}
    for name in missing:
        assert findings[name]["found"] is None, name
        assert findings[name]["without"], name
        assert findings[name]["remedy"], name
        assert f"{name}: without it" in done.stdout, name
    assert findings["Python"]["found"]


def test_what_this_machine_has(tmp_path):
    file = tmp_path / "findings.json"
    done = run(f"import sys, onebit; sys.argv = ['onebit', 'doctor', '--json', {str(file)!r}]; onebit.main()")
    assert done.returncode == 0, done.stderr
    findings = {finding["name"]: finding["found"] for finding in json.loads(file.read_text())}
    assert findings["torch"] == torch.__version__
    assert (findings["CUDA"] is None) == (not torch.cuda.is_available())
    assert (findings["gloo"] is None) == (not torch.distributed.is_gloo_available())
    for name, found in findings.items():
        assert name in done.stdout
        assert (f"{name}: without it" in done.stdout) == (found is None)


def test_a_compiler_that_cannot_compile_is_not_a_compiler(tmp_path):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'fatal error: no headers here' >&2\nexit 1\n")
    broken.chmod(0o755)
    code = "import onebit_doctor as d; print(d.torch_and_devices()[1])"
    done = run(code, CC=str(broken), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "found=None" in done.stdout
    assert "no headers here" in done.stdout
