"""Laws L1, L2, L3, L5, L7, L8, L9, L10 of the reference in exact arithmetic: every comparison is ``==``."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from reference_support import SMALL_SIZES, WORKERS, exact_optimizer, exact_run, fractions, odd_fractions, same

from reference import DoubleSqueeze, FrozenAdam, OneBitAdam, compressed_allreduce, resize
from reference.allreduce import chunk_slices
from reference.compressors import Identity, PlainSign, RandomK, TopK
from reference.optimizers.adam import preconditioner

sizes = pytest.mark.parametrize("dim", SMALL_SIZES)
workers = pytest.mark.parametrize("n_workers", WORKERS)


def rng_for(*key):
    return np.random.default_rng([7, *key])


def mean(rows_ND):
    return rows_ND.sum(axis=0) / len(rows_ND)


def conserved(beta1, before, grads_ND, after):
    """L1 on the live coordinates."""
    live_D = slice(None) if before.live is None else before.live
    left_D = after.momentum + after.total_error
    right_D = beta1 * before.momentum + (1 - beta1) * mean(grads_ND) + before.total_error
    return same(left_D[live_D], right_D[live_D])


@sizes
@workers
@pytest.mark.parametrize("one_chunk", [True, False])
def test_l1_conservation(dim, n_workers, one_chunk):
    optimizer = exact_optimizer(server_chunks=1 if one_chunk else None)
    for before, grads_ND, after in exact_run(optimizer, rng_for(dim, n_workers), n_workers, dim, steps=3):
        assert conserved(optimizer.beta1, before, grads_ND, after)


@pytest.mark.parametrize("compressor", [PlainSign(), Identity(), TopK(density=0.2), RandomK(density=0.2)], ids=str)
def test_l1_holds_for_any_compressor_and_any_schedule(compressor):
    optimizer = exact_optimizer(compressor=compressor, lr=lambda t: Fraction(1, t * t))
    for before, grads_ND, after in exact_run(optimizer, rng_for(1), 3, 37, steps=5):
        assert conserved(optimizer.beta1, before, grads_ND, after)
        assert bool((after.total_error != 0).any()) is not isinstance(compressor, Identity)


def test_l1_for_double_squeeze():
    optimizer = DoubleSqueeze(lr=Fraction(1, 8), beta1=Fraction(1, 2), scale="l1")
    rng = rng_for(2)
    state = optimizer.init(fractions(rng, 21), 3)
    for _ in range(5):
        grads_ND = fractions(rng, 3, 21)
        after = optimizer.step(state, grads_ND)
        assert conserved(optimizer.beta1, state, grads_ND, after)
        state = after


@sizes
@pytest.mark.parametrize("n_workers", [1, 3, 8])
def test_l2_virtual_iterate(dim, n_workers):
    """y_t = x_t - gamma/(1-beta1) P (beta1 m_{t-1} + Delta_{t-1}) takes plain preconditioned gradient steps."""
    optimizer = exact_optimizer()
    gamma, beta1 = optimizer.lr, optimizer.beta1

    def virtual(state, scale_D):
        return state.params - gamma / (1 - beta1) * scale_D * (beta1 * state.momentum + state.total_error)

    for before, grads_ND, after in exact_run(optimizer, rng_for(dim, n_workers, 3), n_workers, dim, steps=4, zeros=0):
        scale_D = preconditioner(before.variance, optimizer.eps)
        live_D = np.ones(dim, bool) if before.live is None else before.live
        stepped_D = virtual(before, scale_D) - gamma * scale_D * mean(grads_ND)
        assert same(virtual(after, scale_D)[live_D], stepped_D[live_D])


def test_l3_identity_compressor_is_adam_with_frozen_variance():
    rng_a, rng_b = rng_for(4), rng_for(4)
    one_bit = exact_run(exact_optimizer(compressor=Identity()), rng_a, 4, 19, steps=5)
    frozen = exact_run(exact_optimizer(FrozenAdam), rng_b, 4, 19, steps=5)
    for (*_, a), (*_, b) in zip(one_bit, frozen, strict=True):
        assert same(a.params, b.params)
        assert same(a.momentum, b.momentum)
        assert a.bytes_on_wire == b.bytes_on_wire


@sizes
@workers
def test_l5_one_magnitude_a_chunk(dim, n_workers):
    for _, _, after in exact_run(exact_optimizer(), rng_for(dim, n_workers, 5), n_workers, dim, steps=2, zeros=0.3):
        live_D = np.ones(dim, bool) if after.live is None else after.live
        for chunk in chunk_slices(dim, n_workers):
            assert len({abs(value) for value in after.momentum[chunk][live_D[chunk]]}) <= 1
        assert (after.momentum[~live_D] == 0).all()


@workers
def test_l7_worker_permutation(n_workers):
    rng = rng_for(n_workers, 6)
    buffers_ND, errors_ND, server_D = fractions(rng, n_workers, 43), fractions(rng, n_workers, 43), fractions(rng, 43)
    order = rng.permutation(n_workers)
    one = compressed_allreduce(buffers_ND, errors_ND, server_D, scale="l1")
    two = compressed_allreduce(buffers_ND[order], errors_ND[order], server_D, scale="l1")
    assert same(one.output_D, two.output_D)
    assert same(one.worker_errors_ND[order], two.worker_errors_ND)
    assert same(one.server_error_D, two.server_error_D)


@workers
def test_l7_scaling_and_sign_flip(n_workers):
    rng = rng_for(n_workers, 7)
    inputs = [odd_fractions(rng, n_workers, 43), 4 * odd_fractions(rng, n_workers, 43), odd_fractions(rng, 43)]
    one = compressed_allreduce(*inputs, scale="l1")
    assert (one.output_D + one.server_error_D != 0).all(), "a zero has no flipped sign; pick another seed"
    for factor in (Fraction(3, 7), -1):
        two = compressed_allreduce(*(factor * array for array in inputs), scale="l1")
        assert same(two.output_D, factor * one.output_D)
        assert same(two.worker_errors_ND, factor * one.worker_errors_ND)
        assert same(two.server_error_D, factor * one.server_error_D)


@pytest.mark.parametrize("dead", [1, 5, 40])
def test_l8_dead_coordinates_anywhere_change_nothing(dead):
    """With one chunk, coordinates that are left out may stand anywhere: the live ones do not notice."""
    rng, dim, n_workers = rng_for(dead, 8), 33, 3
    inputs = [fractions(rng, n_workers, dim), fractions(rng, n_workers, dim), fractions(rng, dim)]
    live_D = np.zeros(dim + dead, bool)
    live_D[rng.permutation(dim + dead)[:dim]] = True
    padded = []
    for array in inputs:
        wide = fractions(rng, *array.shape[:-1], dim + dead)
        wide[..., live_D] = array
        padded.append(wide)
    padded[2][~live_D] = Fraction(0)
    one = compressed_allreduce(*inputs, scale="l1", server_chunks=1)
    two = compressed_allreduce(*padded, scale="l1", server_chunks=1, live_D=live_D)
    assert same(two.output_D[live_D], one.output_D)
    assert same(two.worker_errors_ND[:, live_D], one.worker_errors_ND)
    assert same(two.server_error_D[live_D], one.server_error_D)
    for part in (two.output_D, two.worker_errors_ND, two.server_error_D):
        assert (part[..., ~live_D] == 0).all()


@workers
@pytest.mark.parametrize("dim", [1, 9, 63, 65])
def test_l8_padding_the_tail(dim, n_workers):
    """Padding up to N full chunks leaves the chunks where they were: no padded zero may enter a norm or a count."""
    rng = rng_for(dim, n_workers, 9)
    inputs = [fractions(rng, n_workers, dim), fractions(rng, n_workers, dim), fractions(rng, dim)]
    wide = n_workers * 8 * -(-dim // (8 * n_workers))
    padded = [
        np.concatenate([array, np.full((*array.shape[:-1], wide - dim), Fraction(0))], axis=-1) for array in inputs
    ]
    one = compressed_allreduce(*inputs, scale="l1")
    two = compressed_allreduce(*padded, scale="l1", live_D=np.arange(wide) < dim)
    assert same(two.output_D[:dim], one.output_D)
    assert same(two.worker_errors_ND[:, :dim], one.worker_errors_ND)
    assert same(two.server_error_D[:dim], one.server_error_D)
    assert two.bytes_per_worker.sum() >= one.bytes_per_worker.sum()


@pytest.mark.parametrize("n_before", [1, 2, 3, 8])
@pytest.mark.parametrize("n_after", [1, 2, 5, 16])
def test_l9_resize_conserves_the_total_error(n_before, n_after):
    optimizer = exact_optimizer()
    rng = rng_for(n_before, n_after, 10)
    *_, (_, _, state) = exact_run(optimizer, rng, n_before, 29, steps=4)
    resized = resize(state, n_after)
    assert resized.n_workers == n_after
    assert same(resized.total_error, state.total_error)
    assert (state.total_error != 0).any()
    grads_ND = fractions(rng, n_after, 29)
    assert conserved(optimizer.beta1, resized, grads_ND, optimizer.step(resized, grads_ND))


@sizes
def test_l10_contraction_is_exact_for_l1(dim):
    u_D = fractions(rng_for(dim, 11), dim)
    sent = compressed_allreduce(u_D[None], 0 * u_D[None], 0 * u_D, scale="l1")
    phi = sum(abs(u_D)) ** 2 / (dim * sum(u_D * u_D))
    assert sum(sent.worker_errors_ND[0] ** 2) == (1 - phi) * sum(u_D * u_D)


@pytest.mark.parametrize("values", [(3, 4, 0, 0), (1, 2, 2, 4), (2, 4, 5, 6), (1, 1, 1, 1), (1, 3, 5, 1), (8, 0, 0, 0)])
def test_l10_contraction_is_exact_for_l2(values):
    """d = 4 and a rational norm: every number is exact in binary, and 2 (1 - sqrt(phi)) ||u||^2 is an integer."""
    u_D = np.array(values, np.float32) * np.array([1, -1, 1, -1], np.float32)
    norm = int(np.sqrt(sum(v * v for v in values)))
    assert norm * norm == sum(v * v for v in values)
    sent = compressed_allreduce(u_D[None], 0 * u_D[None], 0 * u_D, scale="l2")
    assert float((sent.worker_errors_ND[0] ** 2).sum()) == 2 * norm * norm - sum(values) * norm


def test_frozen_state_survives_many_exact_steps():
    """The laws are about state; this is about drift: after 25 exact steps the telescoped sum is still exact (T2)."""
    optimizer = exact_optimizer(OneBitAdam, beta1=0)
    rng = rng_for(12)
    steps = list(exact_run(optimizer, rng, 2, 9, steps=25, zeros=0))
    sent_D = sum(after.momentum for *_, after in steps)
    asked_D = sum(mean(grads_ND) for _, grads_ND, _ in steps)
    live_D = slice(None) if steps[0][0].live is None else steps[0][0].live
    assert same((sent_D + steps[-1][2].total_error)[live_D], asked_D[live_D])
