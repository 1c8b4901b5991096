"""Naive error-compensated Adam: compress the gradient, and let Adam have the result. It is here because it fails.

    g-hat, errors <- compressed all-reduce of g_i        Adam on g-hat

The momentum is linear in the gradient, so in it the errors telescope. The variance is not: with one-sided errors it
sees (g + delta_{t-1} - delta_t)^2, whose square (delta_{t-1} - delta_t)^2 never cancels [theorem T4].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference import arguments
from reference.allreduce import compressed_allreduce
from reference.arithmetic import Array
from reference.compressors import Compressor
from reference.compressors.scaled_sign import SCALES
from reference.optimizers.adam import Adam
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class NaiveAdam(Adam):
    """Adam on gradients that went through the compressed all-reduce (Tang et al. 2021, section 3.2).

    Attributes:
        scale: "l2" or "l1" [C1].
        server_chunks: chunks of the all-reduce; None means N [C3].
        compressor: in place of the scaled sign.
    """

    scale: str = "l2"
    server_chunks: int | None = None
    compressor: Compressor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("scale", self.scale, SCALES)

    def update(self, state: State, grads_ND: Array) -> State:
        reduced = compressed_allreduce(
            grads_ND,
            state.worker_errors,
            state.server_error,
            scale=self.scale,
            server_chunks=self.server_chunks,
            compressor=self.compressor,
            rng=self.rng(state),
        )
        return replace(
            self.adam_update(state, reduced.output_D),
            worker_errors=reduced.worker_errors_ND,
            server_error=reduced.server_error_D,
            bytes_on_wire=state.bytes_on_wire + int(reduced.bytes_per_worker.sum()),
        )
