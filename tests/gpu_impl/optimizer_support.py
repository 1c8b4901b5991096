"""What the optimizer's tests run inside the worker processes, and how they compare states."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from gpu_impl import OneBitAdam
from gpu_impl.torch_backend import decode
from gpu_impl.worker_pool import WorkerPool

SHAPES = ((5, 9), (1,), (7,), (4, 8), (3, 2, 5))
"""Of the model's parameters: 115 elements, 120 with padding."""

ONE_BUCKET = 2**62


def model(dtype=torch.float32, seed=0):
    """Parameters of odd sizes, the same on all workers."""
    generator = torch.Generator().manual_seed(seed)
    return nn.ParameterList([nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES])


def gradients(params, rank, t, seed=0):
    """Gradient of worker ``rank`` in step ``t``: a pull that all share, and noise."""
    pull = torch.Generator().manual_seed(seed)
    noise = torch.Generator().manual_seed(1000 * (seed + 1) + 100 * t + rank)
    return [
        (torch.randn(p.shape, generator=pull) + 3 * torch.randn(p.shape, generator=noise)).to(p.dtype) for p in params
    ]


def train(params, optimizer, steps, rank=None, change=None):
    """Steps t in ``steps``; ``change(t, grads)`` may alter this worker's gradients, or put None for one."""
    rank = dist.get_rank() if rank is None else rank
    for t in steps:
        grads = gradients(params, rank, t)
        if change is not None:
            grads = change(t, grads)
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        optimizer.step()


def flat(params):
    """All parameters as one float32 array."""
    return torch.cat([p.detach().reshape(-1).float() for p in params]).numpy().copy()


def new(params, **hyper):
    """An optimizer with few warm-up steps."""
    return OneBitAdam(params, **{"lr": 1e-2, "freeze_step": 5, **hyper})


def full_state(optimizer):
    """This worker's part of the state of every bucket, in floats, as NumPy arrays."""
    compressed = optimizer.phase == "compressed"
    parts = []
    for _, bucket in optimizer.pairs():
        momentum_D = bucket.momentum_D(is_compressed=compressed)
        parts.append(
            {
                "params": bucket.flat.master.numpy().copy(),
                "momentum": momentum_D.numpy(),
                "variance": bucket.variance.numpy().copy(),
                "worker_error": bucket.worker_error_D().numpy() if compressed else np.zeros_like(momentum_D),
                "server_error": bucket.server_error_C().numpy() if compressed else np.zeros_like(bucket.w),
                "grad": bucket.flat.grad.float().numpy().copy(),
            }
        )
    return parts


def total_error(parts_of_ranks):
    """Delta (D,) in float64 of one bucket from the parts of all ranks."""
    worker = np.mean([part["worker_error"].astype(np.float64) for part in parts_of_ranks], axis=0)
    return worker + np.concatenate([part["server_error"] for part in parts_of_ranks]).astype(np.float64)


def pool(n_workers):
    return WorkerPool.of(n_workers)


__all__ = ["copy", "decode"]
