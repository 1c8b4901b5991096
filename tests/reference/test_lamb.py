"""LAMB and 1-bit LAMB: public formula, conservation law T3c, limits, bytes, rounds; each with a bug that is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from family_support import exact_steps, float_steps, learns, mean, resumes_exactly
from reference_support import same

from reference import Adam, Lamb, OneBitAdam, OneBitLamb
from reference.compressors import Identity
from reference.optimizers.adam import preconditioner
from theory.rounding import gamma

SHAPES = [[5, 4], [4], [13]]
LAYERS = [slice(0, 20), slice(20, 24), slice(24, 37)]
DIGITS_SHAPES = [[64, 16], [16], [16, 10], [10]]
EXACT = {
    "lr": Fraction(1, 16), "beta1": Fraction(3, 4), "beta2": Fraction(3, 4), "eps": Fraction(1, 32), "freeze_step": 1,
    "scale": "l1", "variance_floor": 0, "shapes": [[2, 3], [7]],
}  # fmt: skip


@pytest.mark.parametrize("bias_correction", [True, False])
def test_with_the_trust_ratio_1_it_is_adamw_bit_for_bit(bias_correction):
    shared = {"lr": 1e-2, "weight_decay": 0.1, "bias_correction": bias_correction}
    lamb = float_steps(Lamb(**shared, shapes=SHAPES, min_trust=1, max_trust=1))
    for (*_, a), (*_, b) in zip(lamb, float_steps(Adam(**shared)), strict=True):
        assert same(a.params, b.params)
        assert same(a.variance, b.variance)
        assert a.bytes_on_wire == b.bytes_on_wire > 0
        assert a.rounds == b.rounds == a.step
    loose = [after.params for *_, after in float_steps(Lamb(**shared, shapes=SHAPES))]
    assert not same(loose[-1], b.params)


def public_lamb(x, m, v, g, lr=0.01, b1=0.9, b2=0.999, eps=1e-6, decay=0.1, top=10.0):
    """One layer of LAMB as in cybertronai/pytorch-lamb (no bias correction, ratio at most 10), in float64."""
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * (g * g)
    step = m / (np.sqrt(v) + eps) + decay * x
    ratio = min(np.linalg.norm(x) / np.linalg.norm(step), top)
    return x - lr * ratio * step, m, v


def agrees_with_the_public_formula(cls):
    optimizer = cls(
        lr=0.01, eps=1e-6, weight_decay=0.1, bias_correction=False, shapes=SHAPES, min_trust=0.0, max_trust=10.0
    )
    for before, grads_ND, after in float_steps(optimizer, dtype=np.float64):
        grad_D = grads_ND.sum(axis=0) / 3
        for part in LAYERS:
            x, m, v = public_lamb(before.params[part], before.momentum[part], before.variance[part], grad_D[part])
            size = np.abs(before.params[part]).max() + np.abs(x - before.params[part]).max()
            if np.abs(after.params[part] - x).max() > gamma(64, "float64") * size:
                return False
            assert same(after.momentum[part], m)
            assert same(after.variance[part], v)
    return True


@dataclass(frozen=True, kw_only=True)
class NoDecayInTheNorm(Lamb):
    """Bug: the trust ratio leaves weight decay out."""

    def trust_ratios(self, params_D, direction_D):
        return replace(Lamb(**vars(self)), weight_decay=0.0).trust_ratios(params_D, direction_D)


def test_the_public_formula():
    assert agrees_with_the_public_formula(Lamb)
    assert not agrees_with_the_public_formula(NoDecayInTheNorm)


def test_a_layer_of_zeros_has_the_trust_ratio_1():
    lamb = Lamb(lr=1.0, shapes=[[2], [2]], min_trust=0.0, max_trust=1e9)
    x_D, u_D = np.array([0.0, 0.0, 3.0, 4.0]), np.array([1.0, 1.0, 0.0, 0.0])
    assert lamb.trust_ratios(x_D, u_D).tolist() == [1.0, 1.0]
    assert lamb.trust_ratios(x_D, u_D + 1).tolist() == [1.0, 5 / 2**0.5]


def test_shapes_must_fit():
    with pytest.raises(ValueError, match=r"^shapes\[0\]\[1\] must be an integer >= 1, got 0"):
        Lamb(lr=1.0, shapes=[[2, 0]])
    with pytest.raises(ValueError, match=r"^shapes must be None or a list of shapes, got 'all'"):
        Lamb(lr=1.0, shapes="all")
    optimizer = Lamb(lr=1.0, shapes=[[2], [3]])
    state = optimizer.init(np.ones(4), 2)
    with pytest.raises(ValueError, match=r"^shapes must hold as many numbers as there are parameters, 4, got 5"):
        optimizer.step(state, np.ones((2, 4)))


def conserves(optimizer, **kwargs):
    """T3c: m-bar + Delta/s after a step is beta1 m-bar + (1 - beta1) g-bar + Delta/s before it, where v lives."""
    seen = 0
    for before, grads_ND, after in exact_steps(optimizer, **kwargs):
        if before.frozen_at is None:
            continue
        s_D, s_after_D = (np.repeat(state.slots["layer_scale_L"], [6, 7]) for state in (before, after))
        left_D = after.momentum + after.total_error / s_after_D
        right_D = optimizer.beta1 * before.momentum + (1 - optimizer.beta1) * mean(grads_ND) + before.total_error / s_D
        live_D = slice(None) if before.live is None else before.live
        if not same(left_D[live_D], right_D[live_D]):
            return False
        seen += 1
    return seen > 0


@dataclass(frozen=True, kw_only=True)
class RescalesEachStep(OneBitLamb):
    """Bug: the layers' scales follow the momentum [T3l]."""

    def compressed_step(self, state, grads_ND, frozen_at):
        after = super().compressed_step(state, grads_ND, frozen_at)
        return after.with_slots(layer_scale_L=after.slots["layer_scale_L"] * 2)


@dataclass(frozen=True, kw_only=True)
class KeepsTheScale(OneBitLamb):
    """Bug: what is decoded is not divided by the scale."""

    def compressed_step(self, state, grads_ND, frozen_at):
        after = super().compressed_step(state, grads_ND, frozen_at)
        return replace(after, momentum=after.momentum * np.repeat(state.slots["layer_scale_L"], [6, 7]))


@pytest.mark.parametrize("n_workers", [1, 3, 4])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_what_one_bit_lamb_conserves(n_workers, zeros):
    assert conserves(OneBitLamb(**EXACT), n_workers=n_workers, zeros=zeros)


@pytest.mark.parametrize("bug", [RescalesEachStep, KeepsTheScale])
def test_planted_bugs_break_the_law(bug):
    assert not conserves(bug(**EXACT))


def test_without_a_freeze_it_is_lamb_bit_for_bit():
    shared = {"lr": 1e-2, "shapes": SHAPES, "weight_decay": 0.1}
    one_bit = float_steps(OneBitLamb(**shared, freeze_step=10**6))
    for (*_, a), (*_, b) in zip(one_bit, float_steps(Lamb(**shared, bias_correction=False)), strict=True):
        assert same(a.params, b.params)
        assert same(a.momentum, b.momentum)
        assert a.bytes_on_wire == b.bytes_on_wire


def test_without_compression_the_momentum_is_lambs_and_the_gradient_is_rebuilt():
    """With no residual, g' of T3m is g-bar, and v' goes on as LAMB's v would."""
    optimizer = OneBitLamb(**EXACT, compressor=Identity())
    fresh_D = None
    for before, grads_ND, after in exact_steps(optimizer):
        if before.frozen_at is None:
            fresh_D = after.variance
            continue
        m_D = optimizer.beta1 * before.momentum + (1 - optimizer.beta1) * mean(grads_ND)
        assert same(after.momentum, m_D)
        fresh_D = optimizer.beta2 * fresh_D + (1 - optimizer.beta2) * mean(grads_ND) ** 2
        assert same(after.slots["fresh_variance_D"], fresh_D)
        assert same(after.variance, before.variance)


def test_the_step_after_the_freeze():
    """x <- x - lr c-bar r (P m + lambda x), r by its two clips, against a computation of its own in float64."""
    optimizer = OneBitLamb(lr=0.01, freeze_step=4, shapes=SHAPES, weight_decay=0.1, variance_floor=0.0)
    ratios = []
    for before, _, after in float_steps(optimizer, dtype=np.float64, steps=30):
        if before.frozen_at is None:
            continue
        frozen_D = np.sqrt(before.variance) + 1e-8
        fresh_D = np.sqrt(after.slots["fresh_variance_D"]) + 1e-8
        for k, part in enumerate(LAYERS):
            last, r = before.slots["last_ratio_L"][k], (frozen_D[part] / fresh_D[part]).max()
            r = np.clip(np.clip(r, 0.5, 4.0), 0.9 * last, 1.1 * last)
            assert after.slots["last_ratio_L"][k] == pytest.approx(r, rel=gamma(16, "float64"))
            step = (
                before.slots["trust_mean_L"][k]
                * r
                * (after.momentum[part] / frozen_D[part] + 0.1 * before.params[part])
            )
            moved = before.params[part] - 0.01 * step
            assert after.params[part] == pytest.approx(moved, rel=gamma(64, "float64"))
            ratios.append(r)
    assert min(ratios) < 1 < max(ratios)
    assert same(after.slots["trust_mean_L"], before.slots["trust_mean_L"])


def dead_layer(optimizer, steps):
    """States of a run whose layers differ by 10^5 in size; the second has no gradient before the freeze."""
    state, rng = optimizer.init(np.ones(37), 2), np.random.default_rng(0)
    for _ in range(steps):
        sizes = [1e-3, 0.0, 1e2] if state.frozen_at is None else [1e3, 1e3, 1e5]
        state = optimizer.step(state, rng.standard_normal((2, 37)) * np.repeat(sizes, [20, 4, 13]))
        yield state


def test_layers_are_brought_to_the_mean_of_their_sizes():
    """After the freeze s m has the mean RMS in every layer that has a momentum; the scale of another is 1."""
    *_, state = dead_layer(OneBitLamb(lr=0.01, freeze_step=2, shapes=SHAPES), steps=2)
    sizes = [np.sqrt(np.mean(state.momentum[part] ** 2)) for part in LAYERS]
    scales = state.slots["layer_scale_L"]
    for k in (0, 2):
        assert scales[k] * sizes[k] == pytest.approx(sum(sizes) / 3, rel=gamma(64, "float64"))
    assert sizes[1] == 0
    assert scales[1] == 1


def test_the_dead_stand_still_are_counted_and_say_nothing_about_the_ratio():
    """Weight decay is on, and their fresh variance is not 0: only masks keep them out."""
    optimizer = OneBitLamb(lr=0.01, freeze_step=2, weight_decay=0.1, eps=1e-3, shapes=[[24], [13]])
    optimizer = replace(optimizer, ratio_change=0.99, min_ratio=0.0)  # so that the clips hide nothing
    *_, frozen, state = dead_layer(optimizer, steps=3)
    assert same(state.params[20:24], frozen.params[20:24])
    assert not same(state.params[:20], frozen.params[:20])
    assert state.ignored_gradients == 4
    frozen_D, fresh_D = np.sqrt(frozen.variance) + 1e-3, np.sqrt(state.slots["fresh_variance_D"]) + 1e-3
    ratio = (frozen_D / fresh_D)[:20].max()
    assert ratio < 0.9 < (frozen_D / fresh_D)[20:24].max()
    assert state.slots["last_ratio_L"][0] == pytest.approx(max(ratio, 1 - 0.99), rel=gamma(16, "float64"))


def test_the_running_mean_of_the_trust_ratio_and_bias_correction():
    """c-bar starts at 0 and ends with the warm-up; m-bar is corrected in the step alone [C5]."""
    optimizer = OneBitLamb(lr=0.01, freeze_step=3, shapes=SHAPES, bias_correction=True, variance_floor=0.0)
    lamb = Lamb(lr=0.01, shapes=SHAPES, bias_correction=True)
    mean_L = np.zeros(3)
    for before, grads_ND, after in float_steps(optimizer, dtype=np.float64, steps=6):
        t = after.step
        if t <= 3:
            stepped = lamb.moments(before.momentum, before.variance, grads_ND.sum(axis=0) / 3, t)
            mean_L = 0.9 * mean_L + (1 - 0.9) * lamb.trust_ratios(before.params, stepped[2])
        assert same(after.slots["trust_mean_L"], mean_L)
        if t > 3:
            factor_D = np.repeat(mean_L * after.slots["last_ratio_L"], [20, 4, 13])
            P_D = preconditioner(before.variance, 1e-8, 1 - 0.999**3)
            expected_D = before.params - 0.01 * factor_D * P_D * after.momentum / (1 - 0.9**t)
            assert after.params == pytest.approx(expected_D, rel=gamma(64, "float64"))


def test_bytes_and_rounds_are_those_of_one_bit_adam():
    one = float_steps(OneBitLamb(lr=0.01, freeze_step=3, shapes=SHAPES))
    two = float_steps(OneBitAdam(lr=0.01, freeze_step=3))
    for (*_, a), (*_, b) in zip(one, two, strict=True):
        assert a.bytes_on_wire == b.bytes_on_wire
        assert a.rounds == b.rounds == a.step


def test_a_resumed_run_goes_on_bit_for_bit():
    assert resumes_exactly(OneBitLamb(lr=1e-2, freeze_step=3, shapes=SHAPES))
    assert resumes_exactly(Lamb(lr=1e-2, shapes=SHAPES))


@pytest.mark.parametrize(
    "optimizer",
    [Lamb(lr=0.02, shapes=DIGITS_SHAPES), OneBitLamb(lr=0.02, shapes=DIGITS_SHAPES, freeze_step=40)],
    ids=["lamb", "one_bit_lamb"],
)
def test_it_learns_and_does_so_again(optimizer):
    assert learns(optimizer)


def test_the_update_form_is_refused():
    with pytest.raises(ValueError, match=r"^compress must be one of momentum, got 'update'"):
        OneBitLamb(lr=1.0, freeze_step=2, compress="update")
