"""The lab's DiLoCo against the reference's."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist

from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.netlab.diloco import DiLoCo as LabDiLoCo
from reference.optimizers import DiLoCo
from theory.tolerance_checks import gamma

N, D, STEPS, EVERY, LR = 2, 24, 12, 4, 0.01


def targets_ND() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)


class Distances(nn.Module):
    """Parameters whose gradient is x - target, on each worker its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(4, 4))

    def forward(self, target_D: Tensor) -> Tensor:
        return ((nn.utils.parameters_to_vector(self.parameters()) - target_D) ** 2).sum() / 2


def walk() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Where this worker stood before each step, with the gradient there."""
    model, target_D = Distances(), torch.from_numpy(targets_ND()[dist.get_rank()])
    optimizer = LabDiLoCo(model, LR, EVERY)
    stood, grads = [], []
    for _ in range(STEPS + 1):
        stood.append(nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy())
        optimizer.zero_grad()
        model(target_D).backward()
        params = list(model.parameters())
        grads.append(torch.cat([param.grad.flatten() for param in params if param.grad is not None]).numpy().copy())
        optimizer.step()
    return stood, grads


def test_it_walks_where_the_reference_walks():
    """The reference gets the gradients that torch had, so that roundings do not add up through them.

    A step of AdamW rounds some ten times and moves by about its learning rate; three outer steps follow each other.
    """
    stood_NTD, grads_NTD = (np.array(part) for part in zip(*WorkerPool.of(N).call(walk), strict=True))
    rule = DiLoCo(lr=LR, sync_every=EVERY, beta2=0.999, eps=1e-8, bias_correction=True)
    state = rule.init(np.ones(D, np.float32), N)
    rounding = gamma(16 * STEPS, "float32") * np.abs(stood_NTD).max()
    for t in range(STEPS + 1):
        local_ND = rule.local_params(state)
        assert local_ND is not None
        np.testing.assert_allclose(stood_NTD[:, t], local_ND, rtol=0, atol=rounding)
        state = rule.step(state, grads_NTD[:, t])
    moved = np.abs(stood_NTD[0, -1] - 1).max()
    assert moved > 100 * rounding
    assert np.array_equal(stood_NTD[0, EVERY], stood_NTD[1, EVERY])
