"""Laws of the reference in float32: bitwise where the law says so, else within tolerances that ``theory`` proves."""

from __future__ import annotations

import numpy as np
import pytest
from reference_support import LARGE_SIZE, SMALL_SIZES, WORKERS, floats, l1_residual, l1_tolerance, same, same_state

from reference import Adam, OneBitAdam, compressed_allreduce, load, save
from reference.allreduce import chunk_slices
from reference.bits import pack_signs, unpack_signs
from reference.compressors.scaled_sign import scale_of

workers = pytest.mark.parametrize("n_workers", WORKERS)
scales = pytest.mark.parametrize("scale", ["l1", "l2"])


def compressed_run(optimizer, n_workers, dim, steps, seed=0):
    """Yield (before, gradients, after) from the first compressed step on."""
    rng = np.random.default_rng([seed, n_workers, dim])
    state = optimizer.init(floats(rng, dim), n_workers)
    while steps:
        grads_ND = floats(rng, n_workers, dim)
        grads_ND[:, rng.random(dim) < 0.1] = 0
        after = optimizer.step(state, grads_ND)
        if state.frozen_at is not None:
            yield state, grads_ND, after
            steps -= 1
        state = after


@workers
@scales
@pytest.mark.parametrize("dim", [*SMALL_SIZES, 65_537, pytest.param(LARGE_SIZE, marks=pytest.mark.soak)])
def test_l1_conservation_within_rounding(dim, n_workers, scale):
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1, scale=scale)
    for before, grads_ND, after in compressed_run(optimizer, n_workers, dim, steps=1 if dim > 65_000 else 4):
        live_D = np.ones(dim, bool) if before.live is None else before.live
        residual_D = l1_residual(before, grads_ND, after, 0.9)[live_D]
        tolerance_D = l1_tolerance(before, grads_ND, after, 0.9)[live_D]
        assert (residual_D <= tolerance_D).all()
        if dim >= 63:
            assert (residual_D >= tolerance_D / 100).any(), "the tolerance is so wide that it tests nothing"


@pytest.mark.parametrize("bias_correction", [False, True])
def test_l3_warm_up_without_end_is_adam(bias_correction):
    """T_w >= T: bitwise the same as Adam."""
    adam = Adam(lr=1e-2, weight_decay=0.1, bias_correction=bias_correction)
    one_bit = OneBitAdam(lr=1e-2, weight_decay=0.1, bias_correction=bias_correction, freeze_step=31)
    rng = np.random.default_rng(0)
    x_D = floats(rng, 77)
    a, b = adam.init(x_D, 3), one_bit.init(x_D, 3)
    for _ in range(30):
        grads_ND = floats(rng, 3, 77)
        a, b = adam.step(a, grads_ND), one_bit.step(b, grads_ND)
        assert same_state(a, b)


@scales
def test_l4_frozen_variance_is_bitwise_constant_and_blind_to_later_gradients(scale):
    optimizer = OneBitAdam(lr=1e-3, freeze_step=3, scale=scale)
    rng = np.random.default_rng(1)
    state = optimizer.init(floats(rng, 100), 4)
    for _ in range(3):
        state = optimizer.step(state, floats(rng, 4, 100))
    frozen_D = state.variance.copy()
    for size in (1e-3, 1e3):
        later = state
        for _ in range(10):
            later = optimizer.step(later, size * floats(rng, 4, 100).astype(np.float32))
            assert same(later.variance, frozen_D)
            assert later.frozen_at == 3


@workers
@scales
@pytest.mark.parametrize("dim", [9, 65, 1000])
def test_l5_one_magnitude_a_chunk(dim, n_workers, scale):
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1, scale=scale)
    for before, _, after in compressed_run(optimizer, n_workers, dim, steps=3):
        live_D = np.ones(dim, bool) if before.live is None else before.live
        for chunk in chunk_slices(dim, n_workers):
            assert len(set(np.abs(after.momentum[chunk][live_D[chunk]]))) <= 1
        assert not after.momentum[~live_D].any()


class OneWorker:
    """One of N workers as a program of its own: it sees its gradient and what others send it, nothing else."""

    def __init__(self, rank, n_workers, state, optimizer):
        self.rank, self.n, self.optimizer = rank, n_workers, optimizer
        self.x_D, self.m_D = state.params.copy(), state.momentum.copy()
        self.live_D = state.variance > 0
        self.precondition_D = 1 / (np.sqrt(state.variance) + np.float32(optimizer.eps))
        self.delta_D = state.worker_errors[rank].copy()
        self.chunks = chunk_slices(state.params.size, n_workers)
        self.server_delta_C = state.server_error[self.chunks[rank]].copy()

    def send(self, grad_D):
        u_D = (self.optimizer.beta1 * self.m_D + (1 - self.optimizer.beta1) * grad_D + self.delta_D) * self.live_D
        scale = scale_of(u_D, self.optimizer.scale, int(self.live_D.sum()))
        bits = pack_signs(u_D)
        self.delta_D = u_D - np.where(u_D >= 0, scale, -scale) * self.live_D
        return [(bits[c.start // 8 : -(-c.stop // 8)], scale) for c in self.chunks]

    def serve(self, received):
        chunk = self.chunks[self.rank]
        dim, live_C = chunk.stop - chunk.start, self.live_D[chunk]
        if dim == 0:
            return np.zeros(0, np.uint8), np.float32(0)
        w_C = np.zeros(dim, np.float32)
        for bits, scale in received:
            w_C = w_C + unpack_signs(bits, dim, scale) * live_C
        w_C = (w_C / np.float32(self.n) + self.server_delta_C) * live_C
        scale = scale_of(w_C, self.optimizer.scale, int(live_C.sum()))
        self.server_delta_C = w_C - np.where(w_C >= 0, scale, -scale) * live_C
        return pack_signs(w_C), scale

    def receive(self, served):
        parts = [unpack_signs(b, c.stop - c.start, s) for (b, s), c in zip(served, self.chunks, strict=True)]
        self.m_D = np.concatenate(parts).astype(np.float32) * self.live_D
        moved_D = self.x_D - np.float32(self.optimizer.lr) * (
            self.precondition_D * self.m_D + np.float32(self.optimizer.weight_decay) * self.x_D
        )
        self.x_D = np.where(self.live_D, moved_D, self.x_D)


@scales
@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (2, 65), (3, 100), (5, 63), (8, 33), (16, 129)])
def test_l6_replicas_that_only_exchange_messages_stay_equal(n_workers, dim, scale):
    """N separate workers with N separate replicas: bitwise equal to each other and to the simulation, every step."""
    optimizer = OneBitAdam(lr=1e-2, freeze_step=2, scale=scale, weight_decay=0.01)
    fleet = None
    for before, grads_ND, after in compressed_run(optimizer, n_workers, dim, steps=12, seed=3):
        fleet = fleet or [OneWorker(rank, n_workers, before, optimizer) for rank in range(n_workers)]
        sent = [worker.send(grad_D) for worker, grad_D in zip(fleet, grads_ND, strict=True)]
        served = [worker.serve([messages[worker.rank] for messages in sent]) for worker in fleet]
        for worker in fleet:
            worker.receive(served)
            assert same(worker.x_D, after.params)
            assert np.array_equal(worker.m_D, after.momentum)
            assert np.array_equal(worker.delta_D, after.worker_errors[worker.rank])
            assert np.array_equal(worker.server_delta_C, after.server_error[worker.chunks[worker.rank]])


@workers
@scales
@pytest.mark.parametrize("dim", [1, 65, 1000])
def test_l7_scaling_by_a_power_of_two_is_bitwise(dim, n_workers, scale):
    rng = np.random.default_rng([dim, n_workers])
    inputs = [floats(rng, n_workers, dim), floats(rng, n_workers, dim), floats(rng, dim)]
    one = compressed_allreduce(*inputs, scale=scale)
    for k in (-60, -1, 3, 60):
        two = compressed_allreduce(*(np.ldexp(array, k) for array in inputs), scale=scale)
        assert same(two.output_D, np.ldexp(one.output_D, k))
        assert same(two.worker_errors_ND, np.ldexp(one.worker_errors_ND, k))
        assert same(two.server_error_D, np.ldexp(one.server_error_D, k))


def test_l7_worker_permutation_on_dyadic_numbers_is_bitwise():
    """Small integers over 8, N = 4, d = 64, l1: every sum is exact, so the order of the workers can't show."""
    rng = np.random.default_rng(5)
    inputs = [rng.integers(-8, 9, shape).astype(np.float32) / 8 for shape in ((4, 64), (4, 64), (64,))]
    one = compressed_allreduce(*inputs, scale="l1")
    order = np.array([2, 0, 3, 1])
    two = compressed_allreduce(inputs[0][order], inputs[1][order], inputs[2], scale="l1")
    assert same(two.output_D, one.output_D)
    assert same(two.worker_errors_ND, one.worker_errors_ND[order])


@scales
@pytest.mark.parametrize("dim", [9, 1000])
def test_l8_strides_and_alignment_change_nothing(dim, scale):
    rng = np.random.default_rng(dim)
    buffers_ND, errors_ND, server_D = floats(rng, 3, dim), floats(rng, 3, dim), floats(rng, dim)
    one = compressed_allreduce(buffers_ND, errors_ND, server_D, scale=scale)
    strided_ND = np.zeros((3, 2 * dim), np.float32)[:, ::2]
    strided_ND[:] = buffers_ND
    raw = np.zeros(4 * dim + 1, np.uint8)
    unaligned_D = raw[1:].view(np.float32)
    unaligned_D[:] = server_D
    two = compressed_allreduce(strided_ND, np.asfortranarray(errors_ND), unaligned_D, scale=scale)
    assert same(one.output_D, two.output_D)
    assert same(one.worker_errors_ND, np.ascontiguousarray(two.worker_errors_ND))
    assert same(one.server_error_D, two.server_error_D)


@pytest.mark.parametrize("stop", [1, 3, 4, 9])
@pytest.mark.parametrize("freeze_step", [4, "auto", "paper"])
def test_l9_resume_is_bitwise_exact(stop, freeze_step):
    """Save and load before, at and after the freeze; a rule must also remember its norms of v."""
    arrays = {"one": 40, "other": 1} if freeze_step == "auto" else {}
    optimizer = OneBitAdam(lr=1e-2, freeze_step=freeze_step, beta2=0.7, arrays=arrays)
    rng = np.random.default_rng(6)
    state = resumed = optimizer.init(floats(rng, 41), 3)
    for t in range(12):
        grads_ND = floats(rng, 3, 41)
        if freeze_step == "auto":
            grads_ND[:] = np.sign(grads_ND[0])  # noise over three steps would never settle
        state, resumed = optimizer.step(state, grads_ND), optimizer.step(resumed, grads_ND)
        if t + 1 == stop:
            resumed = load(save(resumed))
        assert same_state(state, resumed)
    assert state.frozen_at is not None
