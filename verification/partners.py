"""Processes that share the cases of one search (``onebit verify --jobs``), each with the class loaded anew.

The numbers of the cases wait in a pipe that all of them read, four bytes at a time: whoever is free takes the next one.
What a partner has examined it sends to the process that searches, which notes everything in the order of the numbers.
So verdicts and counterexamples are those of a search by one process, unless the class itself differs between two.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Never, Self

from verification.loading import load_class
from verification.relation.finding import OutOfTime
from verification.search.driver import Driver
from verification.search.search import Examined, collecting_seldom, prepared

START = "import sys; sys.path[:] = sys.argv[3:]; from verification.partners import main; main(*map(int, sys.argv[1:3]))"
NUMBER_BYTES = 4


class Partners:
    """``jobs`` - 1 processes beside this one; they end with the block.

    Args:
        target: the class, as ``FILE.py:Class``.
        options: of :func:`verification.search.search.prepared`.
        jobs: processes in all.
        limit: seconds that the search may take.
    """

    def __init__(self, target: str, options: dict[str, Any], jobs: int, limit: float) -> None:
        self.count = jobs - 1
        self._numbers, self._put = os.pipe()
        self._pipes: dict[Any, subprocess.Popen[bytes]] = {}  # by our end, a Connection but for Windows
        for _ in range(self.count):
            ours, theirs = Pipe()
            fds = (theirs.fileno(), self._numbers)
            process = subprocess.Popen([sys.executable, "-c", START, *map(str, fds), *sys.path], pass_fds=fds)
            theirs.close()
            ours.send((target, options, limit))
            self._pipes[ours] = process
        self._open, self._seconds = set(self._pipes), dict[Any, float]()

    def numbers(self, total: int) -> Iterator[int]:
        """The cases that this process is to examine; the others find theirs from now on."""

        def put() -> None:  # beyond 64 KiB a pipe waits for readers
            with suppress(OSError), os.fdopen(self._put, "wb") as file:
                file.write(b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(total)))

        threading.Thread(target=put, daemon=True).start()
        return _numbers_from(self._numbers)

    def arrived(self, patience: float) -> list[tuple[int, Examined]]:
        """What the others have examined since the last call."""
        found: list[tuple[int, Examined]] = []
        while self._open and (ready := wait(list(self._open), 0.0 if found else patience)):
            for pipe in ready:
                assert isinstance(pipe, Connection)
                try:
                    message = pickle.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    _end_alike(self._pipes[pipe].wait())
                number, examined, self._seconds[pipe] = message
                if examined is None:  # it has no case left
                    self._open.discard(pipe)
                else:
                    found.append((number, examined))
        return found

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the others, as far as they have told."""
        return sum(self._seconds.values())

    @property
    def busy(self) -> bool:
        """Whether one of them is at work."""
        return bool(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for pipe, process in self._pipes.items():
            process.kill()
            process.wait()
            pipe.close()
        os.close(self._numbers)


def _numbers_from(descriptor: int) -> Iterator[int]:
    while taken := os.read(descriptor, NUMBER_BYTES):
        yield int.from_bytes(taken, "big")


def _end_alike(status: int) -> Never:
    """End as a partner did whose process the class has ended: whoever started this one says so, with the status."""
    if status < 0:
        os.kill(os.getpid(), -status)
        time.sleep(1)
    os._exit(status)


def main(descriptor: int, numbers: int) -> None:
    """A partner: load the class, examine cases, and send what is found. A fork of it says nothing.

    Args:
        descriptor: its end of the pipe to the process that searches.
        numbers: where the numbers of cases come from.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is answered by the process that was started by the user
    pipe, owner = Connection(descriptor), os.getpid()
    target, options, limit = pipe.recv()
    threading.Thread(target=_end_with_the_search, args=(pipe,), daemon=True).start()
    run = prepared(Driver(load_class(target), apart=True), **options)
    run.driver.deadline = time.monotonic() + limit
    with suppress(OutOfTime), collecting_seldom():
        for number in _numbers_from(numbers):
            examined = run.examine(number)
            if os.getpid() != owner:
                os._exit(1)
            pipe.send((number, examined, time.process_time()))
    pipe.send((0, None, time.process_time()))
    threading.Event().wait()  # what the class does at the end of a process is none of the search's


def _end_with_the_search(pipe: Connection) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)
