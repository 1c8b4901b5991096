"""A run of the compressed phase on a small finite probability space: every variable of the convergence theorems.

Two workers toss a coin each in every step, which is their gradient noise; an outcome is the sequence of all tosses, so
expectations are exact. f is a quadratic, the workers' functions differ by a linear term, and both compressors are the
scaled sign with the l1 scale. Every number has few bits, so float64 rounds none of them, and the run meets the
hypotheses exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from theory.evaluate import evaluate
from theory.notation import noise
from theory.rationals import RATIONALS

STEPS, WORKERS, DIM = 2, 2, 2
OUTCOMES = 4**STEPS
BETA1, START = 0.5, np.array([1.0, -0.75])
CURVATURE_D, P_D = np.array([1.0, 0.5]), np.array([1.0, 4.0])
SHIFT_ND = np.array([[0.125, -0.125], [-0.125, 0.125]])
NOISE_D = np.array([0.375, 0.25])
CONTRACTION = 0.75
"""Above the root of 1 - 1/d (L10)."""


def above(value: Any) -> float:
    """The next multiple of 2^-20: a short number that bounds a long one."""
    return float(np.ceil(np.ldexp(value, 20)) / 2**20)


def compressed(u: np.ndarray) -> np.ndarray:
    """The scaled sign along the last axis."""
    return np.abs(u).mean(-1, keepdims=True) * np.where(u >= 0, 1.0, -1.0)


def objective(x: Any) -> float:
    """f at a vector of which the first ``DIM`` entries count."""
    return float((CURVATURE_D * np.asarray(x)[:DIM] ** 2).sum() / 2)


def gradient(x: Any) -> np.ndarray:
    """Gradient of f."""
    return CURVATURE_D * np.asarray(x)[:DIM]


def worker_gradient(i: int, x: Any) -> np.ndarray:
    """Gradient of worker i's function."""
    return gradient(x) + SHIFT_ND[i]


def tosses() -> np.ndarray:
    """-1 or 1 of each worker in each step, by outcome (STEPS, OUTCOMES, WORKERS)."""
    digits = np.arange(OUTCOMES)[None, :] // 4 ** np.arange(STEPS - 1, -1, -1)[:, None] % 4
    return np.stack([2.0 * (digits // 2) - 1, 2.0 * (digits % 2) - 1], axis=-1)


def run(lr: float, *, update: bool = False) -> dict[str, Any]:
    """Every array, function and number of the theorems, by code name, for ``compress="momentum"`` or ``"update"``.

    Bounds (noise, heterogeneity, error and the start) are the smallest that hold, up to :func:`above`.
    """
    inside, outside = (P_D, np.ones(DIM)) if update else (np.ones(DIM), P_D)
    tossed = tosses()[..., None] * NOISE_D
    x = np.zeros((STEPS + 1, OUTCOMES, DIM)) + START
    m, b = np.zeros_like(x) + 0.125 * inside, np.zeros_like(x)
    delta = np.zeros((STEPS + 1, OUTCOMES, WORKERS, DIM))
    grads, messages = np.zeros_like(tossed), np.zeros_like(tossed)
    for t in range(STEPS):
        grads[t] = (CURVATURE_D * x[t])[:, None] + SHIFT_ND + tossed[t]
        u = BETA1 * m[t][:, None] + (1 - BETA1) * inside * grads[t] + delta[t]
        messages[t] = compressed(u)
        delta[t + 1] = u - messages[t]
        received = messages[t].mean(1) + b[t]
        m[t + 1] = compressed(received)
        b[t + 1] = received - m[t + 1]
        x[t + 1] = x[t] - lr * outside * m[t + 1]
    total = delta.mean(2) + b
    y = x - lr / (1 - BETA1) * outside * (BETA1 * m + total)
    return {
        "n_workers": WORKERS, "dim": DIM, "n_steps": STEPS, "n_outcomes": OUTCOMES, "lr": lr, "beta1": BETA1,
        "probability": np.full(OUTCOMES, 1 / OUTCOMES), "contraction": CONTRACTION,
        "past": np.stack([np.arange(OUTCOMES) // 4 ** (STEPS - t) for t in range(STEPS + 1)]).astype(float),
        "params": x, "momentum": m, "server_error": b, "worker_errors": delta, "grads": grads, "messages": messages,
        "total_error": total, "mean_grad": grads.mean(2), "virtual_iterate": y, "preconditioner": P_D,
        "objective": objective, "gradient": gradient, "worker_gradient": worker_gradient, "lowest": 0.0,
        "minimiser": np.zeros(DIM), "p_max": P_D.max(), "p_min": P_D.min(), "smoothness": CURVATURE_D.max(),
        "smoothness_weighted": above(np.sqrt(P_D * CURVATURE_D**2).max()), "pl_constant": CURVATURE_D.min(),
        "noise": above(np.linalg.norm(inside * NOISE_D)), "similarity": 1.0,
        "heterogeneity": above(np.linalg.norm(inside * SHIFT_ND[0])),
        "error_bound": above(np.sqrt((total[:STEPS] ** 2).sum(2).mean(1).max())),
        "start_gap": objective(y[0, 0]), "start_momentum": above(np.linalg.norm(m[0, 0])),
        "start_distance": float((y[0, 0] ** 2 / P_D).sum()), "gradient_noise": tossed[0],
    }  # fmt: skip


def of(theorem: Any, **changes: Any) -> dict[str, Any]:
    """The part of a run that a theorem's variables ask for; ``lr``, ``update`` and other values may be given."""
    values = run(changes.pop("lr", 2.0**-7), update=changes.pop("update", False)) | changes
    return {row.code: values[row.code] for row in theorem.variables}


def at_rate(theorem: Any, rate: float, step: Any) -> dict[str, Any]:
    """A run whose learning rate is what ``step`` asks for: the bound on the noise is taken as large as that takes."""
    values = of(theorem, lr=rate, start_gap=2.0)
    known = {row.symbol: values[row.code] for row in theorem.variables}
    without, with_one = (evaluate(1 / step, {**known, noise: bound}, RATIONALS) for bound in (0, 1))
    return values | {"noise": (1 / Fraction(rate) - without) / (with_one - without)}
