"""The network lab leaves nothing behind: after Ctrl-C, after a kill, and where it could not be made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from netlab_support import needs_lab, own_records, wait_until

from gpu_impl.netlab import namespaces
from gpu_impl.netlab.namespaces import MADE, PREFIX, RECORDS, Namespaces, processes_in, remove_leftovers, started_at
from gpu_impl.netlab.network import Network
from gpu_impl.netlab.tools import LabError, ip

pytestmark = pytest.mark.xdist_group("netlab")

ROOT = Path(__file__).parents[2]

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
        process.communicate(timeout=1800)
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
    _, said = process.communicate(timeout=1800)
    assert process.returncode != 0
    assert said.count("Traceback") == 1, said  # the program's own, which has no other end
    assert said.strip().endswith("KeyboardInterrupt")
    assert own_records(process.pid) == []


def test_what_is_no_file_is_no_record(tmp_path, monkeypatch):
    """To open a pipe would wait for somebody who writes into it."""
    monkeypatch.setattr(namespaces, "RECORDS", tmp_path)
    os.mkfifo(tmp_path / f"{PREFIX}pipe.json")
    (tmp_path / f"{PREFIX}folder.json").mkdir()
    (tmp_path / f"{PREFIX}link.json").symlink_to("/etc/passwd")
    assert remove_leftovers() == []


@needs_lab
def test_a_second_signal_changes_neither_status_nor_line():
    """At the first namespace, and again when the command is about to end."""
    words = ["netlab", "--contestants", "ddp", "--workers", "2", "--parameters", "100000", "--bandwidth", "100Mbit"]
    process = subprocess.Popen([sys.executable, "-m", "onebit", *words], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert wait_until(lambda: own_records(process.pid))
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
            time.sleep(0.05)
        _, said = process.communicate(timeout=1800)
    finally:  # a process that is left over would fail the next test too
        process.kill()
        process.communicate()
    assert (process.returncode, said.split()) == (
        130,
        ["onebit", "netlab:", "interrupted", "after", "0", "points;", "the", "lab", "is", "removed"],
    )
    assert own_records(process.pid) == []


@needs_lab
def test_a_file_that_can_not_be_written_costs_no_result():
    words = "netlab --contestants ddp --workers 2 --parameters 100000 --seconds 0.1 --bandwidth 1Gbit --json /dev/full"
    done = subprocess.run(
        [sys.executable, "-m", "onebit", *words.split()], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 2
    assert "1 of 1 points within 3 %" in done.stdout
    assert "/dev/full can't be written: No space left on device; what is measured is printed" in done.stderr


@needs_lab
def test_processes_in_a_namespace_are_ended_with_it():
    made = Namespaces(["a"])
    sleeper = subprocess.Popen(["ip", "netns", "exec", made.names[0], "sleep", "60"])
    assert wait_until(lambda: sleeper.pid in processes_in(made.names[0]))
    made.remove()
    assert sleeper.wait(timeout=1800) == -signal.SIGKILL
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
