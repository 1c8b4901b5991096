"""OneBitLamb and ZeroOneAdam are the reference's, bit by bit: whole runs, and single steps from their own state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from family_optimizers import (
    DIM,
    IDS,
    KINDS,
    LAMB,
    LOCAL,
    at_the_workers,
    noise,
    record,
    same_as,
    shared_x,
    start,
    state_of,
    the_reference,
)
from optimizer_support import pool

from gpu_impl.optimizer import zero_one_bucket

STEPS = 60


def run_both(kind, n, grads_TND, x_D=None, **more):
    """A run here and by the reference: the snapshots of all workers by step, and the reference's states."""
    name, hyper = kind
    x_D = start() if x_D is None else x_D
    backend = {"backend": more.pop("backend", "auto")}
    lrs = [1e-2 / (1 + 0.1 * t) for t in range(len(grads_TND))]
    rows = [(name, x_D, grads_TND[:, i], lrs, {**hyper, **more, **backend}) for i in range(n)]
    results = pool(n).map(record, rows)
    skipped = 0
    reference = the_reference(name, lr=lambda t: applied[t - 1], **hyper, **more)
    applied = [lr for lr, grads_ND in zip(lrs, grads_TND, strict=True) if np.isfinite(grads_ND).all()]
    states = [reference.init(x_D, n)]
    for grads_ND in grads_TND:
        states.append(reference.step(states[-1], grads_ND))
        skipped += not np.isfinite(grads_ND).all()
    assert states[-1].skipped_steps == skipped == results[0][1].skipped_steps
    assert sum(stats.ignored_gradients for _, stats in results) >= states[-1].ignored_gradients
    return list(zip(*(found for found, _ in results), strict=True)), states, reference


def spoiled(grads_TND):
    """Dead coordinates, one of which comes to life, gradients on the others after the freeze, and a step to skip."""
    grads_TND[:, :, ::13] = 0
    grads_TND[6:, :, 13] = 1
    grads_TND[40:, 0, ::13] = 1
    grads_TND[47, -1, 5] = np.inf
    return grads_TND


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_run_is_the_reference_bitwise(kind, n, backend):
    """With three workers the sums of a warm-up are exact in any order, so there it agrees as well."""
    grads_TND = spoiled(noise(n, STEPS, dyadic=n == 3))
    options = [{"weight_decay": 0.01}, {"scale": "l1", "variance_floor": 0.0, "scale_block": 16}]
    if kind is LAMB:  # with a short memory q runs into its limits
        options[1] |= {"bias_correction": True, "beta2": 0.5}
    for more in options:
        snaps, states, reference = run_both(kind, n, grads_TND, backend=backend, **more)
        for t, (parts, state) in enumerate(zip(snaps, states, strict=True)):
            same_as(state, kind[0], parts, f"after step {t}")
            local_ND = at_the_workers(reference, state, n)
            assert all(part["local"].tobytes() == row.tobytes() for part, row in zip(parts, local_ND, strict=True))
        assert states[-1].ignored_gradients > 0
        assert np.abs(states[-1].params - states[0].params).max() > 0.01


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_step_from_its_own_state_is_the_references(kind):
    """Three workers, any gradients: the sum of a dense average has no fixed order, every other step agrees."""
    name, _ = kind
    grads_TND = noise(3, STEPS, seed=1)
    snaps, states, reference = run_both(kind, 3, grads_TND, weight_decay=0.01)
    compared = 0
    for t, (before, after) in enumerate(itertools.pairwise(snaps), start=1):
        dense = states[t].frozen_at is None if kind is LAMB else reference.refreshes(t)
        if not dense and before[0]["frozen_at"]:
            state = state_of(name, before, shared_x(before[0]))
            same_as(reference.step(state, grads_TND[t - 1]), name, after, f"of step {t}")
            compared += 1
    assert compared >= STEPS - 31


def test_the_local_steps_part_the_workers():
    """Else the test of local steps would show nothing."""
    snaps, _, _ = run_both(LOCAL, 2, noise(2, STEPS))
    apart = [parts[0]["local"].tobytes() != parts[1]["local"].tobytes() for parts in snaps]
    assert 0 < sum(apart) < STEPS
    assert not any(apart[:10])


def test_clipping_by_one_factor():
    """The factor is a power of two, so that all orders of rounding agree [C9]."""
    signs = np.where(np.random.default_rng(0).random((20, 2, DIM)) < 0.5, -1, 1)
    grads_TND = signs.astype(np.float32)
    for kind in KINDS:
        limit = float(np.sqrt(DIM)) / 4
        snaps, states, _ = run_both(kind, 2, grads_TND, max_grad_norm=limit)
        same_as(states[-1], kind[0], snaps[-1])
        free, _, _ = run_both(kind, 2, grads_TND)
        assert shared_x(free[-1][0]).tobytes() != states[-1].params.tobytes()


def in_pieces(name, x_D, grads_TD, lrs, hyper):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zero_one_bucket, "PIECE", 7)
        return record(name, x_D, grads_TD, lrs, hyper)


def test_the_pieces_that_a_processor_works_on_change_no_bit():
    grads_TND = spoiled(noise(2, STEPS))
    rows = [(LOCAL[0], start(), grads_TND[:, i], [1e-2] * STEPS, LOCAL[1]) for i in range(2)]
    whole, cut = pool(2).map(record, rows), pool(2).map(in_pieces, rows)
    for (snaps, stats), (cut_snaps, cut_stats) in zip(whole, cut, strict=True):
        for one, other in zip(snaps, cut_snaps, strict=True):
            assert all(np.array_equal(one[name], other[name]) for name in one)
        assert stats.ignored_gradients == cut_stats.ignored_gradients
    assert sum(stats.ignored_gradients for _, stats in whole) > 0
