"""DoubleSqueeze: SGD (with momentum, if wanted) compressed on both sides, with error feedback on both sides.

    worker i   m_i = beta1 m-bar + (1 - beta1) g_i
    everyone   m-bar, errors <- compressed all-reduce of m_i        x <- x - gamma (m-bar + lambda x)

Tang et al. 2019 (arXiv 1905.05957) is beta1 = 0. It is the compression stage of 1-bit Adam with P = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reference.arithmetic import Array
from reference.optimizers.compressed import CompressedOptimizer
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class DoubleSqueeze(CompressedOptimizer):
    """Two-sided error-compensated (momentum) SGD.

    Attributes:
        beta1: decay of the momentum, in [0, 1); 0 is the published DoubleSqueeze.
    """

    errors_are: ClassVar[str] = "errors of momenta"

    beta1: float = 0.0

    def update(self, state: State, grads_ND: Array) -> State:
        momentum_ND = self.beta1 * state.momentum + (1 - self.beta1) * grads_ND
        reduced = self.exchange(state, momentum_ND)
        params_D = self.apply(state, reduced.output_D)
        return self.remember(state, reduced, momentum=reduced.output_D, params=params_D)
