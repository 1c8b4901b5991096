"""DiLoCo on torch, for the lab alone: each worker walks H steps by AdamW, then all move by the mean of their walks.

    worker i   H steps of AdamW from x to x_i
    everyone   d = mean_i (x - x_i)      M <- mu M + d      x, x_i <- x - alpha (d + mu M)

Douillard et al. 2023, arXiv 2311.08105, as ``reference/optimizers/diloco.py`` has it, which it is tested against. It
keeps no checkpoints and trains float32 only; who wants to train by it finds programs of its own authors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class DiLoCo:
    """AdamW inside, SGD with Nesterov momentum outside.

    Args:
        model: its parameters are trained, float32, the same on all workers at the start.
        lr: of AdamW.
        sync_every: H.
        group: the workers.
        outer_lr, outer_momentum: alpha and mu; the defaults are those published.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        sync_every: int,
        group: dist.ProcessGroup | None = None,
        outer_lr: float = 0.7,
        outer_momentum: float = 0.9,
    ) -> None:
        self._params = list(model.parameters())
        self._inner = torch.optim.AdamW(self._params, lr=lr, weight_decay=0.0, fused=True)
        self._met_D: Tensor = parameters_to_vector(self._params).detach()
        self._outer = torch.optim.SGD([self._met_D], lr=outer_lr, momentum=outer_momentum, nesterov=True)
        self._group, self._sync_every, self._steps = group, sync_every, 0

    def zero_grad(self) -> None:
        """Forget the last gradients."""
        self._inner.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        """A step of this worker; after every H of them all meet."""
        self._inner.step()
        self._steps += 1
        if self._steps % self._sync_every == 0:
            walked_D = self._met_D - parameters_to_vector(self._params)
            dist.all_reduce(walked_D, group=self._group)
            self._met_D.grad = walked_D / dist.get_world_size(self._group)
            self._outer.step()
            vector_to_parameters(self._met_D.clone(), self._params)
