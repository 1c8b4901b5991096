"""A program that doesn't end its process group itself is not aborted at its exit."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit
from torch import distributed as dist
atexit.register(lambda: print("ended" if not dist.is_initialized() else "open"))  # run last: it was registered first
import gpu_impl
dist.init_process_group({backend} init_method="file://{file}", rank=0, world_size=1)
"""


@pytest.mark.parametrize("backend", ['"gloo",', ""])
def test_a_group_of_gloo_is_ended_also_where_no_backend_was_named(backend, tmp_path):
    """Its threads would otherwise outlive Python, which ends such a program with SIGABRT in one run of three."""
    program = PROGRAM.format(backend=backend, file=tmp_path / "rendezvous")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
