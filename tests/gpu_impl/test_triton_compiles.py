"""The kernels as a GPU would run them: compiled for sm_90 without a GPU, and the PTX read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernels_support import HAS_TRITON


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_ptx(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = Path(__file__).parent / "compile_for_sm90.py"
    root = str(script.parents[2])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"PYTHONPATH": root},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    records = json.loads(done.stdout)
    assert len(records) == 40
    for record in records:
        assert record["misread"] == 0, f"{record}: an argument has the name of a variable of Triton's launcher"
        assert record["fused"] == 0, f"{record}: a product and a sum were fused, so the result is not NumPy's"
        assert record["inexact"] == 0, f"{record}: a division or root is not correctly rounded, or flushes subnormals"
        assert record["atomics"] == 0, f"{record}: the order of a sum is not fixed"
        assert record["local_memory"] == 0, f"{record}: registers are spilled"
        assert record["wide_loads"] >= record["streams"], f"{record}: its buffers are not read 16 bytes at a time"
