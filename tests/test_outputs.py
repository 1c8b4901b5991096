"""What commands write: every output is looked at before the work, and what is no file is written to as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from onebit_command import app, bench
from onebit_files import writable_file, writable_folder, write_atomically

ROOT = Path(__file__).parents[1]


def test_every_path_of_a_command_is_looked_at_before_the_work():
    """But for those that are read."""
    from gpu_impl.benchmarks import command, training  # torch takes seconds
    from paper_figures.netlab.command import netlab

    known = [item.callback for item in (*app.registered_commands, *bench.registered_commands) if item.callback]
    unguarded = set()
    for function in (*known, command.kernels, training.training, netlab):
        for name, hint in get_type_hints(function, include_extras=True).items():
            kind, *about = get_args(hint) or (hint,)
            if Path in (kind, *get_args(kind)) and about[0].callback not in (writable_file, writable_folder):
                unguarded.add((function.__name__, name))
    assert unguarded == {("verify", "expected_failures"), ("convert", "source")}


def test_a_pipe_is_written_to_as_it_is():
    call = [sys.executable, "-m", "onebit", "list", "--steps", "2", "--dim", "64", "--json", "/dev/stdout"]
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert '"name": "sgd"' in done.stdout


def test_a_full_device_is_named():
    with pytest.raises(OSError, match="/dev/full can't be written: No space left on device"):
        write_atomically(Path("/dev/full"), "x")


def test_an_error_names_the_link_that_was_asked_for(tmp_path):
    """Not what it points to, nor the file beside that, whose name is too long here to be taken away again."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / ("x" * 250))
    with pytest.raises(OSError, match=re.escape(f"{link} can't be written: File name too long")):
        write_atomically(link, "")
