"""Conventions C1 to C11 of the reference, each by an example whose answer is worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from reference_support import floats, same, same_state

from reference import Adam, DoubleSqueeze, FrozenAdam, NaiveAdam, OneBitAdam, compressed_allreduce, resize
from reference.allreduce import chunk_slices
from reference.bits import pack_signs, unpack_signs
from reference.compressors.scaled_sign import scale_of
from reference.optimizers.base import clip
from theory import rounding

F32 = np.float32


def test_c1_scale():
    u_D = np.array([3, -4, 0, 0], F32)
    assert scale_of(u_D, "l2", 4) == 2.5
    assert scale_of(u_D, "l1", 4) == 1.75
    assert scale_of(u_D, "l1", 2) == 3.5, "d counts live coordinates only"
    assert scale_of(u_D, "l2", 0) == 0


@pytest.mark.parametrize("magnitude", [1e-45, 1e-30, 1e30, 3e38])
@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_c1_scale_of_extreme_magnitudes(magnitude, scale):
    """In float32 the squares of 1e30 would overflow and those of 1e-30 vanish."""
    u_D = np.full(100, magnitude, F32)
    assert scale_of(u_D, scale, 100) == u_D[0]


@pytest.mark.parametrize("scale", ["l1", "l2"])
@pytest.mark.parametrize("dim", [1, 8, 1000, 100_003])
def test_c1_scale_is_within_its_derived_tolerance(scale, dim):
    rng = np.random.default_rng(dim)
    u_D = floats(rng, dim) * np.exp(floats(rng, dim) * 5).astype(F32)
    exact = np.abs(u_D.astype(np.longdouble))
    exact = exact.mean() if scale == "l1" else np.sqrt((exact**2).mean())
    tolerance = rounding.scale_tolerance(u_D, scale, "float32", accumulator="float64")
    assert abs(scale_of(u_D, scale, dim) - exact) <= tolerance


def test_c2_both_zeros_are_plus_one_and_the_error_uses_the_sign_that_is_sent():
    u_D = np.array([0.0, -0.0, 1.0, -1.0], F32)
    assert pack_signs(u_D)[0] == 0b0111
    reduced = compressed_allreduce(u_D[None], 0 * u_D[None], 0 * u_D, scale="l1")
    assert same(reduced.worker_errors_ND[0], np.array([-0.5, -0.5, 0.5, -0.5], F32))


@pytest.mark.parametrize(
    ("dim", "n_chunks", "stops"),
    [
        (1, 1, [1]),
        (1, 3, [1, 1, 1]),
        (7, 2, [7, 7]),
        (8, 2, [8, 8]),
        (9, 2, [8, 9]),
        (65, 3, [24, 48, 65]),
        (63, 16, [8, 16, 24, 32, 40, 48, 56, *[63] * 9]),
    ],
)
def test_c3_chunks(dim, n_chunks, stops):
    chunks = chunk_slices(dim, n_chunks)
    assert [c.stop for c in chunks] == stops
    assert [c.start for c in chunks] == [0, *stops[:-1]]
    assert all(c.start % 8 == 0 or c.start == c.stop for c in chunks)


def test_c3_each_chunk_has_a_scale_of_its_own_and_one_chunk_is_algorithm_1():
    u_D = np.repeat(np.array([1, 3], F32), 8)
    buffers_ND = np.stack([u_D, u_D])
    zero_ND, zero_D = 0 * buffers_ND, 0 * u_D
    # Worker scale 2 everywhere; the average is 2 everywhere. Only a server error makes the chunks differ.
    server_D = np.repeat(np.array([0, 4], F32), 8)
    two = compressed_allreduce(buffers_ND, zero_ND, server_D, scale="l1")
    assert set(two.output_D[:8]) == {2.0}
    assert set(two.output_D[8:]) == {6.0}
    one = compressed_allreduce(buffers_ND, zero_ND, server_D, scale="l1", server_chunks=1)
    assert set(one.output_D) == {4.0}
    assert same(two.output_D + two.server_error_D, one.output_D + one.server_error_D)
    assert not compressed_allreduce(zero_ND, zero_ND, zero_D).output_D.any()


@pytest.mark.parametrize(("server_chunks", "magnitudes"), [(1, 1), (2, 2), (None, 4)])
@pytest.mark.parametrize("make", [partial(OneBitAdam, freeze_step=1), partial(DoubleSqueeze, beta1=0.9), NaiveAdam])
def test_c3_optimizers_pass_the_number_of_chunks_on(make, server_chunks, magnitudes):
    optimizer = make(lr=1e-3, server_chunks=server_chunks)
    rng = np.random.default_rng(0)
    state = optimizer.init(floats(rng, 64), 4)
    if make is not NaiveAdam:  # naive Adam shows one message alone in v; the others show the last one in m-bar
        state = optimizer.step(state, floats(rng, 4, 64))
    state = optimizer.step(state, floats(rng, 4, 64))
    shown_D = state.variance if make is NaiveAdam else state.momentum
    assert len(set(np.abs(shown_D))) == magnitudes


@pytest.mark.parametrize("dim", [*range(1, 34), 64, 1000, 4099])
def test_c4_bits(dim):
    """Bit k of byte b is element 8b + k; both ways of decoding (small and large) agree; unused bits are 0."""
    u_D = floats(np.random.default_rng(dim), dim)
    bits_B = pack_signs(u_D)
    assert len(bits_B) == -(-dim // 8)
    for d in {0, dim // 2, dim - 1}:
        assert (bits_B[d // 8] >> (d % 8)) & 1 == (u_D[d] >= 0)
    assert same(unpack_signs(bits_B, dim, F32(0.5)), np.where(u_D >= 0, F32(0.5), F32(-0.5)))
    assert int(bits_B[-1]) >> (dim % 8 or 8) == 0


def test_c5_bias_correction_by_hand():
    """g = 1, 1, ... on one coordinate and one worker: m-bar is 1 - beta1^t, corrected 1; v corrected stays 1."""
    optimizer = OneBitAdam(
        lr=Fraction(1, 4), beta1=Fraction(1, 2), beta2=Fraction(3, 4), eps=Fraction(0), freeze_step=2, scale="l1",
        bias_correction=True, variance_floor=0,
    )  # fmt: skip
    one = np.array([[Fraction(1)]], dtype=object)
    state = optimizer.init(np.array([Fraction(0)], dtype=object), 1)
    for t in range(1, 7):
        state = optimizer.step(state, one)
        assert state.momentum[0] == 1 - Fraction(1, 2) ** t, "the correction never enters the state"
        assert state.params[0] == -Fraction(t, 4)
        assert state.variance[0] == 1 - Fraction(3, 4) ** min(t, 2)


def test_c6_dead_coordinates_are_left_out_and_reported():
    optimizer = OneBitAdam(lr=0.1, beta1=0.5, freeze_step=1, scale="l1", weight_decay=0.5, variance_floor=0.0)
    state = optimizer.init(np.array([1, 1, 1, 1], F32), 2)
    grads_ND = np.array([[1, 0, -1, 0], [1, 0, -3, 0]], F32)
    state = optimizer.step(state, grads_ND)
    assert state.live is not None
    assert state.live.tolist() == [True, False, True, False]
    before = state
    state = optimizer.step(state, np.array([[1, 5, -1, 0], [1, 0, -1, 0]], F32))
    dead = [1, 3]
    assert state.ignored_gradients == 1
    assert same(state.params[dead], before.params[dead]), "no update, and no weight decay either"
    for part in (state.momentum, state.worker_errors, state.server_error, state.variance):
        assert not part[..., dead].any()
    # m-bar is (.5, -1) after step 1; u = 0.5 m-bar + 0.5 g = (.75, -1); the scale counts the two live coordinates.
    assert state.momentum.tolist() == [0.875, 0, -0.875, 0]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_c6_where_v_has_overflowed_a_coordinate_is_not_dead_and_stops_no_other(floor):
    """The floor became infinite and stopped all. As in Adam, P is 0 there: no gradient moves it, weight decay does."""
    optimizer = OneBitAdam(lr=0.125, beta1=0.5, freeze_step=1, scale="l1", weight_decay=0.5, variance_floor=floor)
    state = optimizer.init(np.array([1, 1, 1], F32), 2)
    state = optimizer.step(state, np.array([[1, 1e21, -1]] * 2, F32))
    assert np.isinf(state.variance).tolist() == [False, True, False]
    before, state = state, optimizer.step(state, np.array([[1, 1, -1]] * 2, F32))
    assert state.params[1] == before.params[1] * F32(1 - 0.125 * 0.5)
    assert state.momentum.tolist() == [0.75, 0, -0.75], "the scale is that of the others"
    assert (np.abs(state.params - before.params)[[0, 2]] > 0.125).all()
    for part in (state.worker_errors, state.server_error):
        assert not part[..., 1].any()


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("frozen_dtype", ["float32", "bfloat16"])
def test_c12_where_v_has_overflowed_only_weight_decay_moves_a_coordinate_in_the_update_form_too(frozen_dtype):
    """P = 0 there: P g and y-bar are 0, nothing is divided by P, and the scale is that of the others."""
    form = {"compress": "update", "frozen_dtype": frozen_dtype}
    optimizer = OneBitAdam(lr=0.125, beta1=0.5, freeze_step=1, weight_decay=0.5, variance_floor=0.0, **form)
    state = optimizer.init(np.array([1, 1, 1], F32), 2)
    state = optimizer.step(state, np.array([[1, 1e21, -1]] * 2, F32))
    assert state.momentum[1] == 0
    before, state = state, optimizer.step(state, np.array([[1, 1e18, -1]] * 2, F32))
    assert state.params[1] == before.params[1] * F32(1 - 0.125 * 0.5)
    assert state.momentum[1] == 0
    assert (np.abs(state.momentum[[0, 2]]) > 1).all()
    for part in (state.params, state.momentum, state.worker_errors, state.server_error):
        assert np.isfinite(part).all()
    for part in (state.worker_errors, state.server_error):
        assert not part[..., 1].any()


def test_c6_without_the_mask_a_dead_coordinate_would_jump():
    """The reason for C6: P = 1/eps = 1e8 there. The reference must not move such a coordinate by gamma S / eps."""
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1)
    state = optimizer.step(optimizer.init(np.zeros(2, F32), 1), np.array([[1, 0]], F32))
    for _ in range(3):
        state = optimizer.step(state, np.array([[1, 0]], F32))
    assert state.params[1] == 0
    assert state.params[0] != 0


def test_c6_a_variance_that_underflows_is_dead_and_its_momentum_goes():
    """g = 1e-25: g^2 is 0 in float32, while m = 1e-26 is not. v = 0 decides, and m-bar must not keep moving it."""
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1)
    state = optimizer.step(optimizer.init(np.zeros(2, F32), 1), np.array([[1, 1e-25]], F32))
    assert state.live is not None
    assert state.live.tolist() == [True, False]
    assert state.momentum[1] == 0
    assert optimizer.step(state, np.array([[1, 1e-25]], F32)).params[1] == state.params[1]


def test_c6_everything_dead():
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1, weight_decay=0.1)
    state = optimizer.init(np.ones(5, F32), 2)
    for _ in range(3):
        state = optimizer.step(state, np.zeros((2, 5), F32))
    state = optimizer.step(state, np.ones((2, 5), F32))
    assert state.ignored_gradients == 5
    assert np.isfinite(state.params).all()
    assert not state.momentum.any()


@pytest.mark.parametrize("cls", [OneBitAdam, FrozenAdam])
def test_c7_variance_floor(cls):
    optimizer = cls(lr=1e-3, freeze_step=1, beta2=0.0, variance_floor=0.25)
    state = optimizer.step(optimizer.init(np.zeros(4, F32), 1), np.array([[2, 0, 0.5, 4]], F32))
    mean_live = (4 + 0.25 + 16) / 3
    assert same(state.variance, np.array([4, 0, 0.25 * mean_live, 16], F32))


def test_c7_no_floor_is_the_published_algorithm():
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1, beta2=0.0, variance_floor=0.0)
    state = optimizer.step(optimizer.init(np.zeros(3, F32), 1), np.array([[2, 1e-10, 1]], F32))
    assert same(state.variance, np.array([4, F32(1e-10) ** 2, 1], F32))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("phase", ["warm-up", "compression"])
@pytest.mark.parametrize("cls", [Adam, NaiveAdam, OneBitAdam])
def test_c8_a_non_finite_gradient_skips_the_step(cls, phase, bad):
    optimizer = cls(lr=1e-2, **({"freeze_step": 2} if cls is OneBitAdam else {}))
    rng = np.random.default_rng(0)
    state = optimizer.init(floats(rng, 20), 3)
    for _ in range(1 if phase == "warm-up" else 4):
        state = optimizer.step(state, floats(rng, 3, 20))
    grads_ND = floats(rng, 3, 20)
    grads_ND[2, 7] = bad
    after = optimizer.step(state, grads_ND)
    assert after.skipped_steps == 1
    assert after.step == state.step, "a skipped step does not count"
    assert same_state(replace(after, skipped_steps=0), state)


def test_c9_one_factor_for_all_workers():
    grads_ND = np.array([[3, 4], [0, 0]], F32)  # norms 5 and 0, root mean square 5/sqrt(2)
    factor = 1 / np.sqrt(12.5)
    assert same(clip(grads_ND, 1.0), grads_ND * float(factor))
    assert clip(grads_ND, 5.0) is grads_ND
    mean_norm = np.linalg.norm(clip(grads_ND, 1.0).mean(axis=0))
    assert mean_norm <= 1.0


def test_c9_clipping_is_part_of_the_step():
    clipped, plain = Adam(lr=0.1, max_grad_norm=1.0), Adam(lr=0.1)
    grads_ND = np.array([[3, 4], [3, 4]], F32)
    x_D = np.zeros(2, F32)
    a = clipped.step(clipped.init(x_D, 2), grads_ND)
    b = plain.step(plain.init(x_D, 2), clip(grads_ND, 1.0))
    assert same_state(a, b)
    assert a.variance.sum() < 1e-2


def test_c10_published_rule():
    """beta2 = 0.9: Delta = 10. A gradient that shrinks keeps the ratio below 0.96; once it is steady, v settles.

    Not before step 30: while v grows from zero, any gradient meets the rule at its first chance.
    """
    optimizer = OneBitAdam(lr=1e-3, freeze_step="paper", beta2=0.9, lr_warmup_steps=30)
    state, norms, frozen = optimizer.init(np.zeros(4, F32), 2), [], None
    for t in range(1, 200):
        size = max(0.93**t, 0.02)
        state = optimizer.step(state, np.full((2, 4), size, F32))
        norms.append(float(np.abs(state.variance.astype(np.float64)).sum()))
        due = t >= 30 and norms[-1] / norms[-11] >= 0.96
        if due:
            frozen = t
            break
        assert state.frozen_at is None
    assert state.frozen_at == frozen
    assert frozen is not None
    assert frozen > 30, "the example must pass the first possible step without freezing"


@pytest.mark.parametrize("rule", ["auto", "paper"])
def test_c10_not_before_the_learning_rate_warm_up_ends(rule):
    optimizer = OneBitAdam(lr=1e-3, freeze_step=rule, beta2=0.5, lr_warmup_steps=25)
    state = optimizer.init(np.zeros(4, F32), 1)
    for _ in range(30):
        state = optimizer.step(state, np.ones((1, 4), F32))
    assert state.frozen_at == 25


def test_c11_resize_by_hand():
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1)
    state = optimizer.init(np.zeros(4, F32), 2)
    state = replace(state, worker_errors=np.array([[1, 2, 3, 4], [3, 2, 1, 0]], F32), server_error=np.ones(4, F32))
    resized = resize(state, 3)
    assert same(resized.worker_errors, np.full((3, 4), 2, F32))
    assert same(resized.server_error, state.server_error)
    assert same(resized.total_error, state.total_error)
    large = np.full((2, 4), 2e38, F32)  # their sum is not a float32
    assert same(resize(replace(state, worker_errors=large), 1).worker_errors, large[:1])


@pytest.mark.parametrize("n_workers", [1, 2, 3, 8])
@pytest.mark.parametrize("dim", [1, 9, 64, 1000])
def test_wire_bytes(n_workers, dim):
    """Every byte that leaves a worker: bits of the chunks it does not serve and a scale each, then its own chunk."""
    rng = np.random.default_rng(0)
    reduced = compressed_allreduce(floats(rng, n_workers, dim), floats(rng, n_workers, dim), floats(rng, dim))
    lengths = [c.stop - c.start for c in chunk_slices(dim, n_workers)]
    message = [-(-length // 8) + 4 if length else 0 for length in lengths]
    expected = [sum(message) - message[i] + (n_workers - 1) * message[i] for i in range(n_workers)]
    assert reduced.bytes_per_worker.tolist() == expected
    if dim == 1000:
        floor = 2 * (n_workers - 1) / n_workers * dim / 8
        assert floor <= max(expected) <= floor * 1.03 + 8 * (n_workers - 1)
