"""Ablation: 1-bit Adam with error feedback on the workers only. The server forgets what its message does not say."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference.allreduce import AllreduceResult
from reference.arithmetic import Array, zeros
from reference.optimizers.one_bit_adam import OneBitAdam
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class OneBitAdamWorkerFeedback(OneBitAdam):
    """The worker errors delta_i are kept, the server error is dropped after each step."""

    def exchange(self, state: State, buffers_ND: Array) -> AllreduceResult:
        reduced = super().exchange(state, buffers_ND)
        return replace(reduced, server_error_D=zeros(state.params.size, state.params.dtype))
