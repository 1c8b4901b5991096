"""What somebody's code raised, in words."""

from __future__ import annotations

import signal

LONGEST_SAID = 200
"""So many characters of an exception's message are shown."""


def said(error: BaseException) -> str:
    """The first line of an exception's message, if long its beginning; an exception may fail to say it."""
    try:
        line = (str(error).splitlines() or [""])[0]
    except BaseException as other:
        if of_the_user(other):
            raise
        return "(its message can't be read)"
    return line if len(line) <= LONGEST_SAID else f"{line[:LONGEST_SAID]}..."


def of_the_user(error: BaseException) -> bool:
    """Whether this is Ctrl-C: not where SIGINT is ignored, as in the process that ``onebit verify`` starts."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
