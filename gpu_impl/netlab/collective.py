"""A collective as gloo carries it out: bytes, messages and rounds of one worker.

gloo sends a message in three parts: the sender says that it is ready (48 bytes), the receiver says the same (48), and
the data follows behind 48 bytes that say what it is. All workers send alike, so a message costs each of them
3 * 48 bytes beside its data. How our all-to-all and all-gather send is in :mod:`gpu_impl.optimizer.rounds`.
(Counted on the links of the lab, to the byte: tests/gpu_impl/test_netlab.py.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from gpu_impl.optimizer.collectives import Collectives
from gpu_impl.optimizer.rounds import are_long

FRAMING = 3 * 48
SEGMENT = 2**20
"""Bytes of an all-reduce's message at most, and each worker's part of it is cut in two at least."""


@dataclass(frozen=True)
class Collective:
    """One call.

    Attributes:
        kind: "all-reduce", "all-gather" or "all-to-all".
        size: bytes of the whole buffer on a worker: what is summed, what was gathered, or all rows.
    """

    kind: str
    size: int

    def data(self, n_workers: int) -> float:
        """Bytes that a worker sends, mean over the workers: each part of the buffer but its own, once or twice."""
        passes = 2 if self.kind == "all-reduce" else 1
        return passes * (n_workers - 1) / n_workers * self.size

    def rounds(self, n_workers: int) -> int:
        """Messages that follow one another; short ones of an all-to-all or an all-gather go at once."""
        if self.kind == "all-reduce":
            return 2 * (n_workers - 1)
        return n_workers - 1 if are_long(self.size, n_workers) else 1

    def trips(self, n_workers: int) -> int:
        """Trips over a link that follow one another: a message is sent when its receiver has said that it waits.

        Of our rounds all receivers say so before the first.
        """
        rounds = self.rounds(n_workers)
        return 2 * rounds if self.kind == "all-reduce" else rounds + 1

    def messages(self, n_workers: int) -> int:
        """Messages that a worker sends."""
        if self.kind == "all-reduce":
            return self.rounds(n_workers) * max(2, math.ceil(math.ceil(self.size / SEGMENT) / n_workers))
        return n_workers - 1

    def framing(self, n_workers: int) -> int:
        """Bytes that a worker sends beside the data."""
        return FRAMING * self.messages(n_workers)

    def prepared(self) -> Callable[[], None]:
        """The call as the optimizer makes it, in the default group, on memory of its own."""
        group = Collectives()
        whole = torch.zeros(self.size, dtype=torch.uint8)
        if self.kind == "all-reduce":
            begin = partial(group.all_reduce, torch.zeros(math.ceil(self.size / 4)))
        elif self.kind == "all-to-all":
            begin = partial(group.all_to_all, torch.zeros_like(whole), whole)
        else:
            begin = partial(group.all_gather, whole, torch.zeros(self.size // group.size, dtype=torch.uint8))
        return lambda: begin().wait()
