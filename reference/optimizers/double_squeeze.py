"""DoubleSqueeze: SGD (with momentum, if wanted) compressed on both sides, with error feedback on both sides.

    worker i   m_i = beta1 m-bar + (1 - beta1) g_i
    everyone   m-bar, errors <- compressed all-reduce of m_i        x <- x - gamma (m-bar + lambda x)

Tang et al. 2019 (arXiv 1905.05957) is beta1 = 0. It is the compression stage of 1-bit Adam with P = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference import arguments
from reference.allreduce import compressed_allreduce
from reference.arithmetic import Array
from reference.compressors import Compressor
from reference.compressors.scaled_sign import SCALES
from reference.optimizers.base import Optimizer
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class DoubleSqueeze(Optimizer):
    """Two-sided error-compensated (momentum) SGD.

    Attributes:
        beta1: decay of the momentum, in [0, 1); 0 is the published DoubleSqueeze.
        scale: "l2" or "l1" [C1].
        server_chunks: chunks of the all-reduce; None means N [C3].
        compressor: in place of the scaled sign.
    """

    beta1: float = 0.0
    scale: str = "l2"
    server_chunks: int | None = None
    compressor: Compressor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("scale", self.scale, SCALES)

    def update(self, state: State, grads_ND: Array) -> State:
        momentum_ND = self.beta1 * state.momentum + (1 - self.beta1) * grads_ND
        reduced = compressed_allreduce(
            momentum_ND,
            state.worker_errors,
            state.server_error,
            scale=self.scale,
            server_chunks=self.server_chunks,
            compressor=self.compressor,
            rng=self.rng(state),
        )
        return replace(
            state,
            momentum=reduced.output_D,
            worker_errors=reduced.worker_errors_ND,
            server_error=reduced.server_error_D,
            params=self.apply(state, reduced.output_D),
            bytes_on_wire=state.bytes_on_wire + int(reduced.bytes_per_worker.sum()),
        )
