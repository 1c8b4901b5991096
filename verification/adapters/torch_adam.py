"""``torch.optim.Adam`` and AdamW: the warm-up alone. After it, the adapter says that there is nothing to check."""

from __future__ import annotations

import numpy as np
import torch

from verification.protocol import Array, Hyper, Snapshot


class TorchAdam:
    """torch has no Adam without bias correction, so only ``Hyper.bias_correction`` is supported; decay is decoupled."""

    def start(self, params_D: Array, n_workers: int, hyper: Hyper) -> None:
        if not hyper.bias_correction or hyper.variance_floor:
            raise NotImplementedError("torch's Adam corrects its bias and has no variance floor")
        self.hyper, self.n = hyper, n_workers
        self.param = torch.nn.Parameter(torch.from_numpy(params_D.copy()))
        self.optimizer = torch.optim.AdamW(
            [self.param],
            lr=hyper.lr,
            betas=(hyper.beta1, hyper.beta2),
            eps=hyper.eps,
            weight_decay=hyper.weight_decay,
        )
        self.t = 0

    def step(self, grads_ND: Array) -> None:
        if self.t == self.hyper.freeze_step:
            raise NotImplementedError("torch's Adam has no compression stage")
        self.param.grad = torch.from_numpy(grads_ND.mean(axis=0))
        self.optimizer.step()
        self.t += 1

    def snapshot(self) -> Snapshot:
        state, x_D = self.optimizer.state.get(self.param, {}), self.param.detach().numpy()
        zeros = torch.zeros_like(self.param)
        m_D, v_D = (state.get(name, zeros).detach().numpy().copy() for name in ("exp_avg", "exp_avg_sq"))
        errors_ND = np.zeros((self.n, x_D.size), x_D.dtype)
        return Snapshot(np.tile(x_D, (self.n, 1)), m_D, v_D, errors_ND, np.zeros_like(x_D), self.t)
