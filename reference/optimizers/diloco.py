"""DiLoCo: AdamW on every worker, Nesterov momentum on what they have walked (Douillard et al. 2023, arXiv 2311.08105).

    worker i   H steps of AdamW from x to x_i, with moments of its own that nobody else sees
    everyone   d = mean_i (x - x_i)      M <- mu M + d      x, x_i <- x - alpha (d + mu M)

d is the outer gradient. With mu = 0 and alpha = 1 it is local Adam whose moments are not averaged; with H = 1 and one
worker besides, it is AdamW. Nothing is compressed, so there is no residual: x moves by the outer step of d exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference import arguments
from reference.arithmetic import Array, zeros
from reference.optimizers.base import dense_round, mean_over_workers
from reference.optimizers.local_adam import LocalAdam
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class DiLoCo(LocalAdam):
    """Local AdamW with an outer optimizer: SGD with Nesterov momentum, as torch.optim.SGD has it.

    The slot ``outer_momentum_D`` is M.

    Attributes:
        sync_every: H; published for language models: 500.
        outer_lr: alpha > 0.
        outer_momentum: mu, in [0, 1).
        average_moments: off as published.
    """

    sync_every: int = 50
    average_moments: bool = False
    outer_lr: float = 0.7
    outer_momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("outer_lr", self.outer_lr, strict=True)
        arguments.decay("outer_momentum", self.outer_momentum)

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        return state.with_slots(outer_momentum_D=zeros(params_D.size, params_D.dtype))

    def outer_step(self, state: State) -> State:
        grad_D = mean_over_workers(state.slots["walked_ND"])
        momentum_D = self.outer_momentum * state.slots["outer_momentum_D"] + grad_D
        params_D = state.params - self.outer_lr * (grad_D + self.outer_momentum * momentum_D)
        return dense_round(replace(state, params=params_D)).with_slots(outer_momentum_D=momentum_D)
