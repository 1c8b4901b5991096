"""What the lab needs of the machine, and how it calls Debian's ``iproute2``: the commands ``ip`` and ``tc``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence


class LabError(RuntimeError):
    """The lab can't be built or used; the message is one sentence."""


def call(command: Sequence[str], lines: Sequence[str] = ()) -> str:
    """What ``command`` prints, with ``lines`` on its standard input.

    Raises:
        LabError: it failed; the message has the first line of its complaint.
    """
    done = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise LabError(f"`{' '.join(command)}` failed: {said}")
    return done.stdout


def ip(namespace: str | None, *lines: str) -> str:
    """The commands ``ip LINE``, in a namespace or, with None, where this process is; errors as :func:`call`."""
    return call(["ip", *_in(namespace), "-batch", "-"], lines)


def tc(namespace: str, *lines: str) -> str:
    """The commands ``tc LINE`` in a namespace; errors as :func:`call`."""
    return call(["tc", *_in(namespace), "-batch", "-"], lines)


def _in(namespace: str | None) -> list[str]:
    return [] if namespace is None else ["-netns", namespace]


def what_is_missing() -> str:
    """Why no lab can be built here, as one sentence, or an empty text; what the kernel lacks is found on the way."""
    if sys.platform != "linux":
        return f"the network lab needs the network namespaces of Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "the network lab makes network namespaces, which only root may: call it with sudo"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"the network lab needs the command `{tool}`: on Debian, apt-get install iproute2"
    return ""
