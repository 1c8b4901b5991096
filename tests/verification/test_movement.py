"""Tolerances of steps along several terms, and of what a layer has one number of: never exceeded, and not vacuous."""

from __future__ import annotations

import numpy as np
import pytest

from verification.protocol import Traits
from verification.relation import layers
from verification.relation.movement import Known, decay, moved, nothing_known, product, stored

RNG = np.random.default_rng(0)
TRAITS = Traits()
F = np.float32


def gaussian(*shape):
    return (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-8, 8, shape)).astype(np.float32)


def wide(array):
    return array.astype(np.float64)


def reaches(errors, tolerance):
    """No error is above the tolerance, and the largest is a tenth of it."""
    assert all((error <= tolerance).all() for error in errors)
    assert max((error / tolerance).max() for error in errors) >= 0.1, "vacuous"


X, D, LR, LAMBDA = gaussian(100_000), gaussian(100_000), F(0.3), F(0.1)
TERMS = [Known(wide(D)), decay(0.1, wide(X), TRAITS)]
FORMS = {
    "decay in the bracket": lambda: X - LR * (D + LAMBDA * X),
    "decay apart": lambda: X - LR * D - LR * (LAMBDA * X),
    "decay first": lambda: (X - (LR * LAMBDA) * X) - LR * D,
    "decay as a factor": lambda: X * (F(1) - LR * LAMBDA) - LR * D,
    "fused": lambda: (wide(X) - wide(LR) * wide((wide(LAMBDA) * X + D).astype(F))).astype(F),
}


def test_a_step_along_two_terms_in_every_usual_order():
    known = moved(wide(X), TERMS, stored(0.3, TRAITS), TRAITS)
    np.testing.assert_array_equal(known.value, wide(X) - 0.3 * (wide(D) + 0.1 * wide(X)))
    reaches([np.abs(form() - known.value) for form in FORMS.values()], known.tolerance)


def test_a_step_that_is_kept_as_a_way_from_where_it_began():
    """x_i is read off before and after as p - w, and is formed from neither."""
    p, w = gaussian(100_000), gaussian(100_000)
    before, after = p - w, p - (w + LR * (D + LAMBDA * p))
    about = {"beside": np.abs(wide(p) - before)}
    known = moved(wide(before), [Known(wide(D)), decay(0.1, wide(p), TRAITS)], stored(0.3, TRAITS), TRAITS, **about)
    reaches([np.abs(after - known.value)], known.tolerance)
    alone = moved(wide(before), [Known(wide(D)), decay(0.1, wide(p), TRAITS)], stored(0.3, TRAITS), TRAITS)
    assert (np.abs(after - known.value) > alone.tolerance).any(), "beside is needed"


def test_a_product_that_underflows_before_it_is_scaled():
    tiny, large = np.full(1, 1.4e-45, F), 1e8
    known = moved(np.zeros(1), [Known(wide(tiny) * large)], stored(1e-3, TRAITS), TRAITS, scaled=large)
    assert np.abs(F(large) * (F(1e-3) * tiny) + known.value) <= known.tolerance
    assert known.tolerance < 1e-35


def test_products_of_uncertain_numbers():
    a, b = np.abs(gaussian(50_000)), np.abs(gaussian(50_000))
    known = product(Known(wide(a), 1e-3 * wide(a)), Known(wide(b), 1e-3 * wide(b)), TRAITS)
    reaches([np.abs(F(1.0009) * a * (F(1.0009) * b) - known.value), np.abs(a * b - known.value)], known.tolerance)
    exact = product(Known(wide(a)), Known(wide(b)), TRAITS)
    reaches([np.abs(a * b - exact.value)], exact.tolerance)
    assert product(Known(np.zeros(2)), Known(np.ones(2)), TRAITS).tolerance.tolist() == [0, 0]


def test_numbers_of_which_nothing_is_known():
    known = Known.between(np.array([1.0, 0.0]), np.array([2.0, np.inf]))
    assert known.value.tolist() == [1.5, 0]
    assert known.tolerance.tolist() == [0.5, np.inf]
    assert nothing_known(Known(np.array([1.0, np.nan]), np.array([np.nan, 0.0]))).tolerance.tolist() == [np.inf] * 2


SLICES = [slice(0, 5), slice(5, 6), slice(6, 300)]


def inside(got_L, interval):
    """Every number is in its interval, which is no wider than 2^-12 of it."""
    low_L, high_L = interval
    assert (low_L <= got_L).all()
    assert (got_L <= high_L).all()
    assert (high_L - low_L <= 2.0**-12 * high_L).all()


def norm(values, dtype):
    return np.sqrt(np.add.accumulate(np.square(values.astype(dtype)))[-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trust_ratios(dtype):
    for _ in range(200):
        x, r = gaussian(300), gaussian(300)
        interval = layers.trust_ratios(
            *(layers.rms(Known(wide(array)), SLICES, TRAITS) for array in (x, r)), 0.01, 10.0, TRAITS
        )
        got = [np.clip(norm(x[part], dtype) / norm(r[part], dtype), F(0.01), F(10)).astype(F) for part in SLICES]
        inside(np.array(got), interval)


def test_a_trust_ratio_of_nothing_is_one():
    zero, one = (layers.rms(Known(np.full(4, value)), [slice(0, 4)], TRAITS) for value in (0.0, 1.0))
    for pair in ((zero, one), (one, zero)):
        low_L, high_L = layers.trust_ratios(*pair, 0.01, 10.0, TRAITS)
        assert low_L[0] <= 1 <= high_L[0] < 1 + 1e-6
    doubtful = np.array([0.0]), np.array([1e-30])
    low_L, high_L = layers.trust_ratios(one, doubtful, 0.01, 10.0, TRAITS)
    assert low_L[0] <= 1
    assert high_L[0] >= 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layer_scales(dtype):
    for _ in range(200):
        m = gaussian(300)
        sizes = [norm(m[part], dtype) / dtype((part.stop - part.start) ** 0.5) for part in SLICES]
        got = np.array([np.mean(sizes, dtype=dtype) / own for own in sizes], F)
        inside(got, layers.layer_scales(layers.rms(Known(wide(m)), SLICES, TRAITS), TRAITS))
    m[5] = 0
    low_L, high_L = layers.layer_scales(layers.rms(Known(wide(m)), SLICES, TRAITS), TRAITS)
    assert low_L[1] == high_L[1] == 1


def test_variance_ratios():
    eps = F(1e-8)
    for _ in range(200):
        v, fresh, live = np.square(gaussian(300)), np.square(gaussian(300)), RNG.random(300) < 0.8
        live[5] = True
        ratio = (np.sqrt(v) + eps) / (np.sqrt(fresh) + eps)
        got = np.array([ratio[part][live[part]].max() for part in SLICES])
        inside(got, layers.variance_ratios(wide(v), wide(fresh), live, SLICES, 1e-8, TRAITS))
    live[5] = False
    low_L, high_L = layers.variance_ratios(wide(v), wide(fresh), live, SLICES, 1e-8, TRAITS)
    assert (low_L[1], high_L[1]) == (0, np.inf)


def test_what_is_cut_is_cut():
    low_L, high_L = layers.cut((np.array([0.0, 3.0]), np.array([9.0, np.inf])), 0.5, 4.0, TRAITS)
    assert (low_L < np.array([0.5, 3.0])).all()
    assert (high_L > 4).all()
    assert (high_L < 4 + 1e-6).all()
