"""The network lab: what it counts on real links, what it needs, and that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import onebit_command
from gpu_impl.netlab import namespaces, tools
from gpu_impl.netlab.bandwidth import bits_per_second, in_words
from gpu_impl.netlab.contestants import CONTESTANTS
from gpu_impl.netlab.counters import HEADERS, Sent
from gpu_impl.netlab.delay_line import DelayLine
from gpu_impl.netlab.namespaces import MADE, PREFIX, RECORDS, Namespaces, processes_in, remove_leftovers, started_at
from gpu_impl.netlab.network import Network
from gpu_impl.netlab.tools import LabError, call, ip, what_is_missing
from theory.tolerance_checks import gamma

pytestmark = pytest.mark.xdist_group("netlab")
needs_lab = pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing())
needs_tap = pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this kernel has no TAP devices")

OPTIONS = 40 - 12
"""Bytes that TCP's options may take in a frame beside the timestamps: selective acknowledgements, after reordering."""
ROOT = Path(__file__).parents[2]
RUN = ["netlab", "--workers", "2", "--parameters", "100000", "--seconds", "0.1"]


def own_records(pid=None):
    return [file for file in RECORDS.glob("*.json") if json.loads(file.read_text())["pid"] == (pid or os.getpid())]


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


def assert_all_but_options(row):
    frames = (row["wire_bytes"] - row["payload_bytes"]) / HEADERS
    assert 0 <= row["payload_bytes"] - row["call_bytes"] <= OPTIONS * frames, row
    assert row["drops"] == 0


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


# --- what is left behind ---

PROGRAM = """
import signal, subprocess
from gpu_impl.netlab import lab as module
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with module.lab(2, delayed=DELAYED) as (network, pool):
        print(" ".join(str(process.pid) for process in pool.processes), network.switch, *network.hosts, flush=True)
        pool.call(subprocess.call, ["sleep", "60"])
""".replace("DELAYED", str(Path("/dev/net/tun").exists()))


def begun(tmp_path, text):
    """A lab in a process and session of its own."""
    program = tmp_path / "program.py"
    program.write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout.readline()


def started(tmp_path):
    """One whose workers are busy; the process, the workers' pids, the namespaces."""
    process, line = begun(tmp_path, PROGRAM)
    first, second, *names = line.split()
    assert len(names) == 3
    assert wait_until(lambda: all(len(processes_in(name)) > 1 for name in names[1:]))  # a worker and what it has begun
    return process, [int(first), int(second)], names


def commands_in(namespace):
    """The command lines of what runs there."""
    found = []
    for pid in processes_in(namespace):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_text())
    return " ".join(found)


def wait_until(true, seconds=20):
    end = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return done


def is_running(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@needs_lab
def test_after_a_kill_the_workers_end_and_the_next_start_removes_the_rest(tmp_path):
    process, pids, names = started(tmp_path)
    assert all(processes_in(name) for name in names[1:])
    assert remove_leftovers() == []  # it runs: hands off
    process.kill()
    process.wait()
    assert wait_until(lambda: not any(map(is_running, pids)))
    assert wait_until(lambda: not any("delay_line" in commands_in(name) for name in names))
    assert all((MADE / name).exists() for name in names)
    with Network(2):
        assert not any((MADE / name).exists() for name in names)
    assert not any(names[0] in file.read_text() for file in RECORDS.glob("*.json"))
    process.communicate()


@needs_lab
@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_sigterm_remove_it(tmp_path, number):
    process, pids, names = started(tmp_path)
    process.send_signal(number)
    try:
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode != 0
    assert wait_until(lambda: not any(map(is_running, pids)))
    assert not any((MADE / name).exists() for name in names)


@needs_lab
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_of_it_while_workers_start_prints_no_traceback(tmp_path, number):
    """As a terminal sends Ctrl-C; SIGTERM to the program alone."""
    process, line = begun(
        tmp_path, PROGRAM.replace("    with module", "    print('begins', flush=True)\n    with module")
    )
    assert line == "begins\n"
    assert wait_until(lambda: own_records(process.pid))
    time.sleep(1.0)  # the fork server imports torch, or the workers enter their hosts
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert said.count("Traceback") == 1, said  # the program's own, which has no other end
    assert said.strip().endswith("KeyboardInterrupt")
    assert own_records(process.pid) == []


@needs_lab
def test_processes_in_a_namespace_are_ended_with_it():
    made = Namespaces(["a"])
    sleeper = subprocess.Popen(["ip", "netns", "exec", made.names[0], "sleep", "60"])
    assert wait_until(lambda: sleeper.pid in processes_in(made.names[0]))
    made.remove()
    assert sleeper.wait(timeout=5) == -signal.SIGKILL
    assert not (MADE / made.names[0]).exists()
    made.remove()


@needs_lab
def test_only_what_is_ours_is_removed(tmp_path, monkeypatch):
    """Not a namespace of ours without a record, not another's in a record, not those of a process that runs."""
    monkeypatch.setattr(namespaces, "RECORDS", tmp_path)
    number = os.getpid()
    stranger, unrecorded, leftover, alive = (
        f"{start}{number}" for start in ("kept-", PREFIX, f"{PREFIX}x", f"{PREFIX}y")
    )
    everything = [stranger, unrecorded, leftover, alive]
    ip(None, *(f"netns add {name}" for name in everything))
    try:
        gone, here = {"pid": 2**22 + 1, "started": 1}, {"pid": number, "started": started_at(number)}
        record(tmp_path, "gone", gone, [stranger, leftover])
        record(tmp_path, "here", here, [alive])
        (tmp_path / f"{PREFIX}broken.json").write_text("{")
        assert remove_leftovers() == [leftover]
        assert [name for name in everything if (MADE / name).exists()] == [stranger, unrecorded, alive]
        record(tmp_path, "here", {"pid": number, "started": 1}, [alive])  # another process had this number
        assert remove_leftovers() == [alive]
    finally:
        for name in everything:
            with suppress(LabError):
                ip(None, f"netns delete {name}")


def record(folder, name, owner, names):
    (folder / f"{PREFIX}{name}.json").write_text(json.dumps(owner | {"namespaces": names}))


@needs_lab
def test_half_a_network_is_removed(monkeypatch):
    made = []

    def fails(self, *_):
        made.extend([self.switch, *self.hosts])
        raise LabError("no more")

    monkeypatch.setattr(Network, "_link", fails)
    with pytest.raises(LabError, match="no more"):
        Network(2)
    assert len(made) == 3
    assert not any((MADE / name).exists() for name in made)
    assert own_records() == []


# --- added latency ---

ECHO = """
import socket
place = socket.create_server(("198.18.0.2", 5000))
one, _ = place.accept()
while data := one.recv(1 << 16):
    one.sendall(data)
"""
ASK = """
import hashlib, os, socket, threading, time
one = socket.create_connection(("198.18.0.2", 5000))
times = []
for _ in range(5):
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
        took, same = call(["ip", "netns", "exec", network.hosts[0], sys.executable, "-c", ASK]).split()
        assert same == "True"
        assert 2 * latency <= float(took) < 2 * latency + 0.05
        echo.wait(10)


@needs_lab
@needs_tap
def test_steps_get_longer_by_the_latency_and_their_bytes_stay(tmp_path):
    file, chosen = tmp_path / "lab.json", ["--contestants", "1-bit", "--bandwidth", "1Gbit"]
    assert onebit_command.run([*RUN, *chosen, "--latency", "0", "--latency", "50", "--json", str(file)]) == 0
    near, far = json.loads(file.read_text())["points"]
    assert (near["latency"], far["latency"]) == (0.0, 0.05)
    assert near["call_bytes"] == far["call_bytes"]
    assert far["exchange"] > near["exchange"] + 2 * 0.05  # an all-to-all, and then an all-gather
    for row in (near, far):
        assert_all_but_options(row)


@needs_lab
@needs_tap
def test_if_the_delay_line_is_killed_nobody_waits_for_it():
    with Network(2, delayed=True) as network:
        waits = subprocess.Popen(["ip", "netns", "exec", network.hosts[0], "sleep", "60"])
        assert wait_until(lambda: waits.pid in processes_in(network.hosts[0]))
        network._delay_line._process.kill()
        assert waits.wait(20) == -signal.SIGKILL


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


# --- what it needs ---


def said(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    return err


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
def test_without_a_compiler_no_latency_one_sentence_and_exit_3(monkeypatch, capsys):
    monkeypatch.setattr("gpu_impl.netlab.delay_line.find_compiler", lambda: None)
    assert onebit_command.run([*RUN, "--contestants", "1-bit", "--bandwidth", "1Gbit", "--latency", "5"]) == 3
    assert "added latency needs a C compiler" in said(capsys)
    assert own_records() == []


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
        (["--parameters", "10000000000"], "this needs 4001.6 GB of memory and "),
        (["--latency", "-1"], "--latency must lie in 0..1000 ms, got -1"),
        (["--contestants", "sgd"], f"--contestants must be one of {', '.join(CONTESTANTS)}; got 'sgd'"),
        (["--batch", "0"], "Invalid value for '--batch'"),
        (["--seconds", "0"], "Invalid value for '--seconds'"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(capsys, options, says):
    assert onebit_command.run(["netlab", *options]) == 2
    assert says in said(capsys)
