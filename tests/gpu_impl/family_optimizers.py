"""What the tests of OneBitLamb and ZeroOneAdam share: runs of layers, and the reference beside them.

Sizes are multiples of 8, so that a bucket has no padding and the reference's vector is the same.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from optimizer_support import ONE_BUCKET
from torch import distributed as dist
from torch import nn

import gpu_impl
import reference
from reference.optimizers import make

SHAPES = [(2, 8), (32,), (3, 8), (5, 8)]
DIM = sum(math.prod(shape) for shape in SHAPES)
REFERENCE = {"OneBitLamb": "one_bit_lamb", "ZeroOneAdam": "zero_one_adam"}

LAMB = ("OneBitLamb", {"freeze_step": 9})
EVERY_STEP = ("ZeroOneAdam", {"freeze_step": 20, "variance_doubling": 4, "local_limit": 1})
LOCAL = ("ZeroOneAdam", {"freeze_step": 9, "variance_doubling": 2, "local_doubling": 8, "local_limit": 4})
KINDS = [LAMB, EVERY_STEP, LOCAL]
IDS = ["lamb", "0/1, meeting always", "0/1, local steps"]


def start(seed=5):
    return np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)


def noise(n, steps, seed=0, *, dyadic=False):
    """Gradients of each worker (steps, N, D); ``dyadic``: sums over the workers are exact in any order."""
    rng = np.random.default_rng(seed)
    size = np.repeat([1.0, 0.1, 3.0, 0.5], [math.prod(shape) for shape in SHAPES])
    grads = size * (rng.standard_normal(DIM) + 3 * rng.standard_normal((steps, n, DIM)))
    return (np.round(grads * 2**10) / 2**10 if dyadic else grads).astype(np.float32)


def layers(x_D):
    stops = list(itertools.accumulate(math.prod(shape) for shape in SHAPES))
    parts = np.split(x_D, stops[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def made(name, x_D, hyper, dtype=torch.float32):
    params = [nn.Parameter(torch.from_numpy(part.copy()).to(dtype)) for part in layers(x_D)]
    hyper = {"lr": 1e-2, "bucket_elements": ONE_BUCKET, "beta2": 0.999, **hyper}
    return params, getattr(gpu_impl, name)(params, betas=(0.9, hyper.pop("beta2")), **hyper)


def step(params, optimizer, grad_D):
    for param, part in zip(params, layers(grad_D), strict=True):
        param.grad = torch.from_numpy(part.copy()).to(param.dtype)
    optimizer.step()


def flat(params):
    return torch.cat([param.detach().reshape(-1).float() for param in params]).numpy().copy()


def snapshot(params, optimizer):
    """All that this worker remembers, under the reference's names."""
    ((_, bucket),) = optimizer.run.pairs()
    found = {name: values.numpy().copy() for name, values in bucket.dense().items()}
    found |= {name: optimizer.run.numbers(name).numpy().copy() for name in optimizer.run.names.numbers}
    return {**found, "local": flat(params), "step": optimizer.steps, "frozen_at": optimizer.run.frozen_at}


def record(name, x_D, grads_TD, lrs, hyper):
    """Snapshots before the first step and after every one, and the optimizer's own numbers at the end."""
    params, optimizer = made(name, x_D, hyper)
    optimizer.take_over()
    found = [snapshot(params, optimizer)]
    for grad_D, lr in zip(grads_TD, lrs, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        step(params, optimizer, grad_D)
        found.append(snapshot(params, optimizer))
    return found, optimizer.stats()


def the_reference(name, **hyper):
    shapes = {"shapes": SHAPES} if name == "OneBitLamb" else {}
    return make(REFERENCE[name], **shapes, **hyper)


def slots_of(name, snaps):
    """The slots of a reference's state from the snapshots of all workers."""
    if name == "OneBitLamb":
        names = {"trust_mean_L": "trust_mean", "last_ratio_L": "last_ratio", "layer_scale_L": "layer_scale"}
        slots = {ours: snaps[0][theirs].astype(np.float32) for ours, theirs in names.items()}
        return {**slots, "fresh_variance_D": snaps[0]["fresh_variance"]}
    return {f"{one}_ND": np.stack([snap[one] for snap in snaps]) for one in ("momentum", "accumulated", "walked")}


def state_of(name, snaps, params_D):
    """The reference's state from the snapshots of all workers."""
    first = snaps[0]
    return reference.State(
        params=params_D,
        momentum=first["exp_avg"],
        variance=first["exp_avg_sq"],
        worker_errors=np.stack([snap["worker_error"] for snap in snaps]),
        server_error=sum(snap["server_error"] for snap in snaps) + np.float32(0),
        step=first["step"],
        frozen_at=first["frozen_at"] or None,
        slots=slots_of(name, snaps),
    )


def shared_x(snap):
    """X of the last meeting."""
    return snap.get("master", snap["local"])


def same_as(state, name, snaps, where=""):
    """Every number of the reference's state is, bit for bit, what the workers have; -0.0 counts as 0."""
    ours = state_of(name, snaps, shared_x(snaps[0]))
    pairs = {one: (getattr(state, one), getattr(ours, one)) for one in reference.state.ARRAYS}
    pairs |= {one: (array, ours.slots[one]) for one, array in state.slots.items()}
    for one, (theirs, mine) in pairs.items():
        assert (theirs + np.float32(0)).tobytes() == (mine + np.float32(0)).tobytes(), f"{one} {where}"
    for snap in snaps:
        assert shared_x(snap).tobytes() == shared_x(snaps[0]).tobytes()


def at_the_workers(optimizer, state, n):
    """Where the reference's workers stand (N, D)."""
    local_ND = optimizer.local_params(state)
    return np.tile(state.params, (n, 1)) if local_ND is None else local_ND


def rank():
    return dist.get_rank()
