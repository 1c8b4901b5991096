"""Inputs for the reference's tests: exact arrays, and random states of every size that has ever been a bug."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reference import OneBitAdam
from theory import rounding

SMALL_SIZES = [1, 7, 8, 9, 63, 65]
LARGE_SIZE = 1000003
WORKERS = [1, 2, 3, 5, 8, 16]


def fractions(rng, *shape, zeros=0.0):
    """Random Fractions k/8 with abs(k) <= 40; a share ``zeros`` of them is exactly 0."""
    k = rng.integers(-40, 41, shape)
    k[rng.random(shape) < zeros] = 0
    return np.array([Fraction(int(value), 8) for value in k.flat], dtype=object).reshape(shape)


def odd_fractions(rng, *shape):
    """Like ``fractions``, but never 0."""
    return fractions(rng, *shape) * 0 + (2 * rng.integers(-20, 20, shape).astype(object) + 1) * Fraction(1, 8)


def floats(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def exact_optimizer(cls=OneBitAdam, **hyper):
    """1-bit Adam whose every number is rational: v after one warm-up step is (g/2)^2, so that its root is rational."""
    defaults = {
        "lr": Fraction(1, 16),
        "beta1": Fraction(3, 4),
        "beta2": Fraction(3, 4),
        "eps": Fraction(1, 32),
        "freeze_step": 1,
        "scale": "l1",
        "variance_floor": 0,
    }
    return cls(**(defaults | hyper))


def exact_run(optimizer, rng, n_workers, dim, *, steps, zeros=0.1):
    """Yield (state before, gradients, state after) of the compressed steps of an exact run."""
    state = optimizer.init(fractions(rng, dim), n_workers)
    state = optimizer.step(state, fractions(rng, n_workers, dim, zeros=zeros))
    assert state.frozen_at == 1
    for _ in range(steps):
        grads_ND = fractions(rng, n_workers, dim, zeros=zeros)
        after = optimizer.step(state, grads_ND)
        yield state, grads_ND, after
        state = after


def same(a, b):
    """Bitwise equality of two arrays, so that NaN equals NaN and -0.0 differs from 0.0; == for Fractions."""
    if object in (a.dtype, b.dtype):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_state(a, b):
    if set(a.slots) != set(b.slots) or not all(same(a.slots[name], b.slots[name]) for name in a.slots):
        return False
    return all(
        same(x, y) if isinstance(x := getattr(a, name), np.ndarray) else x == getattr(b, name)
        for name in a.__dataclass_fields__
        if name != "slots"
        for y in [getattr(b, name)]
    )


def l1_residual(before, grads_ND, after, beta1):
    """By how much a compressed step misses L1: what it sent and kept, against what was asked for and owed; (D,)."""
    left_D = after.momentum + after.worker_errors.mean(axis=0, dtype=np.float64) + after.server_error
    asked_D = beta1 * before.momentum.astype(np.float64) + (1 - beta1) * grads_ND.mean(axis=0, dtype=np.float64)
    owed_D = before.worker_errors.mean(axis=0, dtype=np.float64) + before.server_error
    return np.abs(left_D - asked_D - owed_D)


def l1_tolerance(before, grads_ND, after, beta1):
    """What rounding may do to L1 in one step: every u_i, every error, the average, the server error; then our own sums.

    The terms are the bounds of theorem T11 for each rounded operation; float64 sums of at most N + 4 float32 terms add
    gamma_{N+4} of float64.
    """
    n = len(grads_ND)
    u_ND = np.float64(beta1) * before.momentum + np.float64(1 - beta1) * grads_ND + before.worker_errors
    u_tolerance_ND = np.stack(
        [
            rounding.momentum_tolerance(before.momentum, g_D, e_D, beta1, "float32", form="product")
            for g_D, e_D in zip(grads_ND, before.worker_errors, strict=True)
        ]
    )
    left_ND = np.abs(after.worker_errors.astype(np.float64))
    u = rounding.unit_roundoff("float32")
    error_tolerance_ND = u / (1 - u) * left_ND  # fl(u - s q) is one rounding of what it is compared with
    scales_N = np.abs(u_ND - after.worker_errors).max(axis=1) * (1 + rounding.gamma(8, "float32"))
    mean_tolerance_D = rounding.mean_tolerance(scales_N, before.server_error, "float32")
    server_tolerance_D = u / (1 - u) * np.abs(after.server_error.astype(np.float64))
    size_D = np.abs(u_ND).mean(axis=0) + left_ND.mean(axis=0) + np.abs(after.momentum) + np.abs(before.server_error)
    own_D = rounding.gamma(n + 4, "float64") * 4 * size_D
    return u_tolerance_ND.mean(axis=0) + error_tolerance_ND.mean(axis=0) + mean_tolerance_D + server_tolerance_D + own_D
