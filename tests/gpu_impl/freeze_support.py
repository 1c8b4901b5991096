"""The runs that the tests of the rules C10 share: gradients of several kinds, an optimizer, and the steps."""

from __future__ import annotations

import numpy as np
import torch
from optimizer_support import ONE_BUCKET
from torch import distributed as dist
from torch import nn

from gpu_impl import OneBitAdam

BETA2, DELTA = 0.9, 10
SHAPES = {"W": (5, 8), "b": (16,), "late": (8,)}
"""Multiples of 8 elements: no padding, so that one bucket is the reference's flat array."""

ARRAYS = {name: int(np.prod(shape)) for name, shape in SHAPES.items()}
DIM = sum(ARRAYS.values())
STEPS = 90
TOGETHER = {"bucket_elements": ONE_BUCKET, "lr": 1e-2}


def gradients(kind, n=2):
    """(T, n, D), of mean 1 unless ``kind`` says otherwise."""
    rng = np.random.default_rng(3)
    grads_TND = 1 + 0.05 * rng.standard_normal((STEPS, n, DIM))
    t_T = np.arange(STEPS)[:, None, None]
    if kind == "growing":
        grads_TND *= 1.1 ** np.minimum(t_T, 20)
    if kind == "falling":
        grads_TND[0] *= 12  # v begins far above where it will stay
    if kind == "in turn":  # the sum of v stands still while one array hands over to the other
        share_T = np.sqrt(np.linspace(0.9, 0.1, 25).tolist() + [0.1] * (STEPS - 25))
        grads_TND[:, :, :40] *= share_T[:, None, None]
        grads_TND[:, :, 40:] *= np.sqrt((1 - share_T**2) * 40 / 24)[:, None, None]
    if kind == "one wakes up":
        grads_TND[:5, :, 56:] = 0
    if kind == "skipped":
        grads_TND[4, 0, 0] = np.nan
    return grads_TND.astype(np.float32)


def params_and_optimizer(rule, kind=OneBitAdam, **hyper):
    params = nn.ParameterDict({name: nn.Parameter(torch.ones(shape)) for name, shape in SHAPES.items()})
    return params, kind(params.named_parameters(), freeze_step=rule, betas=(0.9, BETA2), **{**TOGETHER, **hyper})


def train(params, optimizer, grads_TD, first=0):
    for grad_D in grads_TD[first:]:
        at = 0
        for param in params.values():
            param.grad = torch.from_numpy(grad_D[at : at + param.numel()].copy()).view(param.shape)
            at += param.numel()
        optimizer.step()


def flat(params):
    return torch.cat([param.detach().reshape(-1) for param in params.values()]).numpy().copy()


def stopped_at(at, rule, hyper, grads_TND):
    params, optimizer = params_and_optimizer(rule, **hyper)
    train(params, optimizer, grads_TND[:at, dist.get_rank()])
    return params, optimizer
