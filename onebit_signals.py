"""How a command ends at Ctrl-C, SIGTERM and SIGHUP (a closed terminal): in order, once, with exit status 130.

It imports nothing of the project, and nothing that has to be installed.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = 130
"""Exit status of a command that was interrupted."""
ENDING = frozenset(one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP"))
"""Those that ask a program to end."""


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handled_by(handler: Any, numbers: Iterable[int] = ENDING) -> Iterator[None]:
    """Signals go to ``handler`` within; in another thread than the main one, which alone can have handlers, nothing."""
    before = {number: signal.signal(number, handler) for number in numbers} if _is_main() else {}
    try:
        yield
    finally:
        for number, one in before.items():
            signal.signal(number, one)


def leave(status: int) -> NoReturn:
    """End the program with that; signals while Python ends do not change it, nor any from now on after an interrupt."""
    if _is_main():
        if status == INTERRUPTED:
            _hear_nothing()
        else:  # once Python ends: whoever calls main() in a process of theirs keeps their handlers until then
            atexit.register(_hear_nothing)
    sys.exit(status)


def _hear_nothing() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def loading() -> Iterator[None]:
    """For the seconds in which modules are loaded: the first signal ends the program with one line.

    There is nothing to lose yet, and libraries in the middle of their start may swallow a KeyboardInterrupt, or die of
    it without a word. A signal that is ignored stays ignored.
    """

    def end(number: int, frame: Any) -> None:
        os.write(2, b"onebit: interrupted\n")
        os._exit(INTERRUPTED)

    numbers = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    with handled_by(end, numbers):
        yield


@contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """The first signal is a KeyboardInterrupt; those after it do nothing, so that what is found so far is whole.

    So it is with SIGINT also where the shell has it ignored (background jobs); a SIGHUP that is ignored stays so
    (nohup). What is yielded makes the first one do nothing either: for the report of a command that came to its end.
    """
    heard = [one for one in ENDING if one.name != "SIGHUP" or signal.getsignal(one) is not signal.SIG_IGN]
    numbers = heard if _is_main() else []

    def ignore() -> None:  # not SIG_IGN, where an interrupt inside a call of a class would count as the class's own
        for number in numbers:
            signal.signal(number, lambda number, frame: None)

    def stop(number: int, frame: Any) -> None:
        ignore()
        raise KeyboardInterrupt

    with handled_by(stop, numbers):
        yield ignore
