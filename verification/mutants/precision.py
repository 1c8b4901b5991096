"""Family: too few bits, somewhere inside."""

from __future__ import annotations

import numpy as np

from theory.rounding import round_to
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


def _bf16(values):
    return round_to(values, "bfloat16").astype(np.float32)


def _fp16(values):
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float32)


class Bfloat16Accumulator(BaseCollective):
    """The sum of squares is kept in bfloat16."""

    def norm_scale(self, u, count):
        total = float(_bf16(np.square(u.astype(np.float64)).sum()))
        return np.sqrt(total / max(count, 1))


class Bfloat16Errors(BaseCollective):
    """Worker errors are kept in bfloat16."""

    def worker_error(self, u_D, s, signs_D, i):
        return _bf16(u_D - s * signs_D)


class Float16ServerErrors(BaseCollective):
    """Server errors are kept in float16."""

    def server_error(self, w_C, S, Q_C, j):
        return _fp16(w_C - S * Q_C)


class Bfloat16Mean(BaseCollective):
    """The average at the server is formed in bfloat16."""

    def server_input(self, parts, error_C, j):
        return _bf16(super().server_input(parts, error_C, j))


class Bfloat16U(BaseCollective):
    """u is rounded to bfloat16 before it is compressed."""

    def worker_input(self, buffer_D, error_D):
        return _bf16(buffer_D + error_D)


class Float16Scale(BaseCollective):
    """The worker's scale is sent in float16, its error computed with the float32 one."""

    def worker_message(self, signs_D, s):
        return _fp16(s) * signs_D


class OutputInBfloat16(BaseCollective):
    """The output is rounded to bfloat16 after the server error was computed."""

    def server_output(self, w_C, S, Q_C, j):
        return _bf16(S * Q_C)


class FixedPointSum(BaseCollective):
    """l1 sums in fixed point with 2^-34 as its unit: right near 1, wrong for small numbers."""

    scale = "l1"

    def norm_scale(self, u, count):
        return np.rint(np.abs(u.astype(np.float64)).sum() * 2.0**34) * 2.0**-34 / max(count, 1)


class Bfloat16Momentum(BaseOptimizer):
    """The worker's momentum is formed in bfloat16."""

    def local_momentum(self, i, grads_ND):
        return _bf16(super().local_momentum(i, grads_ND))


class Bfloat16Variance(BaseOptimizer):
    """The variance is kept in bfloat16."""

    def next_variance(self, v_D, g_D, grads_ND):
        return _bf16(super().next_variance(v_D, g_D, grads_ND))


class Float16Update(BaseOptimizer):
    """The update is rounded to float16 before it is applied."""

    def move(self, m_D, denominator_D, live_D, g_D):
        super().move(_fp16(m_D / denominator_D), np.ones_like(m_D), live_D, g_D)


class ApproximateRoot(BaseOptimizer):
    """The denominator uses an approximate reciprocal root, good to 10 bits."""

    def denominator(self, v_D, correction):
        return (
            _fp16(np.sqrt(v_D)) + np.float32(self.hyper.eps)
            if v_D.max() < 6e4
            else super().denominator(v_D, correction)
        )
