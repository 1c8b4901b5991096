"""What the compressed optimizers share: how they average N buffers, and what they remember of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reference import arguments
from reference.allreduce import AllreduceResult, compressed_allreduce, number_of_chunks
from reference.arithmetic import Array
from reference.compressors import Compressor
from reference.compressors.scaled_sign import SCALES
from reference.optimizers.base import Optimizer, sent
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class CompressedOptimizer(Optimizer):
    """An optimizer whose workers exchange compressed buffers with error feedback on both sides.

    Attributes:
        scale: "l2" as published for 1-bit Adam, or "l1" [C1].
        server_chunks: chunks of the all-reduce; None means N; 1 is the literal Algorithm 1 [C3].
        scale_block: B, a multiple of 8; every B elements of a chunk have a scale of their own [C13]. None: one scale
            a worker and one a chunk, as published.
        compressor: another compressor in place of the scaled sign.
    """

    scale: str = "l2"
    server_chunks: int | None = None
    scale_block: int | None = None
    compressor: Compressor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("scale", self.scale, SCALES)
        if self.server_chunks is not None:
            arguments.integer("server_chunks", self.server_chunks)
        arguments.scale_block("scale_block", self.scale_block)

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        number_of_chunks(self.server_chunks, n_workers)
        return state

    def _check_state(self, state: State) -> None:
        number_of_chunks(self.server_chunks, state.n_workers)
        super()._check_state(state)

    def exchange(self, state: State, buffers_ND: Array) -> AllreduceResult:
        """Average the workers' buffers (N, D), which are given away: the part that the ablations replace."""
        return compressed_allreduce(
            buffers_ND,
            state.worker_errors,
            state.server_error,
            scale=self.scale,
            server_chunks=self.server_chunks,
            scale_block=self.scale_block,
            live_D=state.live,
            compressor=self.compressor,
            rng=self.rng(state),
            overwrite_buffers=True,
        )

    def remember(self, state: State, reduced: AllreduceResult, **changes: Any) -> State:
        """The state with the new errors, the bytes that were sent, and these changes beside them."""
        errors = {"worker_errors": reduced.worker_errors_ND, "server_error": reduced.server_error_D}
        return sent(state, int(reduced.bytes_per_worker.sum()), **errors, **changes)
