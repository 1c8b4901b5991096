"""The relatives of 1-bit Adam differ from it in exactly what their names say, and in nothing else: bitwise."""

from __future__ import annotations

import numpy as np
import pytest
from reference_support import floats, same, same_state

from reference import (
    OPTIMIZERS,
    Adam,
    DoubleSqueeze,
    FrozenAdam,
    NaiveAdam,
    OneBitAdam,
    OneBitAdamNoFeedback,
    OneBitAdamWorkerFeedback,
    compressed_allreduce,
    load,
    save,
)
from reference.compressors import RandomK

F32 = np.float32


def compressed_steps(optimizer, steps=6, n_workers=3, dim=29):
    """(before, gradients, after) of compressed steps; coordinate 5 is dead."""
    rng = np.random.default_rng(8)
    state = optimizer.init(floats(rng, dim), n_workers)
    for t in range(steps + 1):
        grads_ND = floats(rng, n_workers, dim)
        grads_ND[:, 5] = 1 if t > 3 else 0
        after = optimizer.step(state, grads_ND)
        if state.frozen_at is not None:
            yield state, grads_ND, after
        state = after


def momenta(state, grads_ND):
    return F32(0.9) * state.momentum + F32(1 - 0.9) * grads_ND


@pytest.mark.parametrize(
    ("cls", "keeps_worker_errors", "keeps_server_error"),
    [(OneBitAdam, True, True), (OneBitAdamWorkerFeedback, True, False), (OneBitAdamNoFeedback, False, False)],
)
def test_which_errors_are_kept(cls, keeps_worker_errors, keeps_server_error):
    for before, grads_ND, after in compressed_steps(cls(lr=1e-2, freeze_step=1)):
        reduced = compressed_allreduce(
            momenta(before, grads_ND), before.worker_errors, before.server_error, live_D=before.live
        )
        assert same(after.momentum, reduced.output_D)
        assert same(np.abs(after.worker_errors), np.abs(reduced.worker_errors_ND) * F32(keeps_worker_errors))
        assert same(np.abs(after.server_error), np.abs(reduced.server_error_D) * F32(keeps_server_error))
        assert after.worker_errors.any() == keeps_worker_errors
        assert after.server_error.any() == keeps_server_error


def test_frozen_adam_averages_in_full_precision_and_leaves_the_dead_alone():
    for before, grads_ND, after in compressed_steps(FrozenAdam(lr=1e-2, freeze_step=1)):
        mean_D = momenta(before, grads_ND).sum(axis=0) / 3
        mean_D[5] = 0
        assert same(after.momentum, mean_D)
        assert after.params[5] == before.params[5]
        assert not after.total_error.any()
        assert after.bytes_on_wire - before.bytes_on_wire == 2 * 2 * 4 * 29


def test_random_k_draws_anew_in_every_step_and_again_the_same_after_a_resume():
    optimizer = OneBitAdam(lr=1e-2, freeze_step=1, compressor=RandomK(density=0.2), seed=4)
    kept = [after.momentum != 0 for *_, after in compressed_steps(optimizer)]
    assert len({mask.tobytes() for mask in kept}) == len(kept)
    again = [after.momentum != 0 for *_, after in compressed_steps(optimizer)]
    assert [mask.tobytes() for mask in kept] == [mask.tobytes() for mask in again]
    before, grads_ND, after = list(compressed_steps(optimizer))[-1]
    assert same(optimizer.step(load(save(before)), grads_ND).params, after.params)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_leaves_its_gradients_and_its_state_alone(name):
    hyper = {"freeze_step": 1} if "freeze_step" in OPTIMIZERS[name].__dataclass_fields__ else {}
    optimizer, rng = OPTIMIZERS[name](lr=1e-2, **hyper), np.random.default_rng(2)
    state = optimizer.init(floats(rng, 29), 3)
    for _ in range(3):
        grads_ND = floats(rng, 3, 29)
        kept_ND, kept = grads_ND.copy(), load(save(state))
        after = optimizer.step(state, grads_ND)
        assert same(grads_ND, kept_ND)
        assert same_state(state, kept)
        assert not any(np.shares_memory(grads_ND, getattr(after, array)) for array in ("momentum", "worker_errors"))
        state = after


def test_overwriting_the_buffers_changes_no_result():
    rng = np.random.default_rng(3)
    inputs = [floats(rng, 3, 29), floats(rng, 3, 29), floats(rng, 29)]
    kept = [array.copy() for array in inputs]
    one = compressed_allreduce(*inputs)
    assert all(same(a, b) for a, b in zip(inputs, kept, strict=True))
    two = compressed_allreduce(*inputs, overwrite_buffers=True)
    assert two.worker_errors_ND is inputs[0]
    assert same(one.worker_errors_ND, two.worker_errors_ND)
    assert same(one.output_D, two.output_D)
    assert all(same(a, b) for a, b in zip(inputs[1:], kept[1:], strict=True))


def test_naive_adam_is_adam_on_the_compressed_gradient():
    optimizer, adam = NaiveAdam(lr=1e-2), Adam(lr=1e-2)
    rng = np.random.default_rng(9)
    state = optimizer.init(floats(rng, 29), 3)
    for _ in range(5):
        grads_ND = floats(rng, 3, 29)
        reduced = compressed_allreduce(grads_ND, state.worker_errors, state.server_error)
        expected = adam.adam_update(state, reduced.output_D)
        state = optimizer.step(state, grads_ND)
        for name in ("params", "momentum", "variance"):
            assert same(getattr(state, name), getattr(expected, name))
        assert same(state.worker_errors, reduced.worker_errors_ND)
        assert same(state.server_error, reduced.server_error_D)


def test_double_squeeze_steps_along_the_compressed_momentum():
    optimizer = DoubleSqueeze(lr=0.5, beta1=0.9)
    rng = np.random.default_rng(10)
    state = optimizer.init(floats(rng, 29), 3)
    for _ in range(5):
        grads_ND = floats(rng, 3, 29)
        reduced = compressed_allreduce(momenta(state, grads_ND), state.worker_errors, state.server_error)
        after = optimizer.step(state, grads_ND)
        assert same(after.params, state.params - F32(0.5) * reduced.output_D)
        assert same(after.server_error, reduced.server_error_D)
        assert same(after.worker_errors, reduced.worker_errors_ND)
        state = after
