"""Naive error-compensated Adam: compress the gradient, and let Adam have the result. It is here because it fails.

    g-hat, errors <- compressed all-reduce of g_i        Adam on g-hat

The momentum is linear in the gradient, so in it the errors telescope. The variance is not: with one-sided errors it
sees (g + delta_{t-1} - delta_t)^2, whose square (delta_{t-1} - delta_t)^2 never cancels [theorem T4].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reference.arithmetic import Array
from reference.optimizers.adam import Adam
from reference.optimizers.compressed import CompressedOptimizer
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class NaiveAdam(CompressedOptimizer, Adam):
    """Adam on gradients that went through the compressed all-reduce (section 3.2 of Tang et al. 2021, 2102.02888)."""

    errors_are: ClassVar[str] = "errors of gradients"

    def update(self, state: State, grads_ND: Array) -> State:
        reduced = self.exchange(state, grads_ND.copy())
        return self.adam_update(self.remember(state, reduced), reduced.output_D)
