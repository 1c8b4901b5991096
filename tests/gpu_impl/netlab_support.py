"""What the tests of the network lab share: what it needs here, and how to wait for a fact."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from gpu_impl.netlab.counters import HEADERS
from gpu_impl.netlab.namespaces import RECORDS
from gpu_impl.netlab.tools import what_is_missing

needs_lab = pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing())
needs_tap = pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this kernel has no TAP devices")

OPTIONS = 40 - 12
"""Bytes that TCP's options may take in a frame beside the timestamps: selective acknowledgements, after reordering."""
RUN = ["netlab", "--workers", "2", "--parameters", "100000", "--seconds", "0.1"]
"""The smallest useful lab."""


def own_records(pid=None):
    return [file for file in RECORDS.glob("*.json") if json.loads(file.read_text())["pid"] == (pid or os.getpid())]


def wait_until(true, seconds=1800):
    """What is waited for is the fact; the limit is for one that never comes."""
    end = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return done


def assert_all_but_options(row):
    frames = (row["wire_bytes"] - row["payload_bytes"]) / HEADERS
    assert 0 <= row["payload_bytes"] - row["call_bytes"] <= OPTIONS * frames, row
    assert row["drops"] == 0


def said(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    return err
