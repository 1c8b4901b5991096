"""A limit to the processor time of what may run for ever, as SymPy may: Coq has one of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 120
"""The longest that the check of one theorem may take, of a processor's time; Coq's part is not counted."""
AGAIN = 1.0
"""Seconds after which it is said again, for whom a library kept the first from."""


class TookTooLong(BaseException):
    """The time is up; the message says how much it was."""


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """End what runs here after so many seconds of this process's own time, waiting not counted.

    Where signals can't be had (in a thread, on Windows) there is no limit. One limit within another has no effect.

    Raises:
        TookTooLong: the time is up.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getitimer(signal.ITIMER_PROF)[0]:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"it took longer than {seconds:g} s of a processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
