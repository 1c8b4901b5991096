"""A search in a process of its own, which sends what it finds as it goes.

The class under test may do anything to the process that it runs in: end it, fork it, crash it, never come back. So the
one that was started by the user runs none of its code, and believes only what was delivered.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from onebit_files import error_line
from onebit_signals import handled_by
from verification import originals
from verification.loading import load_class, split
from verification.partners import Partners
from verification.relation.finding import AdapterError
from verification.search.clauses import CLAUSES, clause_of, clauses_of
from verification.search.driver import Driver
from verification.search.plan import Profile
from verification.search.search import search
from verification.search.verdicts import Result, Verdict

GRACE = 30.0
"""Seconds past its limit after which a check is ended that does not stop by itself: a call does not come back."""

LOADING = 180.0
"""Seconds that a check has at least to load the class and to plan its cases; on a busy machine both take long."""

KINDS = ("error", "begin", "found", "case", "tell", "searched", "result")
"""What is sent."""

SPOILT = (
    "wrote into a file descriptor that it did not open, or closed it, by which the check is told what is found: let it "
    "use only files of its own"
)


@dataclass
class Outcome:
    """What was delivered.

    Attributes:
        name: of the class.
        result: of the whole search, or of as much of it as there was.
        whole: whether the search came to its end.
        stopped: whether the user stopped it.
    """

    name: str
    result: Result
    whole: bool = True
    stopped: bool = False


@dataclass
class _Delivered:
    """What the other process has sent so far, and when it must have sent more."""

    limit: float
    name: str = ""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    cases: int = 0
    searched: Result | None = None
    result: Result | None = None
    ends: float = math.inf

    def take(self, message: tuple[Any, ...], progress: Callable[[int, int], None], tell: Callable[[str], None]) -> None:
        """One message of :func:`_child`."""
        kind, *rest = message
        if kind == "error":
            raise ValueError(rest[0])
        if kind == "begin":
            self.name, self.verdicts = rest[0], {verdict.clause.id: verdict for verdict in rest[1]}
            self.ends = time.monotonic() + self.limit + GRACE
        elif kind == "found":
            self.verdicts[rest[0].clause.id] = rest[0]
        elif kind == "case":
            self.cases = rest[0]
            progress(*rest)
        elif kind == "tell":
            tell(rest[0])
        elif kind == "searched":
            self.searched = rest[0]
        else:
            self.result = rest[0]

    def late(self, target: str) -> str:
        """Why the process is ended when its time is long over."""
        if self.searched is not None:
            return "the time was over before the counterexamples were made smaller"
        over = f"{GRACE:.0f} s after the time was over"
        if not self.cases:
            return f"{target} had not ended its first case {over}: is the machine busy, or does a call not come back?"
        return f"{target} was still in one case {over}: does a call not come back?"

    def partial(self, why: str, seconds: float, only: Sequence[str]) -> Result:
        """What was found until the search, of ``only`` these clauses (none: of all), ended before its time."""
        if self.searched is not None:
            return replace(self.searched, notes=[*self.searched.notes, why])
        if not self.name:  # nobody knows yet which of them the class has
            why += ", before the class had been driven once"
            wanted = [clause for clause in CLAUSES if not only or clause.id in only]
            self.verdicts = {clause.id: Verdict(clause) for clause in wanted}
        for verdict in self.verdicts.values():
            verdict.note = "" if verdict.outcome == "fails" else why
        return Result(list(self.verdicts.values()), [], {}, [why], self.cases, seconds)


def search_isolated(
    target: str,
    profile: Profile,
    *,
    name: str,
    seed: int = 0,
    only: Sequence[str] = (),
    minutes: float | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Outcome:
    """:func:`verification.search.search.search` on the class that ``FILE.py:Class`` names, in another process.

    Args:
        target: the class.
        profile: how much is tried.
        name: of the profile.
        seed: another one makes other cases.
        only: ids of clauses.
        minutes: when the search is cut off; None is the profile's.
        jobs: processes that share the cases.
        progress: called after each case with how many are done, of how many.
        tell: called once, early, where the time will hardly do.

    Raises:
        ValueError: the class can't be loaded or driven, or its process ended before the first case; one sentence.
    """
    split(target)  # at once, however busy the machine is
    began = time.monotonic()
    delivered = _Delivered(60 * (profile.minutes if minutes is None else minutes))
    delivered.ends = began + max(delivered.limit, LOADING) + GRACE
    options = {"profile": profile, "name": name, "seed": seed, "only": tuple(only), "minutes": minutes, "jobs": jobs}
    ours, theirs = Pipe()
    command = [sys.executable, "-c", START, str(theirs.fileno()), *sys.path]
    why, stopped, late = "", False, False
    with handled_by(signal.SIG_IGN, {signal.SIGINT}):  # Ctrl-C reaches both processes; this one answers it
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    theirs.close()
    try:
        ours.send((target, options))
        while delivered.result is None and not why:
            try:
                if ours.poll(0.2):
                    message = _received(ours)
                    if message is None:
                        why = f"{target} {SPOILT}"
                    else:
                        delivered.take(message, progress, tell)
                elif process.poll() is not None and not ours.poll():
                    why = _ended(target, process.returncode)
                elif time.monotonic() > delivered.ends:
                    why, late = delivered.late(target), True
            except (EOFError, OSError):  # the end of the pipe, or of a message that is longer than what comes
                try:
                    why = _ended(target, process.wait(10))
                except subprocess.TimeoutExpired:
                    why = f"{target} {SPOILT}"
    except KeyboardInterrupt:
        why, stopped = "the search was stopped", True
    finally:
        process.kill()
        process.wait()
        ours.close()
    if delivered.result is not None:
        return Outcome(delivered.name, delivered.result)
    if not delivered.name and not (stopped or late):
        raise ValueError(why)
    partial = delivered.partial(why, time.monotonic() - began, only)
    return Outcome(delivered.name or target, partial, whole=False, stopped=stopped)


def _received(pipe: Any) -> tuple[Any, ...] | None:
    """The next message; None: it is none of ours.

    Raises:
        EOFError, OSError: the other process has ended.
    """
    received = pipe.recv_bytes()
    try:
        message = pickle.loads(received)
    except Exception:  # what is no pickle may look like any instruction of one
        return None
    return message if isinstance(message, tuple) and message and message[0] in KINDS else None


def _ended(target: str, status: int) -> str:
    how = f" by signal {-status}" if status < 0 else f" with exit status {status}"
    why = f"{target} ended its process{how} before there was a verdict"
    return why if status else f"{why}, or {SPOILT}"


START = "import sys; sys.path[:] = sys.argv[2:]; from verification.isolated import main; main(int(sys.argv[1]))"
"""What the other process runs: the same modules, wherever they lie, and not the script that started this one."""


def main(descriptor: int) -> None:
    """The other process: load the class, search, and send what is found. A fork of it says nothing.

    Args:
        descriptor: its end of the pipe, on which it is told what to do.
    """
    pipe, owner = Connection(descriptor), os.getpid()
    target, options = pipe.recv()
    threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()

    def send(*message: Any) -> None:
        if os.getpid() != owner:
            os._exit(1)
        try:
            pipe.send(message)
        except OSError:  # the class has closed it
            os._exit(0)

    try:
        driver = Driver(load_class(target), apart=True)
        _check_names(driver, options["only"])
        profile, minutes = options["profile"], options["minutes"]
        shared = {name: options[name] for name in ("profile", "seed", "only")}
        limit = 60 * (profile.minutes if minutes is None else minutes)
        with Partners(target, shared, options["jobs"], limit) as partners:
            result = search(
                driver,
                **shared,
                name=options["name"],
                minutes=minutes,
                progress=lambda done, total: send("case", done, total),
                begin=lambda verdicts: send("begin", driver.name, verdicts),
                found=lambda verdict: send("found", verdict),
                tell=lambda sentence: send("tell", sentence),
                searched=lambda result: send("searched", result),
                others=partners,
            )
        send("result", result)
    except (ValueError, AdapterError) as error:
        send("error", str(error))
    except Exception as error:
        if replaced := originals.put_back():
            send("error", f"the class replaced {replaced[0]}, which the check needs")
            return
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        send("error", f"the check itself failed, not the class ({where}): {error_line(error)}")
    except KeyboardInterrupt:  # of the class, which has set a handler of its own: what was found is with the parent
        os._exit(1)


def _end_with_parent(pipe: Connection) -> None:
    """Nothing more comes on the pipe but its end, with the process that started this one: end too."""
    with suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)


def _check_names(driver: Driver, names: Sequence[str]) -> None:
    known, of_class = [clause.id for clause in CLAUSES], [clause.id for clause in clauses_of(driver)[0]]
    for name in names:
        if name not in known:
            raise ValueError(f"there is no clause {name!r}; there are {', '.join(known)}")
        if name not in of_class:
            clause = clause_of(name)
            raise ValueError(f"{driver.name} has no clause {name}: {clause.foreign(driver) or clause.left_out(driver)}")
