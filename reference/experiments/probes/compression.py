"""What the error bounds T5 and the contraction law L10 speak about: gradient sizes, contraction factors, phi."""

from __future__ import annotations

import numpy as np

from reference.arithmetic import Array
from reference.experiments.probes.base import Probe
from reference.optimizers import Optimizer
from reference.optimizers.one_bit_adam import OneBitAdam
from reference.problems import Problem
from reference.state import State


class Compression(Probe):
    """The hypotheses of T5, as this run fulfils them, and the shape of what is compressed.

    Columns, over the steps so far, the warm-up included:
        grad_norm_max: G, the largest root mean square over workers of ||g_i||.
        heterogeneity_max: H, the largest root mean square over workers of ||g_i - g-bar||.
    and over the compressions so far (0 or NaN before the first one):
        contraction_max: q, the largest ||u - C(u)|| / ||u|| of any worker or of the server.
        worker_phi, server_phi: phi = ||u||_1^2 / (d ||u||_2^2) of the last step, mean over workers; d counts live
            coordinates. The server's is that of its whole vector, not of a chunk.
    """

    def __init__(self, problem: Problem, optimizer: Optimizer) -> None:
        super().__init__(problem, optimizer)
        if not isinstance(optimizer, OneBitAdam):
            raise ValueError("the probe 'compression' needs 1-bit Adam or one of its ablations")
        self.beta1 = optimizer.beta1
        self.grad_norm = self.heterogeneity = self.contraction = 0.0
        self.worker_phi = self.server_phi = float("nan")

    def observe(self, before: State, grads_ND: Array, after: State) -> None:
        self.grad_norm = max(self.grad_norm, rms_norm(grads_ND))
        self.heterogeneity = max(self.heterogeneity, rms_norm(grads_ND - grads_ND.mean(axis=0)))
        if before.frozen_at is None:
            return
        live_D = slice(None) if before.live is None else before.live
        u_ND = (self.beta1 * before.momentum + (1 - self.beta1) * grads_ND + before.worker_errors)[:, live_D]
        w_D = (after.momentum + after.server_error)[live_D]
        wholes = np.vstack([u_ND, w_D]).astype(np.float64)
        left = np.vstack([after.worker_errors[:, live_D], after.server_error[live_D]]).astype(np.float64)
        sizes = np.linalg.norm(wholes, axis=1)
        ratios = np.linalg.norm(left, axis=1)[sizes > 0] / sizes[sizes > 0]
        self.contraction = max(self.contraction, *ratios, 0.0)
        phis = phi(wholes)
        self.worker_phi, self.server_phi = float(phis[:-1].mean()), float(phis[-1])

    def row(self, state: State) -> dict[str, float]:
        return {
            "grad_norm_max": self.grad_norm,
            "heterogeneity_max": self.heterogeneity,
            "contraction_max": self.contraction,
            "worker_phi": self.worker_phi,
            "server_phi": self.server_phi,
        }


def rms_norm(rows_ND: Array) -> float:
    """Root of the mean over rows of ||row||^2, in float64."""
    return float(np.sqrt(np.square(rows_ND, dtype=np.float64).sum(axis=1).mean()))


def phi(rows_ND: Array) -> Array:
    """||u||_1^2 / (d ||u||_2^2) of each row, NaN for a row of zeros (N,) [L10]."""
    squares_N = np.square(rows_ND).sum(axis=1)
    squares_N[squares_N == 0] = np.nan
    return np.abs(rows_ND).sum(axis=1) ** 2 / (rows_ND.shape[1] * squares_N)
