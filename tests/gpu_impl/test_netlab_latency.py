"""Latency that the network lab adds to its links."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from netlab_support import RUN, assert_all_but_options, needs_lab, needs_tap, own_records, said, wait_until

import onebit_command
from gpu_impl.netlab.delay_line import DelayLine
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.namespaces import processes_in
from gpu_impl.netlab.network import Network
from gpu_impl.netlab.tools import LabError, call

pytestmark = pytest.mark.xdist_group("netlab")

ECHO = """
import socket
place = socket.create_server(("198.18.0.2", 5000))
one, _ = place.accept()
while data := one.recv(1 << 16):
    one.sendall(data)
"""
MOST = 0.005
"""Seconds that an answer takes beside the latency; half of what another 5 ms each way would be."""
ASK = f"""
import hashlib, os, socket, sys, threading, time
one = socket.create_connection(("198.18.0.2", 5000))
latency, times = float(sys.argv[1]), []
while len(times) < 5 or (min(times) >= 2 * latency + {MOST} and len(times) < 2000):
    begin = time.perf_counter()
    one.sendall(b"x")
    one.recv(1)
    times.append(time.perf_counter() - begin)
sent, back = os.urandom(5_000_000), hashlib.sha256()
threading.Thread(target=one.sendall, args=(sent,)).start()
missing = len(sent)
while missing:
    data = one.recv(1 << 16)
    back.update(data)
    missing -= len(data)
print(min(times), back.digest() == hashlib.sha256(sent).digest())
"""


@needs_lab
@needs_tap
@pytest.mark.parametrize("latency", [0.0, 0.005, 0.02])
def test_a_frame_takes_the_added_latency_once_each_way_and_none_is_changed(latency):
    with Network(2, delayed=True) as network:
        network.limit(None, latency)
        echo = subprocess.Popen(["ip", "netns", "exec", network.hosts[1], sys.executable, "-c", ECHO])
        assert wait_until(lambda: "5000" in call(["ip", "netns", "exec", network.hosts[1], "ss", "-Hltn"]))
        took, same = call(["ip", "netns", "exec", network.hosts[0], sys.executable, "-c", ASK, str(latency)]).split()
        assert same == "True"
        assert 2 * latency <= float(took) < 2 * latency + MOST  # the shortest: on a busy machine most take longer
        echo.wait(1800)


@needs_lab
@needs_tap
def test_steps_get_longer_by_the_latency_and_their_bytes_stay(tmp_path):
    file, chosen = tmp_path / "lab.json", ["--contestants", "1-bit", "--bandwidth", "1Gbit"]
    added = 2 * 0.05  # to an all-to-all, and then an all-gather
    for _ in range(20):  # on a busy machine an exchange without latency may take longer than one with it
        assert onebit_command.run([*RUN, *chosen, "--latency", "0", "--latency", "50", "--json", str(file)]) == 0
        near, far = json.loads(file.read_text())["points"]
        assert (near["latency"], far["latency"]) == (0.0, 0.05)
        assert near["call_bytes"] == far["call_bytes"]
        assert far["exchange"] > added  # however busy
        for row in (near, far):
            assert_all_but_options(row)
        if far["exchange"] > near["exchange"] + added:
            break
    assert far["exchange"] > near["exchange"] + added


@needs_lab
@needs_tap
def test_if_the_delay_line_is_killed_nobody_waits_for_it():
    with Network(2, delayed=True) as network:
        waits = subprocess.Popen(["ip", "netns", "exec", network.hosts[0], "sleep", "60"])
        assert wait_until(lambda: waits.pid in processes_in(network.hosts[0]))
        network._delay_line._process.kill()
        assert waits.wait(1800) == -signal.SIGKILL


@needs_lab
@needs_tap
def test_it_is_said_that_the_delay_line_was_killed_and_not_that_a_worker_died():
    def killed():
        with lab(2, delayed=True) as (network, pool):
            network._delay_line._process.kill()
            pool.call(time.sleep, 60)

    with pytest.raises(LabError, match="the program that adds latency was ended from outside"):
        killed()


@needs_lab
@needs_tap
def test_where_no_program_may_be_run_no_latency(monkeypatch):
    real = subprocess.Popen

    def forbidden(command, *arguments, **keywords):
        if command[0].endswith("delay_line"):
            raise PermissionError(13, "Permission denied")
        return real(command, *arguments, **keywords)

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    with pytest.raises(LabError, match="use --latency 0"):
        DelayLine([])


@needs_lab
def test_latency_needs_a_network_that_was_made_for_it():
    with Network(2) as network, pytest.raises(ValueError, match="delayed=True"):
        network.limit(None, 0.001)


@needs_lab
@needs_tap
def test_a_delay_line_that_can_not_be_made_or_ended_says_so():
    with pytest.raises(LabError, match="can't enter /run/netns/nowhere: No such file or directory; use --latency 0"):
        DelayLine([(("nowhere", "a"), ("nowhere", "b"))])
    line = DelayLine([])
    line.close()
    line.close()
    with pytest.raises((LabError, ValueError)):
        line.set(0.0)


@needs_lab
def test_without_a_compiler_no_latency_one_sentence_and_exit_3(monkeypatch, capsys):
    monkeypatch.setattr("gpu_impl.netlab.delay_line.find_compiler", lambda: None)
    assert onebit_command.run([*RUN, "--contestants", "1-bit", "--bandwidth", "1Gbit", "--latency", "5"]) == 3
    assert "added latency needs a C compiler" in said(capsys)
    assert own_records() == []
