"""CAME and MERIT against their public formulas, what they keep, their limits and bytes; bugs that are caught."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from family_support import float_steps, learns, mean, resumes_exactly
from reference_support import floats, fractions, same

from reference import CAME, MERIT, Adam
from reference.allreduce import dense_allreduce_bytes
from reference.optimizers.came import factors
from reference.optimizers.merit import by_maxima
from theory.rounding import gamma

SHAPES = [[5, 4], [4], [13, 1]]
DIGITS_SHAPES = [[64, 16], [16], [16, 10], [10]]
SLACK = gamma(256, "float64")
"""Both sides are sums of at most 20 terms and some 40 operations a number, from the same state before."""


def test_the_factored_matrix_has_the_row_and_column_means_that_are_kept():
    rng = np.random.default_rng(0)
    squares_RC = fractions(rng, 5, 4) ** 2
    row_R1, column_C = factors(squares_RC.sum(axis=1) / 4, squares_RC.sum(axis=0) / 5)
    V_RC = row_R1 * column_C
    assert same(V_RC.sum(axis=1) / 4, squares_RC.sum(axis=1) / 4)
    assert same(V_RC.sum(axis=0) / 5, squares_RC.sum(axis=0) / 5)
    rank_one_RC = np.outer(fractions(rng, 5) ** 2, fractions(rng, 4) ** 2)
    row_R1, column_C = factors(rank_one_RC.sum(axis=1) / 4, rank_one_RC.sum(axis=0) / 5)
    assert same(row_R1 * column_C, rank_one_RC)


def public_came(x, m, kept, g, lr=0.01, b=(0.9, 0.999, 0.9999), eps=(1e-30, 1e-16), clip=1.0, decay=0.1):
    """One array of CAME in the order of github.com/yangluo7/CAME, in float64; ``kept`` are its running means."""

    def inverse_root(name, squares, beta):
        row, column = kept.get(name, (0.0, 0.0))
        row, column = (beta * old + (1 - beta) * squares.mean(axis=a) for old, a in ((row, 1), (column, 0)))
        kept[name] = row, column
        return np.outer(1 / np.sqrt(row / row.mean()), 1 / np.sqrt(column))

    if g.ndim == 2:
        u = inverse_root("v", g**2 + eps[0], b[1]) * g
    else:
        kept["v"] = b[1] * kept.get("v", 0.0) + (1 - b[1]) * (g**2 + eps[0])
        u = g / np.sqrt(kept["v"])
    u = u / max(1.0, np.sqrt((u**2).mean()) / clip)
    m = b[0] * m + (1 - b[0]) * u
    step = inverse_root("s", (u - m) ** 2 + eps[1], b[2]) * m if g.ndim == 2 else m
    return x - lr * decay * x - lr * step, m


def is_came(cls, clip=1.0):
    kept = [{} for _ in SHAPES]
    for before, grads_ND, after in float_steps(
        cls(lr=0.01, weight_decay=0.1, shapes=SHAPES, clip=clip), dtype=np.float64
    ):
        grad_D = mean(grads_ND)
        for k, (shape, part) in enumerate(zip(SHAPES, [slice(0, 20), slice(20, 24), slice(24, 37)], strict=True)):
            x, m = (array[part].reshape(shape) for array in (before.params, before.momentum))
            x, m = public_came(x, m, kept[k], grad_D[part].reshape(shape), clip=clip)
            if np.abs(after.params[part].reshape(shape) - x).max() > SLACK * (1 + np.abs(x).max()):
                return False
            if np.abs(after.momentum[part].reshape(shape) - m).max() > SLACK * (1 + np.abs(m).max()):
                return False
    return True


@dataclass(frozen=True, kw_only=True)
class NoConfidence(CAME):
    """Bug: the instability has the decay of the second moment, so confidence is gained too fast."""

    @staticmethod
    def remember_means(slots, number, squares_RC, beta, prefix=""):
        return CAME.remember_means(slots, number, squares_RC, 0.999, prefix)


def test_came_is_the_public_formula():
    assert is_came(CAME)
    assert is_came(CAME, clip=0.25)
    assert not is_came(NoConfidence)


def test_came_remembers_rows_and_columns_only():
    """2 (r + c) numbers for each matrix, beside the momentum and the variance of vectors."""
    state = CAME(lr=1.0, shapes=SHAPES).init(np.ones(37), 2)
    assert sum(array.size for array in state.slots.values()) == 2 * (5 + 4) + 2 * (13 + 1)


def test_coordinates_without_gradient_stay_finite_in_float32():
    optimizer = CAME(lr=0.01, shapes=[[6, 4]])
    state = optimizer.init(np.ones(24, np.float32), 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        grads_ND = floats(rng, 2, 24)
        grads_ND[:, :8] = grads_ND[:, 11::4] = 0  # two rows and a column
        state = optimizer.step(state, grads_ND)
    assert np.isfinite(state.params).all()
    assert (state.params[:8] == 1).all()
    moved_D = state.params[8:].reshape(4, 4) != 1
    assert moved_D[:, :3].all()
    assert not moved_D[:, 3].any()


def public_merit(x, m, v, g, lr=0.01, b=(0.9, 0.999), eps=1e-6, decay=0.1):
    """One array of MERIT as its authors' code has it, element by element in float64."""
    m, v = b[0] * m + (1 - b[0]) * g, b[1] * v + (1 - b[1]) * g * g
    u = m / (np.sqrt(v) + eps) + decay * x
    new = x.copy()
    for index in np.ndindex(x.shape):
        if x.ndim == 1:
            maxima = [(np.abs(x).max(), np.abs(u).max())]
        else:
            j, k = index
            maxima = [(np.abs(a[0]).max(), np.abs(a[1]).max()) for a in ((x[j], u[j]), (x[:, k], u[:, k]), (x, u))]
        ratio = max(a / b for a, b in maxima) if all(a > 0 and b > 0 for a, b in maxima) else 1.0
        new[index] = x[index] - lr * np.clip(ratio * u[index], -1, 1)
    return new


def is_merit(cls):
    optimizer = cls(lr=0.01, weight_decay=0.1, shapes=SHAPES)
    for before, grads_ND, after in float_steps(optimizer, dtype=np.float64):
        grad_D = mean(grads_ND)
        for shape, part in zip(SHAPES, [slice(0, 20), slice(20, 24), slice(24, 37)], strict=True):
            x, m, v, g = (a[part].reshape(shape) for a in (before.params, before.momentum, before.variance, grad_D))
            expected = public_merit(x, m, v, g)
            if np.abs(after.params[part].reshape(shape) - expected).max() > SLACK * (1 + np.abs(x).max()):
                return False
    return True


@dataclass(frozen=True, kw_only=True)
class OneRatio(MERIT):
    """Bug: a matrix is treated as a vector."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "shapes", [[int(np.prod(shape))] for shape in self.shapes])


def test_merit_is_the_public_formula():
    assert is_merit(MERIT)
    assert not is_merit(OneRatio)


def test_merits_ratios_by_hand():
    x_RC = np.array([[Fraction(4), Fraction(1)], [Fraction(0), Fraction(2)]])
    u_RC = np.array([[Fraction(2), Fraction(-4)], [Fraction(1), Fraction(1)]])
    assert by_maxima(x_RC, u_RC).tolist() == [[4, -4], [2, 2]]
    assert by_maxima(x_RC * 0, u_RC).tolist() == u_RC.tolist()
    assert by_maxima(x_RC[0], u_RC[0]).tolist() == [2, -4]


def stays_a_number(by_maxima):
    """A column whose update has shrunk to the smallest numbers of float32, beside a row of ordinary ones."""
    tiny = np.finfo(np.float32).smallest_subnormal
    x_RC, u_RC = np.ones((2, 3), np.float32), np.array([[1, tiny, 0], [1, 0, 0]], np.float32)
    with np.errstate(all="ignore"):
        return np.isfinite(by_maxima(x_RC, u_RC)).all()


def ratio_first(weights, update):
    """Bug: c is formed before it is multiplied."""
    maxima = [[abs(a).max(axis=axis, keepdims=True) for a in (weights, update)] for axis in (None, 0, 1)]
    return np.maximum.reduce(np.broadcast_arrays(*[x / np.where(r > 0, r, 1) for x, r in maxima])) * update


def test_merit_survives_a_column_without_gradient():
    assert stays_a_number(by_maxima)
    assert not stays_a_number(ratio_first)


def test_merit_on_weights_of_zero_is_adam_and_no_coordinate_moves_further_than_the_rate():
    ours, adam = MERIT(lr=0.01, shapes=SHAPES), Adam(lr=0.01, eps=1e-6, bias_correction=False)
    rng = np.random.default_rng(0)
    grads_ND = 1e-6 * floats(rng, 3, 37)  # so small that eps keeps the step below 1
    zero_D = np.zeros(37, np.float32)
    a, b = (one.step(one.init(zero_D, 3), grads_ND) for one in (ours, adam))
    assert same(a.params, b.params)
    assert a.params.any()
    for before, _, after in float_steps(MERIT(lr=0.125, shapes=SHAPES)):
        assert (np.abs(after.params - before.params) <= 0.125 + gamma(2, "float32") * np.abs(before.params)).all()


@pytest.mark.parametrize("cls", [CAME, MERIT])
def test_bytes_and_rounds(cls):
    for _, _, after in float_steps(cls(lr=0.01, shapes=SHAPES)):
        assert after.bytes_on_wire == after.step * dense_allreduce_bytes(37, 3)
        assert after.rounds == after.step


@pytest.mark.parametrize("cls", [CAME, MERIT])
def test_a_resumed_run_goes_on_bit_for_bit(cls):
    assert resumes_exactly(cls(lr=0.01, shapes=SHAPES))


@pytest.mark.parametrize("optimizer", [CAME(lr=3e-3, shapes=DIGITS_SHAPES), MERIT(lr=0.01, shapes=DIGITS_SHAPES)])
def test_it_learns_and_does_so_again(optimizer):
    assert learns(optimizer)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: CAME(lr=1.0, beta3=1.0), r"beta3 must lie in \[0, 1\), got 1.0"),
        (lambda: CAME(lr=1.0, eps1=0), "eps1 must be a finite number > 0, got 0"),
        (lambda: CAME(lr=1.0, clip=0), "clip must be a finite number > 0, got 0"),
        (lambda: MERIT(lr=1.0, shapes=[]), r"shapes must be None or a list of shapes, got \[\]"),
    ],
)
def test_bad_settings(make, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        make()
