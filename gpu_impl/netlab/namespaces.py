"""Network namespaces of ours: made under a name of ours, written down first, removed for certain.

Before a namespace is made, its name goes into a record beside the process that makes it. Where that process was killed,
the next lab finds the record, sees that its writer is gone, and removes what it names. Nothing else is ever removed:
not what has our prefix and no record, not what is in a record without our prefix, not what belongs to a lab that runs.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from gpu_impl.netlab.tools import LabError, call, ip
from onebit_files import write_atomically
from onebit_signals import handled_by

PREFIX = "onebit-lab-"
RECORDS = Path("/run/onebit-netlab")
"""Only root may write there, so nobody else can have something removed; a restart of the machine empties it."""
MADE = Path("/run/netns")
"""Where ``ip`` keeps the namespaces that have a name."""
PATIENCE = 5.0
"""Seconds that processes get to end once they have been killed."""


class Namespaces:
    """Namespaces of one lab, named PREFIX, a number of its own, and the names that are given.

    Args:
        names: of the namespaces.

    Attributes:
        names: in full, in the order given.

    Raises:
        LabError: they can't be made.
        OSError: the record can't be written.
    """

    def __init__(self, names: Sequence[str]) -> None:
        lab = f"{PREFIX}{uuid.uuid4().hex[:8]}"
        self.names = [f"{lab}-{name}" for name in names]
        self._record = RECORDS / f"{lab}.json"
        owner = {"pid": os.getpid(), "started": started_at(os.getpid()), "namespaces": self.names}
        write_atomically(self._record, json.dumps(owner))
        try:
            ip(None, *(f"netns add {name}" for name in self.names))
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove them, and every process in them. Safe to call twice; Ctrl-C, SIGTERM and SIGHUP don't interrupt it."""
        with undisturbed():
            remove_recorded(self._record, self.names)


def remove_leftovers() -> list[str]:
    """Remove what killed labs have left; the names of the namespaces that were still there."""
    removed: list[str] = []
    for record in sorted(RECORDS.glob(f"{PREFIX}*.json")):
        if record.is_symlink() or not record.is_file():  # to open a pipe would wait for who writes into it
            continue
        try:
            owner = json.loads(record.read_text(encoding="utf-8"))
            pid, started, names = owner["pid"], owner["started"], list(owner["namespaces"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # another lab has just removed it, or it is none of ours
        if started_at(pid) != started:
            with undisturbed():
                removed += remove_recorded(record, [name for name in names if str(name).startswith(PREFIX)])
    return removed


def remove_recorded(record: Path, names: Sequence[str]) -> list[str]:
    """Remove these namespaces and then their record; the names of those that were there."""
    there = [name for name in names if (MADE / name).exists()]
    for name in there:
        end_processes(name)
        with suppress(LabError):  # somebody was faster
            ip(None, f"netns delete {name}")
    record.unlink(missing_ok=True)
    return there


def end_processes(namespace: str) -> None:
    """Kill what runs in a namespace, and wait until it is gone."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and (pids := processes_in(namespace)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def processes_in(namespace: str) -> list[int]:
    """The processes that are in a namespace; none where there is no such namespace."""
    try:
        return [int(pid) for pid in call(["ip", "netns", "pids", namespace]).split()]
    except LabError:
        return []


def started_at(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None if there is none. With the pid, it names a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def undisturbed() -> AbstractContextManager[None]:
    """Ctrl-C, SIGTERM and SIGHUP are ignored within, by this process and the commands that it calls."""
    return handled_by(signal.SIG_IGN)
