"""Local Adam, DiLoCo and SparseLoCo: laws at a meeting, limits, bytes and rounds; each with a bug that is caught.

With beta2 = 0, v is the square of the last gradient, so its root is rational and every law is checked with ``==``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from family_support import exact_steps, float_steps, learns, mean, resumes_exactly
from reference_support import floats, fractions, same

from reference import Adam, DiLoCo, LocalAdam, SparseLoCo
from reference.allreduce import dense_allreduce_bytes
from reference.compressors import ChunkedTopK, Identity
from reference.optimizers.adam import preconditioner

EXACT = {
    "lr": Fraction(1, 16), "beta1": Fraction(3, 4), "beta2": 0, "eps": Fraction(1, 32), "bias_correction": False,
    "weight_decay": Fraction(1, 8), "sync_every": 3,
}  # fmt: skip
SMALL = {"chunk_size": 8, "kept": 2}


def walks(optimizer, before, grads_ND):
    """x - x_i at the end of a step, before a meeting, by its definition."""
    m_ND = optimizer.beta1 * before.slots["momentum_ND"] + (1 - optimizer.beta1) * grads_ND
    x_ND = optimizer.local_params(before)
    v_ND = optimizer.beta2 * before.slots["variance_ND"] + (1 - optimizer.beta2) * grads_ND**2
    step_ND = preconditioner(v_ND, optimizer.eps) * m_ND + optimizer.weight_decay * x_ND
    return before.slots["walked_ND"] + optimizer.lr * step_ND


def meets_at_the_mean(optimizer, **kwargs):
    """A meeting changes no mean over the workers, of parameters, momenta or variances."""
    for before, grads_ND, after in exact_steps(optimizer, **kwargs):
        alone_ND = walks(optimizer, before, grads_ND)
        if after.step % optimizer.sync_every:
            if not (same(after.slots["walked_ND"], alone_ND) and same(after.params, before.params)):
                return False
            continue
        if not same(mean(optimizer.local_params(after)), before.params - mean(alone_ND)):
            return False
        if not same(after.params, before.params - mean(alone_ND)) or after.slots["walked_ND"].any():
            return False
        m_ND = optimizer.beta1 * before.slots["momentum_ND"] + (1 - optimizer.beta1) * grads_ND
        kept = [(mean(after.slots["momentum_ND"]), mean(m_ND))]
        if optimizer.average_moments:
            kept += [(after.momentum, mean(m_ND)), (after.variance, mean(grads_ND**2))]
        if not all(same(now_D, then_D) for now_D, then_D in kept):
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class FirstWorkerAlone(LocalAdam):
    """Bug: the first worker's momentum is taken for the mean."""

    def with_mean_moments(self, state):
        return state.with_slots(momentum_ND=np.tile(state.slots["momentum_ND"][0], (state.n_workers, 1)))


@dataclass(frozen=True, kw_only=True)
class Overwrites(LocalAdam):
    """Bug: the walk of the round before is not forgotten at a meeting."""

    def update(self, state, grads_ND):
        after = super().update(state, grads_ND)
        return after if (state.step + 1) % self.sync_every else after.with_slots(walked_ND=state.slots["walked_ND"])


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("average_moments", [True, False])
def test_a_meeting_changes_no_mean(n_workers, average_moments):
    assert meets_at_the_mean(LocalAdam(**EXACT, average_moments=average_moments), n_workers=n_workers)


@pytest.mark.parametrize("bug", [FirstWorkerAlone, Overwrites])
def test_planted_bugs_break_the_mean(bug):
    assert not meets_at_the_mean(bug(**EXACT))


@pytest.mark.parametrize("sync_every", [1, 3])
def test_one_worker_is_adam_bit_for_bit(sync_every):
    """x - (sum of steps) is rounded otherwise than step after step, so an interval of 1 in floats, and 3 exactly."""
    exact = sync_every > 1
    shared = {k: EXACT[k] for k in EXACT if k != "sync_every"} if exact else {"lr": 0.01, "weight_decay": 0.1}
    runs = exact_steps if exact else float_steps
    local, adam = LocalAdam(**shared, sync_every=sync_every), Adam(**shared)
    for (*_, a), (*_, b) in zip(runs(local, n_workers=1), runs(adam, n_workers=1), strict=True):
        assert same(mean(local.local_params(a)), b.params)
        assert same(mean(a.slots["variance_ND"]), b.variance)


@pytest.mark.parametrize("n_workers", [2, 4])
def test_equal_gradients_are_adam_bit_for_bit(n_workers):
    """And different ones are not: v_i averages squares."""
    local, adam = LocalAdam(lr=0.01, sync_every=1), Adam(lr=0.01)
    rng = np.random.default_rng(0)
    x_D = floats(rng, 9)
    a, b = local.init(x_D, n_workers), adam.init(x_D, n_workers)
    for _ in range(5):
        grads_ND = np.tile(floats(rng, 9), (n_workers, 1))
        a, b = local.step(a, grads_ND), adam.step(b, grads_ND)
        assert same(a.params, b.params)
    grads_ND = floats(rng, n_workers, 9)
    assert not same(local.step(a, grads_ND).params, adam.step(b, grads_ND).params)


@pytest.mark.parametrize("sync_every", [1, 3])
def test_diloco_with_plain_outer_sgd_of_rate_1_is_local_adam(sync_every):
    shared = EXACT | {"sync_every": sync_every}
    outer = {"outer_lr": 1, "outer_momentum": 0}
    local = [after for *_, after in exact_steps(LocalAdam(**shared, average_moments=False))]
    diloco = [after for *_, after in exact_steps(DiLoCo(**shared, **outer))]
    for a, b in zip(local, diloco, strict=True):
        assert same(a.params, b.params)
        assert same(a.slots["walked_ND"], b.slots["walked_ND"])
        assert (a.bytes_on_wire, a.rounds) == (b.bytes_on_wire, b.rounds)
    one = float_steps(DiLoCo(lr=0.01, sync_every=1, **outer), n_workers=1)
    for (*_, a), (*_, b) in zip(one, float_steps(Adam(lr=0.01), n_workers=1), strict=True):
        assert same(a.params, b.params)


def outer_is_torch_sgd(cls):
    """The outer step is torch.optim.SGD with Nesterov momentum on d: dyadic numbers, so equal to the last bit."""
    optimizer = cls(**(EXACT | {"sync_every": 2}), outer_lr=Fraction(1, 2), outer_momentum=Fraction(3, 4))
    rng = np.random.default_rng(3)
    state = optimizer.init(fractions(rng, 6), 2)
    x = torch.nn.Parameter(torch.tensor(state.params.astype(float), dtype=torch.float64))
    peer = torch.optim.SGD([x], lr=0.5, momentum=0.75, nesterov=True)
    for _ in range(6):
        walked_ND = fractions(rng, 2, 6)
        state = optimizer.outer_step(state.with_slots(walked_ND=walked_ND))
        x.grad = torch.tensor(mean(walked_ND).astype(float))
        peer.step()
        if x.detach().tolist() != state.params.astype(float).tolist():
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class HeavyBall(DiLoCo):
    """Bug: the momentum without Nesterov's look ahead."""

    def outer_step(self, state):
        after = super().outer_step(state)
        return replace(after, params=state.params - self.outer_lr * after.slots["outer_momentum_D"])


def test_the_outer_step_of_diloco():
    assert outer_is_torch_sgd(DiLoCo)
    assert not outer_is_torch_sgd(HeavyBall)


def conserves(optimizer, **kwargs):
    """What a meeting of SparseLoCo does not send waits in e_i, less the share 1 - beta of what waited before."""
    residual = 0
    for before, grads_ND, after in exact_steps(optimizer, **kwargs):
        if after.step % optimizer.sync_every:
            continue
        asked_D = optimizer.error_decay * mean(before.worker_errors) + mean(walks(optimizer, before, grads_ND))
        left_D = after.params - optimizer.outer_lr * mean(after.worker_errors)
        if not same(left_D, before.params - optimizer.outer_lr * asked_D):
            return False
        residual += bool(after.worker_errors.any())
    return residual > 1


@dataclass(frozen=True, kw_only=True)
class DropsTheRest(SparseLoCo):
    """Bug: what is not sent is forgotten."""

    def outer_step(self, state):
        after = super().outer_step(state)
        return replace(after, worker_errors=after.worker_errors / 2)


@pytest.mark.parametrize("error_decay", [1, Fraction(3, 4)])
@pytest.mark.parametrize("n_workers", [1, 3])
def test_what_sparse_loco_conserves(n_workers, error_decay):
    shared = EXACT | SMALL | {"outer_lr": Fraction(1, 2), "error_decay": error_decay}
    assert conserves(SparseLoCo(**shared), n_workers=n_workers, dim=29)
    assert not conserves(DropsTheRest(**shared), n_workers=n_workers, dim=29)


def test_sparse_loco_without_compression_is_local_adam():
    local = exact_steps(LocalAdam(**EXACT, average_moments=False))
    sparse = exact_steps(SparseLoCo(**EXACT, compressor=Identity()))
    for (*_, a), (*_, b) in zip(local, sparse, strict=True):
        assert same(a.params, b.params)
        assert not b.worker_errors.any()


@pytest.mark.parametrize("dim", [1, 8, 9, 37, 4097])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_message_of_sparse_loco(dim, dtype):
    """The largest of each chunk, their signs and one of two magnitudes; less error than zeros in their place."""
    u_D = floats(np.random.default_rng(dim), dim, dtype=dtype)
    message = ChunkedTopK(**SMALL).encode(u_D, dim, np.random.default_rng(0))
    decoded_D = message.decode()
    assert decoded_D.dtype == dtype
    kept = 0
    for start in range(0, dim, 8):
        part, said = u_D[start : start + 8], decoded_D[start : start + 8]
        largest = np.sort(np.argsort(np.abs(part), kind="stable")[-2:])
        assert np.flatnonzero(said).tolist() == largest.tolist()
        assert (np.sign(said[largest]) == np.sign(part[largest])).all()
        assert len(set(np.abs(said[largest]).tolist())) <= 2
        assert np.sum((part - said) ** 2) < np.sum(part**2)
        kept += len(largest)
    assert message.nbytes == -(-3 * kept // 8) + -(-2 * kept // 8) + 8 * -(-dim // 8)
    for part in (slice(0, dim // 2 // 8 * 8), slice(dim // 2 // 8 * 8, dim)):
        assert same(message.chunk(part).decode(), decoded_D[part])


def test_the_message_of_equal_numbers_and_of_zeros():
    for u_D in (np.full(9, 0.1, np.float32), np.zeros(9, np.float32), np.full(9, Fraction(-1, 3))):
        message = ChunkedTopK(chunk_size=9, kept=7).encode(u_D, 9, np.random.default_rng(0))
        decoded_D = message.decode()
        assert same(decoded_D[2:], u_D[2:])
        assert (decoded_D[:2] == 0).all()
        assert same(message.magnitudes_C2[0], np.array([u_D[0] * 0, abs(u_D[0])])), "equal numbers are the large group"


def test_two_magnitudes_by_hand():
    """Kept are 9, -5, 4, 2 with the mean 5: 9 and 5 become 7, 4 and 2 become 3."""
    u_D = np.array([Fraction(k) for k in (9, -5, 1, 4, 2)])
    decoded_D = ChunkedTopK(chunk_size=5, kept=4).encode(u_D, 5, np.random.default_rng(0)).decode()
    assert decoded_D.tolist() == [7, -7, 0, 3, 3]


@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (2, 8), (4, 65)])
@pytest.mark.parametrize("cls", [LocalAdam, DiLoCo, SparseLoCo])
def test_bytes_and_rounds(cls, n_workers, dim):
    """One round a meeting: the parameters, three times that with moments, or 5 bits a number kept and two scales."""
    optimizer = cls(lr=0.01, sync_every=3, **(SMALL if cls is SparseLoCo else {}))
    kept = sum(min(2, dim - start) for start in range(0, dim, 8))
    sparse = n_workers * (n_workers - 1) * (-(-3 * kept // 8) + -(-2 * kept // 8) + 8 * -(-dim // 8))
    dense = dense_allreduce_bytes(dim, n_workers)
    a_meeting = {LocalAdam: 3 * dense, DiLoCo: dense, SparseLoCo: sparse}[cls]
    for _, _, after in float_steps(optimizer, n_workers=n_workers, dim=dim):
        assert after.rounds == after.step // 3
        assert after.bytes_on_wire == after.step // 3 * a_meeting


@pytest.mark.parametrize("cls", [LocalAdam, DiLoCo, SparseLoCo])
def test_a_resumed_run_goes_on_bit_for_bit(cls):
    assert resumes_exactly(cls(lr=0.01, sync_every=3))


@pytest.mark.parametrize(
    "optimizer",
    [
        LocalAdam(lr=3e-3, sync_every=5),
        DiLoCo(lr=3e-3, sync_every=5),
        SparseLoCo(lr=3e-3, sync_every=5, chunk_size=64, kept=8),
    ],
    ids=["local_adam", "diloco", "sparse_loco"],
)
def test_it_learns_and_does_so_again(optimizer):
    assert learns(optimizer)


@pytest.mark.parametrize(
    ("cls", "change", "says"),
    [
        (LocalAdam, {"sync_every": 0}, "sync_every must be an integer >= 1, got 0"),
        (LocalAdam, {"average_moments": 1}, "average_moments must be true or false, got 1"),
        (DiLoCo, {"outer_lr": 0}, "outer_lr must be a finite number > 0, got 0"),
        (DiLoCo, {"outer_momentum": 1}, r"outer_momentum must lie in \[0, 1\), got 1"),
        (SparseLoCo, {"error_decay": 1.5}, r"error_decay must lie in \(0, 1\], got 1.5"),
        (SparseLoCo, {"kept": 0}, "kept must be an integer >= 1, got 0"),
    ],
)
def test_bad_settings(cls, change, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        cls(**({"lr": 1.0} | change))
