"""A network with one worker process on every host, in one gloo group: open it with ``with``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.netlab.entering import enter
from gpu_impl.netlab.network import CONGESTION, Network


@contextmanager
def lab(
    n_workers: int, *, timeout: float = 600.0, congestion: str = CONGESTION, node_size: int = 1
) -> Iterator[tuple[Network, WorkerPool]]:
    """Hosts and their workers; all of it is gone when the block ends, after Ctrl-C and SIGTERM too.

    The workers meet at a file, which all hosts see, so that nothing but their collectives is on the links.

    Args:
        n_workers: N.
        timeout: seconds that a call of the workers may take.
        congestion: how TCP finds its rate.
        node_size: workers of a node, whose links to one another are not limited; 1: there are no nodes.

    Raises:
        LabError: it can't be built here.
    """
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _as_interrupt))
        network = stack.enter_context(Network(n_workers, congestion, node_size))
        pool = stack.enter_context(WorkerPool(n_workers, timeout=timeout, entering=partial(enter, network.hosts)))
        yield network, pool


def _as_interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
