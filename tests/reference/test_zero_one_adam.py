"""0/1 Adam: its conservation law, its policies, its limits, its bytes and rounds; each with a bug that is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from family_support import exact_steps, float_steps, learns, mean, resumes_exactly
from reference_support import same

from reference import Adam, FrozenAdam, ZeroOneAdam, resize
from reference.allreduce import compressed_allreduce, dense_allreduce_bytes
from reference.compressors import Identity
from reference.optimizers.adam import preconditioner
from theory.rounding import gamma

EXACT = {
    "lr": Fraction(1, 16), "beta1": Fraction(3, 4), "beta2": Fraction(3, 4), "eps": Fraction(1, 32), "freeze_step": 1,
    "scale": "l1", "variance_floor": 0,
}  # fmt: skip
LOCAL = {"local_doubling": 3, "local_limit": 4}


def accumulated(optimizer, before, grads_ND):
    """u_i at the end of a step, by its definition."""
    m_ND = optimizer.beta1 * before.slots["momentum_ND"] + (1 - optimizer.beta1) * grads_ND
    return before.slots["accumulated_ND"] + optimizer.learning_rate(before.step + 1, grads_ND.dtype) * m_ND


def conserves(optimizer, steps=16, **kwargs):
    """T3d at every meeting: x - P Delta moves by P mean_i u_i. Between two meetings nothing is sent or forgotten."""
    meetings = 0
    for before, grads_ND, after in exact_steps(optimizer, steps=steps, **kwargs):
        met = not after.slots["accumulated_ND"].any()
        P_D = preconditioner(after.variance, optimizer.eps) * (after.variance > 0)
        if met:
            moved_D = P_D * mean(accumulated(optimizer, before, grads_ND))
            if not same(after.params - P_D * after.total_error, before.params - P_D * before.total_error - moved_D):
                return False
            meetings += 1
        elif not same(after.params, before.params) or not same(after.total_error, before.total_error):
            return False
    assert meetings > 1
    return True


@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.parametrize("schedule", [Fraction(1, 16), lambda t: Fraction(1, t)], ids=["constant", "falling"])
def test_what_0_1_adam_conserves(n_workers, schedule):
    assert conserves(ZeroOneAdam(**(EXACT | LOCAL | {"lr": schedule})), n_workers=n_workers)


def sparse_steps(optimizer, alive_from, steps=9):
    """Exact steps in which coordinate 4 has no gradient in step 1, and one in every step from ``alive_from`` on."""
    rng = np.random.default_rng(0)
    state = optimizer.init(np.array([Fraction(int(k)) for k in rng.integers(1, 9, 20)]), 3)
    for _ in range(steps):
        grads_ND = np.array([[Fraction(int(k), 4) for k in row] for row in rng.integers(1, 9, (3, 20))])
        grads_ND[:, 4] = Fraction(int(state.step + 1 >= alive_from))
        after = optimizer.step(state, grads_ND)
        yield state, grads_ND, after
        state = after


def test_the_dead_stand_still_also_between_two_meetings_and_are_not_decayed():
    optimizer = ZeroOneAdam(**EXACT, **LOCAL, weight_decay=Fraction(1, 8))
    for before, _, after in sparse_steps(optimizer, alive_from=2):
        assert after.params[4] == before.params[4] > 0
        assert not after.total_error[4]
        assert (optimizer.local_params(after)[:, 4] == after.params[4]).all()
    assert after.ignored_gradients == 8


def test_a_refresh_brings_a_coordinate_to_life():
    optimizer = ZeroOneAdam(lr=0.1, freeze_step=3, variance_doubling=1, local_limit=1)  # refreshes in steps 1 and 2
    state, rng = optimizer.init(np.ones(9), 2), np.random.default_rng(0)
    for t in range(1, 4):
        grads_ND = rng.standard_normal((2, 9))
        grads_ND[:, 4] = float(t > 1)
        state = optimizer.step(state, grads_ND)
        assert state.frozen_at == min(t, 2)
        assert (state.params[4] != 1) == (t > 1)
        assert (state.live is None) == (t > 1)


def test_the_decay_of_a_round_is_that_of_the_last_meeting():
    """Every local step decays by lr lambda x of the last meeting, so that the meeting knows what all have done."""
    optimizer = ZeroOneAdam(**EXACT, **LOCAL, weight_decay=Fraction(1, 8))
    plain, met = replace(optimizer, weight_decay=0), 0
    for before, grads_ND, after in exact_steps(optimizer, steps=16):
        without = plain.step(before, grads_ND)
        decay_D = Fraction(1, 16) * Fraction(1, 8) * before.params
        if after.slots["accumulated_ND"].any():
            assert same(after.slots["walked_ND"], without.slots["walked_ND"] + decay_D)
        else:
            assert same(after.params, without.params - (after.step - met) * decay_D)
            met = after.step


def test_the_floor_is_in_the_preconditioner_and_not_in_the_state():
    """P of C7: no live variance counts for less than kappa times the mean of the live ones."""
    optimizer = ZeroOneAdam(lr=0.1, freeze_step=1, eps=0.0, variance_floor=0.25)
    grads_ND = np.array([[4.0, 1e-3, 0.0, 2.0]])
    state = optimizer.step(optimizer.init(np.zeros(4), 1), grads_ND)
    v_D = (1 - 0.999) * grads_ND[0] ** 2
    assert same(state.variance, v_D)
    floor = 0.25 * v_D.sum() / 3
    expected_D = np.array([v_D[0] ** -0.5, floor**-0.5, 0.0, max(v_D[3], floor) ** -0.5])
    assert optimizer.preconditioner_of(state) == pytest.approx(expected_D, rel=gamma(8, "float64"))


def test_workers_stand_where_their_momenta_led_them():
    """x_i is x of the last meeting less P u_i, as v does not change between two meetings here."""
    optimizer = ZeroOneAdam(**EXACT, **LOCAL)
    for _, _, after in exact_steps(optimizer, steps=16):
        P_D = preconditioner(after.variance, optimizer.eps) * (after.variance > 0)
        assert same(optimizer.local_params(after), after.params - P_D * after.slots["accumulated_ND"])


def test_the_momentum_after_a_meeting_is_the_decoded_mean_over_the_sum_of_the_rates():
    optimizer = ZeroOneAdam(**(EXACT | LOCAL | {"lr": lambda t: Fraction(1, t)}))
    last = 0
    for before, grads_ND, after in exact_steps(optimizer, steps=16):
        if after.slots["accumulated_ND"].any():
            continue
        u_ND = accumulated(optimizer, before, grads_ND)
        reduced = compressed_allreduce(u_ND, before.worker_errors, before.server_error, scale="l1", live_D=after.live)
        total = sum(Fraction(1, s) for s in range(last + 1, after.step + 1))
        assert same(after.momentum, reduced.output_D / total)
        assert all(same(row_D, after.momentum) for row_D in after.slots["momentum_ND"])
        last = after.step


def virtual(optimizer, state, interval):
    """y of T3h: x with the residual update P H/(H - S) (Delta + lr S m) applied, S = beta1 + ... + beta1^H."""
    old = sum(optimizer.beta1**j for j in range(1, interval + 1))
    P_D = preconditioner(state.variance, optimizer.eps) * (state.variance > 0)
    residual_D = state.total_error + optimizer.lr * old * state.momentum
    return state.params - P_D * Fraction(interval) / (interval - old) * residual_D


def has_the_virtual_iterate(optimizer, interval):
    """T3h: in a round of H steps y moves by lr P H/(H - S) times sum_j (1 - beta1^(H-j)) g-bar_j."""
    rounds, start, gradients = 0, None, []
    for _, grads_ND, after in exact_steps(optimizer, steps=4 * interval + 2):
        gradients.append(mean(grads_ND))
        if after.slots["accumulated_ND"].any():
            continue
        if start is not None and len(gradients) == interval:
            old = sum(optimizer.beta1**j for j in range(1, interval + 1))
            weights = [1 - optimizer.beta1 ** (interval - j) for j in range(interval)]
            moved_D = sum(w * g_D for w, g_D in zip(weights, gradients, strict=True))
            P_D = preconditioner(after.variance, optimizer.eps) * (after.variance > 0)
            step_D = optimizer.lr * P_D * Fraction(interval) / (interval - old) * moved_D
            if not same(virtual(optimizer, after, interval), virtual(optimizer, start, interval) - step_D):
                return False
            rounds += 1
        start, gradients = after, []
    assert rounds > 1
    return True


@dataclass(frozen=True, kw_only=True)
class LastRate(ZeroOneAdam):
    """Bug: the momentum is u-bar over the last rate, not over the sum of the round's."""

    def meet(self, state, momentum_ND, accumulated_ND, P_D):
        met = super().meet(state, momentum_ND, accumulated_ND, P_D)
        momentum_D = met.momentum * min(2, met.rounds)
        return replace(met, momentum=momentum_D).with_slots(momentum_ND=np.tile(momentum_D, (state.n_workers, 1)))


@pytest.mark.parametrize("interval", [1, 2, 3])
def test_the_virtual_iterate_of_a_round(interval):
    """The workers meet every H steps after step 1, which is T_w."""
    fixed = {"local_doubling": 1, "local_limit": interval}
    assert has_the_virtual_iterate(ZeroOneAdam(**EXACT, **fixed), interval)
    assert not has_the_virtual_iterate(LastRate(**EXACT, **fixed), interval)


@dataclass(frozen=True, kw_only=True)
class Forgets(ZeroOneAdam):
    """Bug: half of the errors is dropped at a meeting."""

    def remember(self, state, reduced, **changes):
        return super().remember(state, replace(reduced, server_error_D=reduced.server_error_D / 2), **changes)


@dataclass(frozen=True, kw_only=True)
class KeepsWalking(ZeroOneAdam):
    """Bug: what was sent is sent again."""

    def meet(self, state, momentum_ND, accumulated_ND, P_D):
        kept_ND = accumulated_ND.copy()
        met = super().meet(state, momentum_ND, accumulated_ND, P_D)
        return replace(met, params=met.params - P_D * mean(kept_ND))


@pytest.mark.parametrize("bug", [Forgets, KeepsWalking])
def test_planted_bugs_break_the_law(bug):
    assert not conserves(bug(**EXACT, **LOCAL))


def test_a_meeting_after_steps_of_size_0_leaves_every_worker_its_momentum():
    optimizer = ZeroOneAdam(lr=lambda t: 0.0 if t < 3 else 0.01, freeze_step=2, **LOCAL)
    seen = []
    for before, grads_ND, after in float_steps(optimizer, steps=8):
        if after.step < 3:
            own_ND = optimizer.beta1 * before.slots["momentum_ND"] + (1 - optimizer.beta1) * grads_ND
            assert np.array_equal(after.slots["momentum_ND"], own_ND.astype(np.float32))
            assert np.array_equal(after.params, before.params)
        assert np.isfinite(after.params).all()
        seen.append(after.params)
    assert not np.array_equal(seen[1], seen[-1])


def test_the_policies():
    """kappa refreshes a step apart, kappa two apart, kappa four apart; then intervals of 1, 2, 4, 4, ..."""
    optimizer = ZeroOneAdam(lr=1.0, freeze_step=40, variance_doubling=3, local_doubling=6, local_limit=4)
    refreshed = [t for t in range(1, 80) if optimizer.refreshes(t)]
    assert refreshed == [1, 2, 3, 4, 6, 8, 10, 14, 18, 22, 30, 38]
    met = [t for t in range(1, 70) if optimizer.meets(t)]
    assert met == [*range(1, 46), 46, 48, 50, 52, 56, 60, 64, 68]
    every = ZeroOneAdam(lr=1.0, freeze_step=40, variance_doubling=None, local_limit=1)
    assert [t for t in range(1, 60) if every.refreshes(t)] == list(range(1, 41))
    assert all(every.meets(t) for t in range(1, 60))


def is_adam(cls):
    """One worker and a rate that is a power of two: multiplying by it and dividing by it changes no bit."""
    always = {"freeze_step": 10**6, "variance_doubling": None, "compressor": Identity(), "variance_floor": 0.0}
    zero_one = cls(lr=2.0**-6, eps=1e-3, **always)
    adam = Adam(lr=2.0**-6, eps=1e-3, bias_correction=False)
    pairs = zip(float_steps(zero_one, n_workers=1, steps=30), float_steps(adam, n_workers=1, steps=30), strict=True)
    return all(
        same(ours.params, theirs.params)
        and same(ours.momentum, theirs.momentum)
        and same(ours.variance, theirs.variance)
        for (*_, ours), (*_, theirs) in pairs
    )


@dataclass(frozen=True, kw_only=True)
class DecayedVariance(ZeroOneAdam):
    """Bug: v before its decay."""

    def preconditioner_of(self, state):
        return preconditioner(state.variance / self.beta2, self.eps)


@dataclass(frozen=True, kw_only=True)
class EpsilonInside(ZeroOneAdam):
    """Bug: eps under the root."""

    def preconditioner_of(self, state):
        return preconditioner(state.variance + self.eps, 0)


def test_refreshing_and_meeting_in_every_step_without_compression_is_adam_bit_for_bit():
    assert is_adam(ZeroOneAdam)
    assert not is_adam(DecayedVariance)
    assert not is_adam(EpsilonInside)


@pytest.mark.parametrize("n_workers", [2, 3])
def test_with_one_refresh_and_no_compression_it_is_adam_with_a_frozen_variance(n_workers):
    """Several workers, in exact arithmetic; weight decay included."""
    shared = EXACT | {"weight_decay": Fraction(1, 8)}
    ours = exact_steps(ZeroOneAdam(**shared, compressor=Identity(), local_limit=1), n_workers=n_workers)
    theirs = exact_steps(FrozenAdam(**shared), n_workers=n_workers)
    for (*_, a), (*_, b) in zip(ours, theirs, strict=True):
        assert same(a.params, b.params)
        assert same(a.momentum, b.momentum)


@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (2, 8), (4, 64), (3, 37)])
def test_bytes_and_rounds(n_workers, dim):
    """A refresh is a dense all-reduce; a meeting sends a bit a number and a scale a message, both ways."""
    optimizer = ZeroOneAdam(lr=1e-2, freeze_step=6, variance_doubling=2, **LOCAL)
    chunk = 8 * -(-dim // (8 * n_workers))
    sizes = [min(chunk, dim - start) for start in range(0, dim, chunk)]
    a_meeting = sum(2 * (n_workers - 1) * (-(-size // 8) + 4) for size in sizes)
    for before, _, after in float_steps(optimizer, n_workers=n_workers, dim=dim, steps=20):
        t = after.step
        expected = (t in {1, 2, 3, 5}) * dense_allreduce_bytes(dim, n_workers) + optimizer.meets(t) * a_meeting
        assert after.bytes_on_wire - before.bytes_on_wire == expected
        assert after.rounds - before.rounds == (t in {1, 2, 3, 5}) + optimizer.meets(t)
    assert sum(not optimizer.meets(t) for t in range(1, 21)) > 0


def test_a_resumed_run_goes_on_bit_for_bit():
    assert resumes_exactly(ZeroOneAdam(lr=1e-2, freeze_step=3, **LOCAL), steps=14)


@pytest.mark.parametrize("n_after", [1, 2, 5])
def test_a_changed_number_of_workers_keeps_what_is_owed_and_where_the_mean_stands(n_after):
    optimizer = ZeroOneAdam(**EXACT, **LOCAL)
    *_, (*_, state) = exact_steps(optimizer, steps=12)
    assert state.slots["accumulated_ND"].any()
    resized = resize(state, n_after)
    assert resized.n_workers == n_after
    assert same(resized.total_error, state.total_error)
    assert same(mean(optimizer.local_params(resized)), mean(optimizer.local_params(state)))
    for name in ("momentum_ND", "accumulated_ND"):
        assert resized.slots[name].shape == (n_after, 13)
        assert same(mean(resized.slots[name]), mean(state.slots[name]))


def test_it_learns_and_does_so_again():
    assert learns(ZeroOneAdam(lr=3e-3, freeze_step=60, variance_doubling=8, local_doubling=20, local_limit=8))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"freeze_step": "auto"}, "freeze_step must be an integer >= 1, got 'auto'"),
        ({"variance_doubling": 0}, "variance_doubling must be an integer >= 1, got 0"),
        ({"local_limit": 0}, "local_limit must be an integer >= 1, got 0"),
        ({"local_doubling": 1.5}, "local_doubling must be an integer >= 1, got 1.5"),
    ],
)
def test_bad_policies(change, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        ZeroOneAdam(**({"lr": 1.0, "freeze_step": 2} | change))


def test_intervals_may_be_numpy_integers():
    plain, numpy = (ZeroOneAdam(lr=1e-3, freeze_step=9, variance_doubling=two) for two in (2, np.int64(2)))
    assert [plain.refreshes(t) for t in range(1, 10)] == [numpy.refreshes(t) for t in range(1, 10)]
