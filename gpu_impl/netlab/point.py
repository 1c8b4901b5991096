"""One measurement of the lab, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One contestant on one kind of link; times in seconds, of a step; bytes of a worker and step, mean over workers.

    Where a contestant does not send in every step, each is the mean over a period of its steps, and the quantiles are
    of such means.

    Attributes:
        contestant: its name.
        n_workers: N.
        dim: D.
        batch: samples of a worker.
        bandwidth: bit/s.
        latency: added, one way.
        step: median of the time from one step's end on the slowest worker to the next one's.
        low: 20 % quantile of that.
        high: 80 % quantile.
        exchange: median of a step's collectives alone, one after another.
        silent: median of the same where nothing is sent, and all else is done.
        compute: median of a step of each worker for itself, with Adam.
        cpu: time of a processor that a worker spends.
        wire_bytes: of frames on its link.
        payload_bytes: of these, what gloo wrote.
        call_bytes: what gloo writes for the collectives that were called (``collective.py``).
        framing: of these, what is not data.
        rounds: messages of these collectives, one after another.
        drops: frames that were dropped, in all.
        n_steps: timed.
        load: programs that waited for a processor of this machine, the workers among them, mean of the last minute.
        trips: over a link, of these collectives, one after another; 0 in records without latency that had none.
    """

    contestant: str
    n_workers: int
    dim: int
    batch: int
    bandwidth: float
    latency: float
    step: float
    low: float
    high: float
    exchange: float
    silent: float
    compute: float
    cpu: float
    wire_bytes: float
    payload_bytes: float
    call_bytes: float
    framing: float
    rounds: float
    drops: int
    n_steps: int
    load: float
    trips: float = 0.0

    @property
    def wire(self) -> float:
        """What the network adds to a step: less than ``exchange`` where that goes on beside the backward pass."""
        return self.step - self.silent

    @property
    def dominant(self) -> str:
        """What most of the step is."""
        parts = {"compute": self.compute, "compression": self.compression, "wire": self.wire}
        return max(parts, key=lambda name: parts[name])

    @property
    def compression(self) -> float:
        """What the contestant adds to a step without a network: compression, copies, its own update less Adam's."""
        return self.silent - self.compute

    @property
    def samples_per_second(self) -> float:
        """Of all workers."""
        return self.n_workers * self.batch / self.step

    @property
    def line(self) -> float:
        """Seconds that the link needs for the frames, at its rate."""
        return 8 * self.wire_bytes / self.bandwidth
