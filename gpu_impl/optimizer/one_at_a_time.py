"""One at a time: a step, a save, a load. Each would find, or leave, half of what another one is writing.

A signal handler may ask for one in the middle of another, and so may another thread. Nobody waits, for workers that
wait for one another's threads may wait for ever: what comes second is refused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

STEP, SAVE, LOAD, READING, NEW_GROUP = "a step", "a save", "a load", "a read of the state", "a new parameter group"

NESTED = {(SAVE, READING), (READING, READING)}
"""What may be begun, by the same thread, inside what: neither changes anything that the other has begun to read."""

FRAMES_BETWEEN = 2
"""From the generator below, by contextlib's ``__enter__``, to the frame of the ``with``."""


@dataclass(eq=False, frozen=True)
class Doing:
    """Something that a thread does, in a frame of it."""

    what: str
    thread: int
    frame: FrameType

    def is_under_way(self) -> bool:
        """Whether the frame is on this thread's stack: an interruption may end it between any two lines.

        Of another thread nobody asks: its stack changes while it is read, and signals interrupt the main thread only.
        """
        if self.thread != threading.get_ident():
            return True
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


class OneAtATime:
    """What an optimizer is doing."""

    def __init__(self) -> None:
        self._now: dict[int, Doing] = {}

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Around ``what``, in the frame of a ``with`` that it does not leave but by returning or raising.

        Raises:
            RuntimeError: something else is under way.
        """
        own = Doing(what, threading.get_ident(), sys._getframe(FRAMES_BETWEEN))
        try:
            self._now[id(own)] = own
            for key, other in list(self._now.items()):
                if other is own or ((other.what, what) in NESTED and other.thread == own.thread):
                    continue
                if not other.is_under_way():
                    self._now.pop(key, None)
                    continue
                raise RuntimeError(
                    f"{other.what} of this optimizer is under way, in another thread, or below this signal handler or "
                    f"hook, so {what} can't begin: let one end before the other begins; a signal handler can set a "
                    "flag that the training loop looks at after step()"
                )
            yield
        finally:
            self._now.pop(id(own), None)
