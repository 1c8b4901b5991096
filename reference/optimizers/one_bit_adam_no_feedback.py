"""Ablation: 1-bit Adam without error feedback. What a message does not say is forgotten, on both sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference.allreduce import AllreduceResult
from reference.arithmetic import Array, zeros
from reference.optimizers.one_bit_adam import OneBitAdam
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class OneBitAdamNoFeedback(OneBitAdam):
    """m-bar <- C(mean_i C(m_i)): the errors stay zero, and L1 does not hold."""

    def exchange(self, state: State, buffers_ND: Array) -> AllreduceResult:
        reduced = super().exchange(state, buffers_ND)
        return replace(
            reduced,
            worker_errors_ND=zeros(buffers_ND.shape, buffers_ND.dtype),
            server_error_D=zeros(state.params.size, state.params.dtype),
        )
