"""Nodes [C15]: full precision inside a node, one bit between nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference_support import exact_optimizer, fractions, same

from reference import OneBitAdam, load, resize, save
from reference.optimizers.base import mean_in_nodes

SIZES = pytest.mark.parametrize(("nodes", "node_size"), [(1, 3), (2, 2), (3, 1), (2, 4), (3, 2)])


def mean(rows_ND):
    return rows_ND.sum(axis=0) / len(rows_ND)


def steps(nodes, node_size, dim=37, n_steps=4):
    """(state before, all workers' gradients, state after) of compressed steps in exact arithmetic."""
    optimizer = replace(exact_optimizer(), node_size=node_size)
    rng = np.random.default_rng([nodes, node_size])
    state = optimizer.init(fractions(rng, dim), nodes * node_size)
    for _ in range(int(optimizer.freeze_step) + n_steps):
        grads_ND = fractions(rng, nodes * node_size, dim)
        after = optimizer.step(state, grads_ND)
        if state.frozen_at is not None:
            yield optimizer, state, grads_ND, after
        state = after


@SIZES
def test_l1_with_an_error_for_every_node(nodes, node_size):
    """T3p: the mean is over all workers, the errors are the nodes'."""
    for optimizer, before, grads_ND, after in steps(nodes, node_size):
        assert after.worker_errors.shape == (nodes, 37)
        live_D = slice(None) if before.live is None else before.live
        left_D = after.momentum + after.total_error
        right_D = optimizer.beta1 * before.momentum + (1 - optimizer.beta1) * mean(grads_ND) + before.total_error
        assert same(left_D[live_D], right_D[live_D])
        assert (after.total_error != 0).any()
        assert same(resize(after, nodes + 1).total_error, after.total_error)


@SIZES
def test_nodes_are_workers_with_the_mean_gradient_of_theirs(nodes, node_size):
    """To the last bit, with everything that is told: only bytes inside a node are not counted."""
    rng = np.random.default_rng(0)
    grads_TND = rng.standard_normal((12, nodes * node_size, 50)).astype(np.float32)
    grads_TND[7, 0, 3] = np.nan
    hyper = {"lr": 1e-2, "freeze_step": 4}
    ours, theirs = OneBitAdam(node_size=node_size, **hyper), OneBitAdam(**hyper)
    one, two = ours.init(grads_TND[0, 0], nodes * node_size), theirs.init(grads_TND[0, 0], nodes)
    for grads_ND in grads_TND:
        means = [
            grads_ND[k * node_size : (k + 1) * node_size].sum(axis=0) / np.float32(node_size) for k in range(nodes)
        ]
        one, two = ours.step(one, grads_ND), theirs.step(two, np.stack(means))
        assert save(one) == save(two)
    assert one.skipped_steps == 1
    with pytest.raises(ValueError, match=rf"\({nodes * node_size}, 50\)"):
        ours.step(one, grads_TND[0, : nodes * node_size - 1])


def test_one_worker_a_node_is_no_node():
    grads_ND = np.ones((3, 5), np.float32)
    assert mean_in_nodes(grads_ND, 1) is grads_ND


def test_clipping_is_by_the_norms_of_all_workers():
    """Two gradients that cancel in their node have the mean 0, and norms nonetheless [C9]."""
    grads_ND = np.array([[8, 0], [-8, 0], [0, 2], [0, 2]], np.float32)
    optimizer = OneBitAdam(lr=1, beta1=0, freeze_step=9, node_size=2, max_grad_norm=float(np.sqrt(136 / 4) / 2))
    state = optimizer.step(optimizer.init(np.zeros(2, np.float32), 4), grads_ND)
    assert state.momentum.tolist() == [0, 0.5]


def test_resume_is_exact_and_resizing_is_by_nodes():
    """[C11] for M nodes."""
    optimizer = OneBitAdam(lr=1e-2, freeze_step=3, node_size=2)
    rng = np.random.default_rng(1)
    state = optimizer.init(rng.standard_normal(40).astype(np.float32), 4)
    for _ in range(6):
        state = optimizer.step(state, rng.standard_normal((4, 40)).astype(np.float32))
    grads_ND = rng.standard_normal((4, 40)).astype(np.float32)
    assert save(optimizer.step(load(save(state)), grads_ND)) == save(optimizer.step(state, grads_ND))
    after = optimizer.step(resize(state, 3), rng.standard_normal((6, 40)).astype(np.float32))
    assert after.worker_errors.shape == (3, 40)


@pytest.mark.parametrize(
    ("n_workers", "node_size", "message"), [(3, 2, "multiple of node_size=2"), (4, 0, "node_size")]
)
def test_refusals(n_workers, node_size, message):
    with pytest.raises(ValueError, match=message):
        OneBitAdam(lr=1.0, freeze_step=1, node_size=node_size).init(np.zeros(2, np.float32), n_workers)
