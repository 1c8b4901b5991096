"""One at a time: a step, a save, a load. Each would find, or leave, half of what another one is writing.

A signal handler may ask for one in the middle of another, and so may another thread. Nobody waits, for workers that
wait for one another's threads may wait for ever: what comes second is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

STEP, SAVE, LOAD, READING, NEW_GROUP = "a step", "a save", "a load", "a read of the state", "a new parameter group"

NESTED = {(SAVE, READING), (READING, READING)}
"""What may be begun, by the same thread, inside what: neither changes anything that the other has begun to read."""


class OneAtATime:
    """What an optimizer is doing."""

    def __init__(self) -> None:
        self._now: dict[object, tuple[str, int]] = {}  # what is under way, and in which thread

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Around ``what``.

        Raises:
            RuntimeError: something else is under way.
        """
        token = object()
        try:
            self._now[token] = what, threading.get_ident()
            for other, (outer, thread) in list(self._now.items()):
                if other is not token and not ((outer, what) in NESTED and thread == threading.get_ident()):
                    raise RuntimeError(
                        f"{outer} of this optimizer is under way, in another thread or below this signal handler, so "
                        f"{what} can't begin: let one end before the other begins; a signal handler can set a flag "
                        "that the training loop looks at after step()"
                    )
            yield
        finally:
            self._now.pop(token, None)
