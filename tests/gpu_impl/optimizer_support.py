"""What the optimizer's tests run inside the worker processes, and how they compare states."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from gpu_impl import OneBitAdam
from gpu_impl.harness.worker_pool import WorkerPool

SHAPES = ((5, 9), (1,), (7,), (4, 8), (3, 2, 5))
"""Of the model's parameters: 115 elements, 120 with padding."""

ONE_BUCKET = 2**62


def model(dtype=torch.float32, seed=0):
    """Parameters of odd sizes, the same on all workers."""
    generator = torch.Generator().manual_seed(seed)
    return nn.ParameterList([nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES])


@cache
def mesh_of(shape=(2, 2), names=("replicate", "shard")) -> DeviceMesh:
    """One a process and shape: a mesh makes groups, and gloo wakes a thread of each every 10 ms until the end."""
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


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
    parts = []
    for _, bucket in optimizer.run.pairs():
        momentum_D = bucket.momentum_D()
        parts.append(
            {
                "params": bucket.flat.master.numpy().copy(),  # the model's parameters themselves, but for 16 bits
                "momentum": momentum_D.numpy(),
                "variance": bucket.variance.to(torch.float32, copy=True).numpy(),
                "worker_error": bucket.worker_error_D().numpy(),
                "server_error": bucket.server_error_C().numpy(),
            }
        )
    return parts


def note_variance(optimizer):
    """A dict that gets v of each bucket as it is at the freeze, with its floor, before the kernels turn it into P."""
    seen = {}
    optimizer.take_over()
    for k, (_, bucket) in enumerate(optimizer.run.pairs()):

        def freeze(group, floor, correction, *, loaded=False, k=k, bucket=bucket, original=bucket.freeze):
            v_D = bucket.variance.numpy()
            mean = v_D.sum(dtype=np.float64) / max(1, np.count_nonzero(v_D))
            seen[k] = np.maximum(v_D, np.float32(floor * mean)) * (v_D > 0)
            original(group, floor, correction, loaded=loaded)

        bucket.freeze = freeze
    return seen


def record(params, optimizer, steps, change=None):
    """States of all buckets before the first step and after every one, and the flat gradients of each step."""
    frozen = note_variance(optimizer)
    states, grads = [], []

    def note():
        parts = full_state(optimizer)
        for k, part in enumerate(parts):
            part["variance"] = frozen.get(k, part["variance"])
            part["step"] = optimizer.steps
        states.append(parts)

    note()
    for t in steps:
        train(params, optimizer, [t], change=change)
        note()
        grads.append([])
        for parcel in optimizer.run.parcels:
            parcel.gather()
            grads[-1] += [parcel.gradients.flat_of(k).float().numpy().copy() for k in range(len(parcel.buckets))]
    return states, grads


def total_error(parts_of_ranks):
    """Delta (D,) in float64 of one bucket from the parts of all ranks."""
    worker = np.mean([part["worker_error"].astype(np.float64) for part in parts_of_ranks], axis=0)
    return worker + np.concatenate([part["server_error"] for part in parts_of_ranks]).astype(np.float64)


def pool(n_workers):
    return WorkerPool.of(n_workers)
