"""Two tiers of links: inside a node they are as fast as the machine, between nodes they are limited."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_impl.netlab import worker
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.sweep import steps_on_links

PATIENCE = 600.0
"""Seconds that a call of the workers may take."""


@dataclass(frozen=True)
class TierPoint:
    """One contestant on two tiers; times in seconds, of a step; bytes of a node and step, mean over the nodes.

    Attributes:
        contestant: its name.
        nodes: M.
        node_size: n, workers of a node.
        dim: D.
        batch: samples of a worker.
        bandwidth: bit/s of a node's link to the others.
        step: median.
        compute: median of a step of each worker for itself, with Adam.
        wire_bytes: of frames that a node sends to others.
        payload_bytes: of these, what gloo wrote.
        n_steps: timed.
        load: programs that waited for a processor of this machine, the workers among them, mean of the last minute.
    """

    contestant: str
    nodes: int
    node_size: int
    dim: int
    batch: int
    bandwidth: float
    step: float
    compute: float
    wire_bytes: float
    payload_bytes: float
    n_steps: int
    load: float

    @property
    def line(self) -> float:
        """Seconds that the frames take on a node's link: no step can be shorter."""
        return 8 * self.wire_bytes / self.bandwidth


def on_two_tiers(
    contestants: Sequence[str],
    nodes: int,
    node_size: int,
    bandwidth: float,
    n_parameters: int,
    batch: int,
    seconds: float,
) -> Iterator[TierPoint]:
    """A point for each of them, as soon as it is there; ``seconds`` of timed steps each, three steps at least.

    Raises:
        LabError: the lab can't be built here.
        WorkerDiedError, CollectiveFailedError: a worker ended, or took far too long.
    """
    with lab(nodes * node_size, timeout=PATIENCE, node_size=node_size) as (network, pool):
        for name in contestants:
            network.limit(None)
            dim = pool.call(worker.prepare_in_nodes, name, n_parameters, batch, node_size)[0]
            network.limit(bandwidth)
            apart = zip(*pool.call(worker.single_steps, worker.ALONE, 5), strict=True)
            times, _, sent, _ = steps_on_links(network, pool, seconds)
            yield TierPoint(
                contestant=name,
                nodes=nodes,
                node_size=node_size,
                dim=dim,
                batch=batch,
                bandwidth=bandwidth,
                step=statistics.median(times),
                compute=statistics.median(max(one.ended[0] - one.began for one in row) for row in apart),
                wire_bytes=sent.bytes / nodes / len(times),
                payload_bytes=sent.payload / nodes / len(times),
                n_steps=len(times),
                load=os.getloadavg()[0],
            )
