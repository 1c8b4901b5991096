"""One at a time: a step, a save, a load. Each would find, or leave, half of what another one is writing.

A signal handler may ask for one in the middle of another, and so may another thread. Nobody waits, for workers that
wait for one another's threads may wait for ever: what comes second is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import ref

STEP, SAVE, LOAD, READING, NEW_GROUP = "a step", "a save", "a load", "a read of the state", "a new parameter group"

NESTED = {(SAVE, READING), (READING, READING)}
"""What may be begun, by the same thread, inside what: neither changes anything that the other has begun to read."""


@dataclass(eq=False, frozen=True)
class Doing:
    """Something that is under way, in a thread."""

    what: str
    thread: int


class OneAtATime:
    """What an optimizer is doing."""

    def __init__(self) -> None:
        # Weak: what an interruption ends between two lines is forgotten with the frame that began it.
        self._now: dict[int, ref[Doing]] = {}

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Around ``what``.

        Raises:
            RuntimeError: something else is under way.
        """
        own = Doing(what, threading.get_ident())
        try:
            self._now[id(own)] = ref(own)
            for outer in [weak() for weak in list(self._now.values())]:
                if outer in (None, own) or ((outer.what, what) in NESTED and outer.thread == own.thread):
                    continue
                raise RuntimeError(
                    f"{outer.what} of this optimizer is under way, in another thread, or below this signal handler or "
                    f"hook, so {what} can't begin: let one end before the other begins; a signal handler can set a "
                    "flag that the training loop looks at after step()"
                )
            yield
        finally:
            self._now.pop(id(own), None)
