"""What all workers do in one stage of a save or a load: it succeeds on all, or fails on all with the same words.

Ctrl-C, and a signal that has a handler, take effect between two stages: in the middle of one the other workers would
wait for this one in a collective, and torch would take an exception for a damaged file. A second SIGINT or SIGTERM
takes effect at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

from torch.distributed.checkpoint.api import CheckpointException

from gpu_impl.optimizer.collectives import Collectives

T = TypeVar("T")
KINDS = (ValueError, OSError, RuntimeError)
"""What is told to the other workers as what it is."""

LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "gpu_impl"}
"""Whose exceptions say what went wrong in a file; those of a signal handler are of another package."""


def interruption_in(error: BaseException) -> BaseException | None:
    """What a signal handler raised below an error that torch has made of it; None if nothing says so.

    Ctrl-C, or an exception of a class that is neither Python's nor torch's.
    """
    failures = [reason for reason, _ in error.failures.values()] if isinstance(error, CheckpointException) else []
    if not isinstance(error, (Exception, CheckpointException)):
        return error
    if type(error).__module__.partition(".")[0] not in LIBRARIES:
        return error
    below = [*failures, error.__cause__, error.__context__]
    return next((found for one in below if one is not None and (found := interruption_in(one)) is not None), None)


class Together:
    """The workers that save or load together; to be used by ``with``.

    Args:
        meet: waits for all of them, and says who they are.
    """

    def __init__(self, meet: Callable[[], Collectives]) -> None:
        self._meet = meet
        self._handlers: dict[int, Any] = {}
        self._arrived: list[int] = []

    def __enter__(self) -> Self:
        for number in sorted(signal.valid_signals()):
            handler = signal.getsignal(number)
            if callable(handler):
                try:
                    signal.signal(number, self._note)
                except ValueError:  # only the main thread has handlers, and is interrupted by them
                    break
                self._handlers[number] = handler
        try:
            self.everyone = self._meet()
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.deliver()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number not in self._arrived:
            self._arrived.append(number)
        elif number in (signal.SIGINT, signal.SIGTERM):  # again: the user means it
            self._handlers[number](number, frame)

    def deliver(self) -> None:
        """Let the signals take effect that have arrived."""
        while self._arrived:
            number = self._arrived.pop(0)
            self._handlers[number](number, None)

    def call(self, action: Callable[[], T], *, interruptible: bool = True) -> T:
        """``action()`` on every rank.

        Raises:
            ValueError, OSError, RuntimeError: it failed on a rank: there the error itself, on the others one of the
                same kind with its words.
            KeyboardInterrupt: this process was interrupted; the others get a RuntimeError.
        """
        result, failure = None, None
        try:
            result = action()
            if interruptible:
                self.deliver()
        except BaseException as error:
            failure = error
        told = None
        if failure is not None:
            kind = next((kind for kind in KINDS if isinstance(failure, kind)), RuntimeError)
            told = kind, str(failure) or f"was interrupted ({type(failure).__name__})"
        try:
            reports = self.everyone.objects(told)
        except RuntimeError:  # another worker is gone
            if failure is not None:  # what happened here is the news
                raise failure from None
            raise
        if failure is not None:
            raise failure
        for rank, report in enumerate(reports):
            if report is not None:
                raise report[0](f"rank {rank}: {report[1]}")
        return result  # pyright: ignore[reportReturnType] - None only if T is
