"""SparseLoCo: DiLoCo whose outer momentum is the error feedback of sparse messages (Sarfi et al. 2025, 2508.15706).

    worker i   H steps of AdamW from x to x_i      e_i <- beta e_i + (x - x_i)
               sends C(e_i), the largest of each chunk in two bits      e_i <- e_i - C(e_i)
    everyone   x, x_i <- x - alpha mean_i C(e_i)

What is not sent waits in e_i and weighs beta less with every meeting. The law: at every meeting

    x_new - alpha mean_i e_i,new = x - alpha (beta mean_i e_i + mean_i (x - x_i))

so with beta = 1 nothing is ever lost, and with beta < 1 the share 1 - beta of the residual is, at each meeting.
Without compression e_i stays 0, and for alpha = 1 it is local Adam whose moments are not averaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from reference import arguments
from reference.allgather import allgather
from reference.compressors import ChunkedTopK, Compressor
from reference.optimizers.base import sent
from reference.optimizers.local_adam import LocalAdam
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class SparseLoCo(LocalAdam):
    """Local AdamW whose workers exchange sparse, quantised steps with error feedback.

    ``State.worker_errors`` are the e_i.

    Attributes:
        sync_every: H; published: 15 to 250.
        error_decay: beta in (0, 1].
        outer_lr: alpha > 0.
        chunk_size, kept: the largest ``kept`` of every ``chunk_size`` numbers are sent.
        compressor: another compressor in place of that one.
        average_moments: off as published.
    """

    errors_are: ClassVar[str] = "errors of walks"

    sync_every: int = 50
    average_moments: bool = False
    error_decay: float = 0.95
    outer_lr: float = 1.0
    chunk_size: int = 4096
    kept: int = 64
    compressor: Compressor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("outer_lr", self.outer_lr, strict=True)
        arguments.number("error_decay", self.error_decay, strict=True)
        if self.error_decay > 1:
            raise ValueError(f"error_decay must lie in (0, 1], got {self.error_decay!r}")
        ChunkedTopK(self.chunk_size, self.kept)

    def outer_step(self, state: State) -> State:
        compressor, rng = self.compressor or ChunkedTopK(self.chunk_size, self.kept), self.rng(state)
        error_ND = self.error_decay * state.worker_errors + state.slots["walked_ND"]
        gathered = allgather([compressor.encode(error_D, error_D.size, rng) for error_D in error_ND])
        state = replace(
            state,
            params=state.params - self.outer_lr * gathered.mean_D,
            worker_errors=error_ND - gathered.decoded_ND,
        )
        return sent(state, int(gathered.bytes_per_worker.sum()))
