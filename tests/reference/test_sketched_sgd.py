"""Count sketch and Sketched-SGD: linearity, conservation, limits, bytes and rounds; each with a bug that is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from family_support import exact_steps, float_steps, learns, mean, resumes_exactly
from reference_support import floats, fractions, same

from reference import SGD, MomentumSGD, SketchedSGD
from reference.allreduce import dense_allreduce_bytes
from reference.compressors.count_sketch import CountSketch
from reference.compressors.sparse import largest

RATE, QUARTER = Fraction(1, 8), Fraction(1, 4)


def test_the_sketch_of_a_sum_is_the_sum_of_the_sketches():
    rng = np.random.default_rng(0)
    sketch, u_ND = CountSketch(rows=3, columns=5), fractions(rng, 4, 40)
    assert same(sketch.sketch(u_ND.sum(axis=0)), sum(sketch.sketch(u_D) for u_D in u_ND))
    other = CountSketch(rows=3, columns=5, seed=1)
    assert not same(other.sketch(u_ND[0]), sketch.sketch(u_ND[0]))


def test_the_hashes_use_both_signs_and_all_buckets_and_differ_between_rows():
    bucket_RD, sign_RD = CountSketch(rows=3, columns=4).hashes(200)
    assert all(set(row) == {-1, 1} for row in sign_RD.tolist())
    assert all(set(row) == set(range(4)) for row in bucket_RD.tolist())
    assert len({row.tobytes() for row in (*sign_RD, *bucket_RD)}) == 6


def test_a_table_holds_signed_sums_of_buckets():
    """Against a loop over the definition."""
    sketch, u_D = CountSketch(rows=3, columns=4), fractions(np.random.default_rng(1), 11)
    bucket_RD, sign_RD = sketch.hashes(11)
    table_RC = sketch.sketch(u_D)
    for r in range(3):
        for c in range(4):
            assert table_RC[r, c] == sum(sign_RD[r, j] * u_D[j] for j in range(11) if bucket_RD[r, j] == c)
    estimate_D = sketch.estimate(table_RC, 11)
    for j in range(11):
        assert estimate_D[j] == sorted(sign_RD[r, j] * table_RC[r, bucket_RD[r, j]] for r in range(3))[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_coordinate_alone_is_read_exactly(dtype):
    u_D = np.zeros(500, dtype)
    u_D[123] = -0.1
    sketch = CountSketch(rows=5, columns=7)
    estimate_D = sketch.estimate(sketch.sketch(u_D), 500)
    assert estimate_D.dtype == dtype
    assert estimate_D[123] == u_D[123]


def test_the_estimate_of_a_row_is_unbiased_with_the_stated_variance():
    """Over all 2 x 2 x 2 x 2 x ... hashes of three coordinates into two buckets: exact means, no sampling."""
    u_D, columns = [Fraction(3), Fraction(-5), Fraction(7)], 2
    first, second, count = Fraction(0), Fraction(0), 0
    for buckets in np.ndindex(columns, columns, columns):
        for flips in np.ndindex(2, 2, 2):
            signs = [2 * flip - 1 for flip in flips]
            table = [sum(s * u for s, u, b in zip(signs, u_D, buckets, strict=True) if b == c) for c in range(columns)]
            miss = signs[0] * table[buckets[0]] - u_D[0]
            first, second, count = first + miss, second + miss * miss, count + 1
    assert first == 0
    assert second / count == (u_D[1] ** 2 + u_D[2] ** 2) / columns < sum(u * u for u in u_D) / columns


def test_heavy_hitters_are_found():
    """Ten coordinates of 1 in noise of 0.01 are among the twenty largest estimates; others may collide with them."""
    rng = np.random.default_rng(2)
    u_D = 0.01 * rng.standard_normal(5000)
    heavy = np.sort(rng.choice(5000, 10, replace=False))
    u_D[heavy] = 1.0
    sketch = CountSketch(rows=5, columns=200)
    assert set(heavy) < set(largest(sketch.estimate(sketch.sketch(u_D), 5000), 20))


def conserves(optimizer, **kwargs):
    """d + Delta_t = mean_i m_i + Delta_{t-1}, and d is exact where it is not 0."""
    for before, grads_ND, after in exact_steps(optimizer, dim=40, **kwargs):
        m_ND = optimizer.beta1 * before.slots["momentum_ND"] + (1 - optimizer.beta1) * grads_ND
        step_D = (before.params - after.params) / optimizer.lr
        if not same(step_D + after.total_error, mean(m_ND) + before.total_error) or not same(
            after.momentum, mean(m_ND)
        ):
            return False
        chosen_D = step_D != 0
        if after.worker_errors[:, chosen_D].any() or after.slots["momentum_ND"][:, chosen_D].any():
            return False
        if not same(after.worker_errors[:, ~chosen_D], (before.worker_errors + m_ND)[:, ~chosen_D]):
            return False
    return bool(after.total_error.any())


@dataclass(frozen=True, kw_only=True)
class AppliesEstimates(SketchedSGD):
    """Bug: no second round, the estimates themselves are applied."""

    def update(self, state, grads_ND):
        after, dim = super().update(state, grads_ND), grads_ND.shape[1]
        sketch = CountSketch(self.rows, self.columns, self.seed)
        estimate_D = sketch.estimate(sketch.sketch(mean(state.worker_errors + grads_ND)), dim)
        return replace(after, params=state.params - self.lr * estimate_D * (after.params != state.params))


@dataclass(frozen=True, kw_only=True)
class KeepsErrors(SketchedSGD):
    """Bug: what was applied stays in the errors."""

    def update(self, state, grads_ND):
        return replace(super().update(state, grads_ND), worker_errors=state.worker_errors + grads_ND)


SMALL = {"lr": RATE, "density": 0.1, "columns": 6, "rows": 3}


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("beta1", [0, QUARTER])
def test_what_sketched_sgd_conserves(n_workers, beta1):
    assert conserves(SketchedSGD(**SMALL, beta1=beta1), n_workers=n_workers)


@pytest.mark.parametrize("bug", [AppliesEstimates, KeepsErrors])
def test_planted_bugs_break_the_law(bug):
    assert not conserves(bug(**SMALL))


def test_keeping_everything_is_sgd_whatever_the_sketch_says():
    decay = {"lr": RATE, "weight_decay": QUARTER}
    for (*_, a), (*_, b) in zip(
        exact_steps(SketchedSGD(**decay, density=1, columns=1)), exact_steps(SGD(**decay)), strict=True
    ):
        assert same(a.params, b.params)
        assert not a.worker_errors.any()
    first = next(exact_steps(SketchedSGD(lr=RATE, beta1=QUARTER, density=1)))[2]
    assert same(first.params, next(exact_steps(MomentumSGD(lr=RATE, beta1=QUARTER)))[2].params)


@pytest.mark.parametrize(("n_workers", "dim"), [(1, 9), (4, 65)])
def test_bytes_and_rounds(n_workers, dim):
    """A dense all-reduce of the table and one of P k numbers: two rounds a step, the same for every D."""
    optimizer = SketchedSGD(lr=0.1, density=0.1, candidates=3, rows=3, columns=7)
    kept = min(dim, 3 * -(-dim // 10))
    a_step = dense_allreduce_bytes(3 * 7, n_workers) + dense_allreduce_bytes(kept, n_workers)
    for _, _, after in float_steps(optimizer, n_workers=n_workers, dim=dim):
        assert after.bytes_on_wire == after.step * a_step
        assert after.rounds == 2 * after.step


def test_a_resumed_run_goes_on_bit_for_bit():
    assert resumes_exactly(SketchedSGD(lr=0.1, beta1=0.9))


@pytest.mark.parametrize("beta1", [0.0, 0.5])
def test_it_learns_and_does_so_again(beta1):
    assert learns(SketchedSGD(lr=0.3, beta1=beta1, density=0.1))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": 4}, "rows must be odd, got 4"),
        ({"columns": 0}, "columns must be an integer >= 1, got 0"),
        ({"density": 2}, r"density must lie in \(0, 1\], got 2"),
        ({"candidates": 0}, "candidates must be an integer >= 1, got 0"),
    ],
)
def test_bad_settings(change, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        SketchedSGD(**({"lr": 1.0} | change))


def test_floats_estimate_in_their_own_precision():
    assert CountSketch(rows=1, columns=3).sketch(floats(np.random.default_rng(0), 9)).dtype == np.float32
