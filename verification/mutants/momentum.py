"""Family: the momentum that is compressed."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_optimizer import BaseOptimizer


class ResetAtTheFreeze(BaseOptimizer):
    """The momentum starts from zero in the compression stage."""

    def local_momentum(self, i, grads_ND):
        first = self.t == self.hyper.freeze_step + 1
        return self.next_momentum(np.zeros_like(self.m_D) if first else self.m_D, grads_ND[i])


class ForgottenAtTheFreeze(BaseOptimizer):
    """The state's momentum is zeroed together with the zero-variance coordinates."""

    def freeze(self):
        super().freeze()
        self.m_D = np.zeros_like(self.m_D)


class OwnMomentum(BaseOptimizer):
    """A worker goes on from its own momentum, not from the one that was received."""

    def local_momentum(self, i, grads_ND):
        if self.t == self.hyper.freeze_step + 1 or len(getattr(self, "own_ND", ())) != self.n:
            self.own_ND = np.tile(self.m_D, (self.n, 1))
        self.own_ND[i] = self.next_momentum(self.own_ND[i], grads_ND[i])
        return self.own_ND[i]


class MeanGradientCompressed(BaseOptimizer):
    """Every worker compresses the momentum of the mean gradient: an all-reduce of 32 bits went before."""

    def local_momentum(self, i, grads_ND):
        return self.next_momentum(self.m_D, grads_ND.mean(axis=0))


class GradientCompressed(BaseOptimizer):
    """The workers compress gradients; the momentum is formed from the result."""

    def local_momentum(self, i, grads_ND):
        return grads_ND[i]


class DampeningForgotten(BaseOptimizer):
    """beta1 m + g in the compression stage."""

    def local_momentum(self, i, grads_ND):
        return np.float32(self.hyper.beta1) * self.m_D + grads_ND[i]


class SwappedWeights(BaseOptimizer):
    """(1 - beta1) m + beta1 g in the compression stage."""

    def local_momentum(self, i, grads_ND):
        return np.float32(1 - self.hyper.beta1) * self.m_D + np.float32(self.hyper.beta1) * grads_ND[i]


class FirstBetaRoundedToBfloat16(BaseOptimizer):
    """beta1 is held in bfloat16: 0.8984375 for 0.9."""

    def local_momentum(self, i, grads_ND):
        beta1 = np.float32(np.ldexp(np.rint(np.ldexp(self.hyper.beta1, 8)), -8))
        return beta1 * self.m_D + (1 - beta1) * grads_ND[i]


class IdleWorkerSendsNothing(BaseOptimizer):
    """A worker whose gradient is all zero contributes 0, not beta1 m."""

    def local_momentum(self, i, grads_ND):
        return super().local_momentum(i, grads_ND) if grads_ND[i].any() else np.zeros_like(self.m_D)


class LerpTheWrongWay(BaseOptimizer):
    """Warm-up momentum m + beta1 (g - m)."""

    def next_momentum(self, m_D, g_D):
        return m_D + np.float32(self.hyper.beta1) * (g_D - m_D) if not self.frozen else super().next_momentum(m_D, g_D)
