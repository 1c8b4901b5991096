"""The network lab: what it counts on real links, and what it needs."""

from __future__ import annotations

import json
import os
import stat

import pytest
from netlab_support import RUN, assert_all_but_options, needs_lab, own_records, said

import onebit_command
from gpu_impl.netlab import tools
from gpu_impl.netlab.bandwidth import bits_per_second, in_words
from gpu_impl.netlab.contestants import CONTESTANTS
from gpu_impl.netlab.counters import HEADERS, Sent
from gpu_impl.netlab.namespaces import MADE, PREFIX, RECORDS
from gpu_impl.netlab.tools import what_is_missing
from theory.tolerance_checks import gamma

pytestmark = pytest.mark.xdist_group("netlab")


# --- what it counts ---


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """The smallest useful lab: two workers, two bandwidths."""
    if reason := what_is_missing():
        pytest.skip(reason)
    file = tmp_path_factory.mktemp("netlab") / "lab.json"
    names = ["ddp-fp16", "warm-up", "1-bit", "1-bit-blocks"]
    chosen = [word for name in names for word in ("--contestants", name)]
    bandwidths = ["--bandwidth", "1Gbit", "--bandwidth", "200Mbit"]
    assert onebit_command.run([*RUN, *bandwidths, *chosen, "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["environment"]["torch"]
    assert [(row["contestant"], row["bandwidth"]) for row in found["points"]] == [
        (name, bandwidth) for name in names for bandwidth in (2e8, 1e9)
    ]
    return found["points"]


def test_what_the_links_carry_is_what_the_collectives_send_to_the_byte(points):
    """All but TCP's options, which an undisturbed link never needs."""
    for row in points:
        assert_all_but_options(row)
    assert any(row["payload_bytes"] == row["call_bytes"] for row in points)


def test_the_times_add_up(points):
    for row in points:
        for whole, one, other in (("step", "wire", "silent"), ("silent", "compute", "compression")):
            rounding = gamma(2, "float64") * (abs(row[one]) + abs(row[other]))
            assert row[one] + row[other] == pytest.approx(row[whole], abs=rounding)
        samples = 2 * row["batch"] / row["step"]
        assert row["samples_per_second"] == pytest.approx(samples, rel=gamma(2, "float64"))


def test_a_link_carries_no_more_than_its_bandwidth(points):
    """What passes at once after a pause is at most what the buckets at both ends of a link hold."""
    for row in points:
        if row["contestant"] == "warm-up":
            bucket = max(row["bandwidth"] / 8 * 1e-3, 2**14 + 16 * HEADERS)
            assert row["high"] >= (row["wire_bytes"] - 2 * bucket) * 8 / row["bandwidth"]


@needs_lab
def test_nothing_of_the_lab_is_left(points):
    assert own_records() == []
    assert not [name for name in os.listdir(MADE) if name.startswith(PREFIX) and not recorded(name)]


def recorded(name):
    """Whether another lab has it, which may run beside this test."""
    return any(name in file.read_text() for file in RECORDS.glob("*.json"))


def test_payload_is_what_the_headers_leave():
    sent = Sent(1000, 4, 1) - Sent(200, 2, 1) + Sent(0, 1, 0)
    assert (sent.bytes, sent.frames, sent.drops, sent.payload) == (800, 3, 0, 800 - 3 * 66)


@pytest.mark.parametrize(("text", "value"), [("100Mbit", 1e8), ("2.5Gbit", 2.5e9), ("64kbit", 64e3)])
def test_bandwidths_are_read_and_written(text, value):
    assert bits_per_second(text) == value
    assert in_words(value) == text


@pytest.mark.parametrize("text", ["", "100", "Mbit", "-1Mbit", "0Gbit", "nanMbit", "1e99Gbit", "100MB"])
def test_what_is_no_bandwidth_is_refused(text):
    with pytest.raises(ValueError, match="a bandwidth is a number and one of Gbit, Mbit, kbit"):
        bits_per_second(text)


# --- what it needs ---


def test_without_root_one_sentence_and_exit_3(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert onebit_command.run(RUN) == 3
    assert "only root may" in said(capsys)


@pytest.mark.parametrize("tool", ["ip", "tc"])
def test_without_a_tool_one_sentence_and_exit_3(monkeypatch, capsys, tool):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == tool else f"/sbin/{name}")
    assert onebit_command.run(RUN) == 3
    assert f"the command `{tool}`: on Debian, apt-get install iproute2" in said(capsys)


@needs_lab
def test_an_unknown_congestion_control_is_one_sentence_with_those_there_are(capsys):
    assert onebit_command.run([*RUN, "--contestants", "1-bit", "--bandwidth", "1Gbit", "--congestion", "bogus"]) == 3
    assert "--congestion bogus: this kernel has reno" in said(capsys)


@needs_lab
def test_without_a_token_bucket_one_sentence_and_exit_3(monkeypatch, capsys, tmp_path):
    """A ``tc`` that says what the real one says where the kernel has no such queue."""
    real = tools.shutil.which("tc")
    fake = tmp_path / "tc"
    fake.write_text(
        "#!/bin/sh\nlines=$(cat)\n"
        'case "$lines" in *" tbf "*) echo "Error: Specified qdisc kind is unknown." >&2; exit 1;; esac\n'
        f'[ -z "$lines" ] || lines="$lines\n"\nprintf %s "$lines" | exec {real} "$@"\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert onebit_command.run([*RUN, "--contestants", "1-bit", "--bandwidth", "1Gbit"]) == 3
    assert "`tbf` (sch_tbf), which is missing" in said(capsys)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--bandwidth", "fast"], "--bandwidth: a bandwidth is a number"),
        (["--workers", "1"], "--workers must lie in 2..64, got 1"),
        (["--parameters", "10"], "--parameters must be at least 100000, got 10"),
        (["--parameters", "10000000000"], "this needs 4002.5 GB of memory and "),
        (["--batch", "100000000000"], " GB of memory and "),
        (["--latency", "-1"], "--latency must lie in 0..1000 ms, got -1"),
        (["--contestants", "sgd"], f"--contestants must be one of {', '.join(CONTESTANTS)}; got 'sgd'"),
        (["--batch", "0"], "Invalid value for '--batch'"),
        (["--seconds", "0"], "Invalid value for '--seconds'"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(capsys, options, says):
    assert onebit_command.run(["netlab", *options]) == 2
    assert says in said(capsys)
