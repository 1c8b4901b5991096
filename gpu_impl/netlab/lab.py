"""A network with one worker process on every host, in one gloo group: open it with ``with``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

from gpu_impl.harness.worker_pool import WorkerDiedError, WorkerPool
from gpu_impl.netlab.entering import enter
from gpu_impl.netlab.network import CONGESTION, Network
from gpu_impl.netlab.tools import LabError
from gpu_impl.optimizer.collectives import CollectiveFailedError
from onebit_signals import ENDING, handled_by

GAVE_UP = (LabError, WorkerDiedError, CollectiveFailedError)
"""What is raised where there is no lab, or a worker gives up; the first line is one sentence."""


@contextmanager
def lab(
    n_workers: int, *, timeout: float = 600.0, congestion: str = CONGESTION, node_size: int = 1, delayed: bool = False
) -> Iterator[tuple[Network, WorkerPool]]:
    """Hosts and their workers; all of it is gone when the block ends, after Ctrl-C, SIGTERM and SIGHUP too.

    The workers meet at a file, which all hosts see, so that nothing but their collectives is on the links.

    Args:
        n_workers: N.
        timeout: seconds that a call of the workers may take.
        congestion: how TCP finds its rate.
        node_size: workers of a node, whose links to one another are not limited; 1: there are no nodes.
        delayed: whether latency may be added to the links.

    Raises:
        LabError: it can't be built here.
    """
    with ExitStack() as stack:
        unheard = {number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL}  # that would end us here
        stack.enter_context(handled_by(_as_interrupt, unheard))
        network = stack.enter_context(Network(n_workers, congestion, node_size, delayed=delayed))
        with _undisturbed_start():
            pool = stack.enter_context(WorkerPool(n_workers, timeout=timeout, entering=partial(enter, network.hosts)))
        try:
            yield network, pool
        except (WorkerDiedError, CollectiveFailedError):
            network.check()  # workers are ended with the delay line
            raise


@contextmanager
def _undisturbed_start() -> Iterator[None]:
    """Signals that end a program wait until the end; processes that are started within do not hear them as they start.

    So no traceback of theirs is printed, and none is half started when this program ends and ends them.
    """
    resource_tracker.ensure_running()  # multiprocessing's: its start would let SIGINT and SIGTERM through again
    heard: list[int] = []
    with handled_by(lambda number, _: heard.append(number)):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # what is started within inherits it
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if heard:
        raise KeyboardInterrupt


def _as_interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
