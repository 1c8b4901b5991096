"""How a worker process comes to be a host of the lab: into its namespace, and never alone in it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing import parent_process
from multiprocessing.connection import wait

from gpu_impl.netlab.namespaces import MADE
from gpu_impl.netlab.network import INTERFACE
from onebit_signals import ENDING

CLONE_NEWNET = 0x40000000


def enter(hosts: Sequence[str], rank: int) -> None:
    """Go into the namespace ``hosts[rank]``: before gloo starts its threads, which stay where they began.

    Signals that end a program are for the one that drives this worker, which ends with it.

    Raises:
        OSError: the namespace is gone, or this process may not enter it.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    with (MADE / hosts[rank]).open() as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), hosts[rank])
    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait on the pipe that closes when the program that drives this worker ends, however it ends."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
