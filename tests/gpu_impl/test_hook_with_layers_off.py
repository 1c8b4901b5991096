"""The hook where a layer is turned off after DDP was made, which finds unused parameters: OneBitAdam's bits."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from test_ddp_hook import FREEZE_STEP, HYPER, SMALL, STEPS, Network, backward, equal
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import OneBitAdam
from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam


def train(kind, options, ddp_options, off_steps, nan_steps):
    """The state after every step; in ``off_steps`` a layer needs no gradient, though it is used."""
    network = Network()
    optimizer = kind(network.parameters(), **HYPER | options)
    model = network
    if kind is HookedOneBitAdam:
        model = DistributedDataParallel(network, **ddp_options)
        optimizer.attach(model)
    states = []
    for t in range(1, STEPS + 1):
        network.sometimes.requires_grad_(t not in off_steps)
        optimizer.zero_grad()
        backward(model, t, nan_steps=nan_steps)
        optimizer.step()
        dense = [part for _, bucket in optimizer.run.pairs() for part in bucket.dense().values()]
        states.append([part.clone() for part in [*network.parameters(), *dense]])
    return states


@pytest.mark.one_in(3)
@pytest.mark.parametrize("off_steps", [(2,), (FREEZE_STEP + 2, FREEZE_STEP + 3), range(2, STEPS)])
@pytest.mark.parametrize("options", [{}, {"bucket_elements": 300}, {"compress": "update", "scale_block": 40}])
def test_every_step_is_that_of_one_bit_adam_to_the_bit(options, off_steps):
    for view in (False, True):
        ddp_options = SMALL | {"find_unused_parameters": True, "gradient_as_bucket_view": view}
        nan_steps = (FREEZE_STEP + 3,) if view else ()
        pool = WorkerPool.of(2)
        hooked = pool.call(train, HookedOneBitAdam, options, ddp_options, off_steps, nan_steps)
        plain = pool.call(train, OneBitAdam, options, ddp_options, off_steps, nan_steps)
        for mine, theirs in zip(hooked, plain, strict=True):
            for t, (left, right) in enumerate(zip(mine, theirs, strict=True), start=1):
                assert equal(left, right), f"step {t}"


def moved_while_off():
    network = Network()
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
    model = DistributedDataParallel(network, **SMALL, find_unused_parameters=True)
    optimizer.attach(model)
    kept = []
    for t in range(1, STEPS + 1):
        network.sometimes.requires_grad_(t <= FREEZE_STEP + 1)
        optimizer.zero_grad()
        backward(model, t)
        optimizer.step()
        kept.append((network.sometimes.weight.detach().clone(), network.wide.weight.detach().clone()))
    return [tuple(map(torch.equal, before, after)) for before, after in pairwise(kept)]


def test_a_layer_that_is_off_stays_and_the_others_move():
    for same in WorkerPool.of(2).call(moved_while_off):
        assert same == [(t > FREEZE_STEP + 1, False) for t in range(2, STEPS + 1)]
