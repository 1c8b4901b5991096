"""EF21, EF21-SGDM, signSGD with majority vote and DCT: laws, limits, bytes, rounds; each with a bug that is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from family_support import exact_steps, float_steps, learns, mean, resumes_exactly
from reference_support import floats, same

from reference import DCT, EF21, EF21SGDM, SGD, MomentumSGD, SignSGD
from reference.compressors import HardThreshold, Identity, TopK

RATE = Fraction(1, 8)
QUARTER = Fraction(1, 4)


# EF21


def targets(optimizer, before, grads_ND):
    """g_i, or the momentum m_i, which starts at the first gradient."""
    beta1 = getattr(optimizer, "beta1", 0)
    if not before.step:
        return grads_ND
    return beta1 * before.slots["momentum_ND"] + (1 - beta1) * grads_ND if beta1 else grads_ND


def is_ef21(optimizer, **kwargs):
    """h-bar is the mean of the h_i, each h_i moved by its message alone, and each comes closer to its target."""
    for before, grads_ND, after in exact_steps(optimizer, dim=20, **kwargs):
        target_ND = targets(optimizer, before, grads_ND)
        old_ND, new_ND = before.slots["estimate_ND"], after.slots["estimate_ND"]
        if not same(after.momentum, mean(new_ND)):
            return False
        said = [TopK(density=0.25).encode(u_D, 20, np.random.default_rng(0)).decode() for u_D in target_ND - old_ND]
        if not same(new_ND, old_ND + np.stack(said)):
            return False
        left_N, before_N = (((array_ND - target_ND) ** 2).sum(axis=1) for array_ND in (new_ND, old_ND))
        if not (left_N <= (1 - QUARTER) * before_N).all():
            return False
        if not same(after.params, before.params - optimizer.lr * mean(new_ND)):
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class ClassicFeedback(EF21):
    """Bug: the estimates are replaced, not moved."""

    def estimate_and_step(self, state, targets_ND):
        after = super().estimate_and_step(state, targets_ND)
        return after.with_slots(estimate_ND=after.slots["estimate_ND"] - state.slots["estimate_ND"])


@dataclass(frozen=True, kw_only=True)
class ServerForgets(EF21):
    """Bug: the server takes the mean message for the mean estimate."""

    def estimate_and_step(self, state, targets_ND):
        return super().estimate_and_step(replace(state, momentum=state.momentum * 0), targets_ND)


@pytest.mark.parametrize(
    "optimizer", [EF21(lr=RATE, density=QUARTER), EF21SGDM(lr=RATE, beta1=QUARTER, density=QUARTER)]
)
@pytest.mark.parametrize("n_workers", [1, 3])
def test_the_laws_of_ef21(optimizer, n_workers):
    assert is_ef21(optimizer, n_workers=n_workers)


@pytest.mark.parametrize("bug", [ClassicFeedback, ServerForgets])
def test_planted_bugs_break_the_laws_of_ef21(bug):
    assert not is_ef21(bug(lr=RATE, density=QUARTER))


def test_ef21_conserves_no_errors():
    """Error feedback would owe a pulse to the end; EF21 forgets what it has not said once the pulse is over."""
    optimizer = EF21(lr=1.0, density=0.5)
    state = optimizer.init(np.zeros(2), 1)
    for grad in ([8.0, 4.0], [0.0, 0.0], [0.0, 0.0]):
        state = optimizer.step(state, np.array([grad]))
    assert state.params.tolist() == [-8.0, 0.0], "the 4 was never said"
    assert not state.slots["estimate_ND"].any()


def test_ef21_without_compression_is_sgd():
    for (*_, a), (*_, b) in zip(
        exact_steps(EF21(lr=RATE, compressor=Identity(), weight_decay=QUARTER)),
        exact_steps(SGD(lr=RATE, weight_decay=QUARTER)), strict=True,
    ):  # fmt: skip
        assert same(a.params, b.params)


def test_ef21_sgdm_has_the_limits_ef21_and_momentum_sgd():
    """With beta1 = 0 it is EF21; without compression it is momentum SGD that starts at the first gradient."""
    plain = exact_steps(EF21SGDM(lr=RATE, beta1=0, density=QUARTER))
    for (*_, a), (*_, b) in zip(plain, exact_steps(EF21(lr=RATE, density=QUARTER)), strict=True):
        assert same(a.params, b.params)
        assert same(a.slots["estimate_ND"], b.slots["estimate_ND"])
    dense, peer = EF21SGDM(lr=RATE, beta1=QUARTER, compressor=Identity()), MomentumSGD(lr=RATE, beta1=QUARTER)
    for before, grads_ND, after in exact_steps(dense):
        if not before.step:
            assert same(after.momentum, mean(grads_ND))
        else:
            stepped = peer.step(replace(before, slots={}), grads_ND)
            assert same(after.momentum, stepped.momentum)
            assert same(after.params, stepped.params)


@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (4, 65)])
@pytest.mark.parametrize("cls", [EF21, EF21SGDM])
def test_bytes_and_rounds_of_ef21(cls, n_workers, dim):
    """Each worker sends k values and k indices to the N - 1 others, in one round a step."""
    kept = -(-dim // 10)
    for _, _, after in float_steps(cls(lr=0.01, density=0.1), n_workers=n_workers, dim=dim):
        assert after.bytes_on_wire == after.step * n_workers * (n_workers - 1) * 8 * kept
        assert after.rounds == after.step


# signSGD


def is_deaf(cls):
    """Scaling a worker changes nothing; nor does a minority against a unanimous rest."""
    rng = np.random.default_rng(0)
    optimizer = cls(lr=0.5, beta1=0.5)
    for _ in range(5):
        grads_ND = floats(rng, 5, 21)
        state = optimizer.init(floats(rng, 21), 5)
        louder_ND = grads_ND * np.array([[1.0], [8.0], [2.0**-9], [1.0], [4096.0]], np.float32)
        if not same(optimizer.step(state, grads_ND).params, optimizer.step(state, louder_ND).params):
            return False
        agreed_ND = np.tile(grads_ND[0], (5, 1))
        lied_ND = agreed_ND.copy()
        lied_ND[:2] *= -1000
        if not same(optimizer.step(state, agreed_ND).params, optimizer.step(state, lied_ND).params):
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class SignOfTheMean(SignSGD):
    """Bug: the sign of the mean gradient, in which the loudest worker decides."""

    def update(self, state, grads_ND):
        return super().update(state, np.tile(mean(grads_ND), (len(grads_ND), 1)))


def test_the_vote_is_deaf():
    assert is_deaf(SignSGD)
    assert not is_deaf(SignOfTheMean)


def test_the_vote_by_hand():
    """Ties and zeros are +1, so the tie and the zero step down."""
    optimizer = SignSGD(lr=0.5)
    state = optimizer.init(np.zeros(4), 2)
    state = optimizer.step(state, np.array([[3.0, -1.0, 1.0, 0.0], [1.0, -9.0, -5.0, 0.0]]))
    assert state.params.tolist() == [-0.5, 0.5, -0.5, -0.5]


def test_one_worker_steps_by_its_own_sign_and_signum_by_that_of_its_momentum():
    for before, grads_ND, after in exact_steps(SignSGD(lr=RATE), n_workers=1):
        signs_D = np.where(grads_ND[0] >= 0, 1, -1)
        assert same(after.params, before.params - RATE * signs_D)
    for before, grads_ND, after in exact_steps(SignSGD(lr=RATE, beta1=QUARTER), n_workers=3):
        m_ND = QUARTER * before.slots["momentum_ND"] + (1 - QUARTER) * grads_ND
        votes_D = np.where(m_ND >= 0, 1, -1).sum(axis=0)
        assert same(after.params, before.params - RATE * np.where(votes_D >= 0, 1, -1))


@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (3, 64), (4, 65)])
def test_bytes_and_rounds_of_the_vote(n_workers, dim):
    """A bit a number each way, and no scale."""
    chunk = 8 * -(-dim // (8 * n_workers))
    bytes_each_way = sum(-(-min(chunk, dim - start) // 8) for start in range(0, dim, chunk))
    for _, _, after in float_steps(SignSGD(lr=0.01), n_workers=n_workers, dim=dim):
        assert after.bytes_on_wire == after.step * 2 * (n_workers - 1) * bytes_each_way
        assert after.rounds == after.step


# DCT


def feeds_back(optimizer, **kwargs):
    """What was sent plus what is owed is the gradient plus what was owed: then x - gamma Delta steps as SGD does."""
    owed = 0
    for before, grads_ND, after in exact_steps(optimizer, **kwargs):
        virtual_D, stepped_D = (state.params - optimizer.lr * state.total_error for state in (before, after))
        if not same(stepped_D, virtual_D - optimizer.lr * mean(grads_ND)):
            return False
        owed += bool(after.total_error.any())
    return owed > 1


@dataclass(frozen=True, kw_only=True)
class NoFeedback(DCT):
    """Bug: what is below the threshold is dropped."""

    def update(self, state, grads_ND):
        return replace(super().update(state, grads_ND), worker_errors=state.worker_errors)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_what_dct_conserves(n_workers):
    assert feeds_back(DCT(lr=RATE, density=QUARTER, refresh_every=4), n_workers=n_workers)
    assert not feeds_back(NoFeedback(lr=RATE, density=QUARTER, refresh_every=4), n_workers=n_workers)


def test_dct_that_keeps_all_is_sgd_and_one_that_refreshes_always_is_top_k():
    sgd = exact_steps(SGD(lr=RATE, weight_decay=QUARTER))
    for (*_, a), (*_, b) in zip(
        exact_steps(DCT(lr=RATE, density=1, refresh_every=1, weight_decay=QUARTER)), sgd, strict=True
    ):
        assert same(a.params, b.params)
    for before, grads_ND, after in float_steps(DCT(lr=0.1, density=0.1, refresh_every=1)):
        u_ND = grads_ND + before.worker_errors
        said = [TopK(density=0.1).encode(u_D, 37, np.random.default_rng(0)).decode() for u_D in u_ND]
        assert same(after.worker_errors, u_ND - np.stack(said))


def test_the_threshold_stays_between_two_refreshes_and_bounds_the_errors():
    refreshed = {}
    for before, grads_ND, after in float_steps(DCT(lr=0.1, density=0.1, refresh_every=5), steps=17):
        kept_N = after.slots["threshold_N"]
        u_ND = grads_ND + before.worker_errors
        if not same(kept_N, before.slots["threshold_N"]):
            refreshed[after.step] = kept_N
            assert same(kept_N, np.sort(np.abs(u_ND), axis=1)[:, -4])
        assert (np.abs(after.worker_errors) < kept_N[:, None]).all()
    assert list(refreshed) == [1, 2, 4, 6, 11, 16]


@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (3, 65)])
def test_bytes_and_rounds_of_dct(n_workers, dim):
    """Eight bytes to N - 1 others for each coordinate at the threshold: k of them in a step of refresh."""
    optimizer = DCT(lr=0.1, density=0.1, refresh_every=4)
    for before, grads_ND, after in float_steps(optimizer, n_workers=n_workers, dim=dim):
        u_ND = grads_ND + before.worker_errors
        kept = int((np.abs(u_ND) >= after.slots["threshold_N"][:, None]).sum())
        assert after.bytes_on_wire - before.bytes_on_wire == (n_workers - 1) * 8 * kept
        assert after.rounds == after.step
        if after.step in {1, 2, 5, 9}:
            assert kept == n_workers * -(-dim // 10)


def test_a_hard_threshold_keeps_the_edge_and_no_zero():
    u_D = np.array([-2.0, 1.0, 0.5, 0.0, -1.0])
    assert HardThreshold(1.0).encode(u_D, 5, np.random.default_rng(0)).decode().tolist() == [-2, 1, 0, 0, -1]
    assert HardThreshold(0.0).encode(u_D, 5, np.random.default_rng(0)).nbytes == 4 * 8


# All of them

EACH = [
    EF21(lr=0.3, density=0.1), EF21SGDM(lr=0.3, density=0.1), SignSGD(lr=3e-3), SignSGD(lr=3e-3, beta1=0.9),
    DCT(lr=0.3, density=0.05, refresh_every=20),
]  # fmt: skip
each = pytest.mark.parametrize("optimizer", EACH, ids=["ef21", "ef21_sgdm", "sign_sgd", "signum", "dct"])


@each
def test_a_resumed_run_goes_on_bit_for_bit(optimizer):
    assert resumes_exactly(optimizer)


@each
def test_it_learns_and_does_so_again(optimizer):
    """signSGD alone hardly does: most gradients of these digits are 0 in many coordinates, and 0 is sent as +1."""
    assert learns(optimizer, to=0.9 if optimizer == SignSGD(lr=3e-3) else 0.5)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EF21(lr=1.0, density=0), "density must be a finite number > 0, got 0"),
        (lambda: SignSGD(lr=1.0, beta1=1.0), r"beta1 must lie in \[0, 1\), got 1.0"),
        (lambda: DCT(lr=1.0, refresh_every=0), "refresh_every must be an integer >= 1, got 0"),
        (lambda: DCT(lr=1.0, compressor=TopK()), r"compressor must be None, for DCT has its threshold, got TopK"),
    ],
)
def test_bad_settings(make, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        make()
