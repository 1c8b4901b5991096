"""Float32 steps of the reference, each read as a relation between the state before and after (docs/algorithm.md)."""

from __future__ import annotations

import numpy as np
import pytest

from reference import Adam, OneBitAdam
from theory import rounding

HYPER = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.01}


def exact_scale(u, kind):
    return np.abs(u).mean(-1) if kind == "l1" else np.sqrt((u * u).mean(-1))


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_compressed_steps_within_tolerance(kind):
    n, dim, dtype = 4, 200, "float32"
    rng = np.random.default_rng(0)
    optimizer = OneBitAdam(**HYPER, freeze_step=5, scale=kind, server_chunks=1)
    state = optimizer.init(rng.standard_normal(dim).astype(dtype), n)
    worst = dict.fromkeys(("worker", "server", "params"), 0.0)
    for step in range(1, 40):
        grads = (rng.standard_normal((n, dim)) * 10.0 ** rng.uniform(-4, 0, dim)).astype(dtype)
        before, state = state, optimizer.step(state, grads)
        if step <= 5:
            continue
        m, delta, server = (x.astype(np.float64) for x in (before.momentum, before.worker_errors, before.server_error))
        u = 0.9 * m + (1 - 0.9) * grads.astype(np.float64) + delta
        u_tol = rounding.momentum_tolerance(m, grads, delta, 0.9, dtype)
        u_tol = u_tol + rounding.momentum_tolerance(m, grads, delta, 0.9, "float64")
        sure, q = rounding.sign_is_determined(u, u_tol), np.where(u >= 0, 1.0, -1.0)
        s = exact_scale(u, kind)
        s_tol = rounding.scale_tolerance(u, kind, dtype, u_tolerance=u_tol)

        allowed = rounding.error_tolerance(
            u, s[:, None], dtype, signs=q, u_tolerance=u_tol, scale_tolerance=s_tol[:, None]
        )
        off = np.abs(state.worker_errors - (u - s[:, None] * q))
        assert np.all(off[sure] <= allowed[sure])
        worst["worker"] = max(worst["worker"], (off / allowed)[sure].max())

        w = (s[:, None] * q).mean(0) + server
        w_tol = rounding.mean_tolerance(s, server, dtype, scale_tolerances_N=s_tol)
        allowed = rounding.error_tolerance(
            w, np.abs(state.momentum), dtype, signs=np.sign(state.momentum), u_tolerance=w_tol
        )
        off = np.abs(state.server_error.astype(np.float64) + state.momentum - w)
        everywhere = sure.all(axis=0)
        assert everywhere.mean() > 0.9
        assert np.all(off[everywhere] <= allowed[everywhere])
        worst["server"] = max(worst["server"], (off / allowed)[everywhere].max())

        x, after, v = (a.astype(np.float64) for a in (before.params, state.momentum, before.variance))
        exact = x - 1e-3 * (after / (np.sqrt(v) + 1e-8) + 0.01 * x)
        given = {"lr": 1e-3, "eps": 1e-8, "weight_decay": 0.01}
        allowed = rounding.apply_tolerance(x, after, v, **given, dtype=dtype)
        allowed = allowed + rounding.apply_tolerance(x, after, v, **given, dtype="float64")
        off = np.abs(state.params - exact)
        assert np.all(off <= allowed)
        worst["params"] = max(worst["params"], (off / allowed).max())
    assert worst["params"] > 0.1  # not vacuous; the others carry a worst-case reduction depth of d - 1
    assert min(worst.values()) > 0.001, worst


@pytest.mark.parametrize("bias_correction", [False, True])
def test_adam_steps_within_tolerance(bias_correction):
    rng = np.random.default_rng(1)
    optimizer = Adam(**HYPER, bias_correction=bias_correction)
    state = optimizer.init(rng.standard_normal(500).astype("float32"), 3)
    for step in range(1, 20):
        grads = rng.standard_normal((3, 500)).astype("float32")
        x, m, v = (a.astype(np.float64) for a in (state.params, state.momentum, state.variance))
        g = grads.astype(np.float64).mean(0)
        state = optimizer.step(state, grads)
        tolerances = [
            rounding.adam_step_tolerance(
                x,
                m,
                v,
                g,
                **HYPER,
                step=step if bias_correction else None,
                dtype=dtype,
                grads_tolerance=rounding.average_tolerance(grads, dtype),
            )
            for dtype in ("float32", "float64")
        ]
        new_m, new_v = 0.9 * m + (1 - 0.9) * g, 0.99 * v + (1 - 0.99) * g * g
        b1, b2 = (1 - 0.9**step, 1 - 0.99**step) if bias_correction else (1.0, 1.0)
        new_x = x - 1e-3 * (new_m / b1 / (np.sqrt(new_v / b2) + 1e-8) + 0.01 * x)
        for name, exact in (("params", new_x), ("momentum", new_m), ("variance", new_v)):
            allowed = getattr(tolerances[0], name) + getattr(tolerances[1], name)
            assert np.all(np.abs(getattr(state, name) - exact) <= allowed), name
