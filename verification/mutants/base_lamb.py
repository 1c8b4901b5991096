"""A correct 1-bit LAMB in float32 around the correct 1-bit Adam; every decision is a method that a mutant replaces."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import Array, LambSnapshot


class BaseLamb(BaseOptimizer):
    """What a layer has one number of is kept at each of its elements."""

    algorithm: ClassVar[str] = "one_bit_lamb"
    extensions: ClassVar[tuple[str, ...]] = ("scale_block", "frozen_dtype")
    hyper: Any

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        super().start(params_D, n_workers, hyper)
        self.layers = hyper.slices(params_D.size)
        nothing_D = np.zeros_like(params_D)
        self.c_D, self.fresh_D = nothing_D.copy(), nothing_D.copy()
        self.s_D, self.r_D = nothing_D + np.float32(1), nothing_D + np.float32(1)

    def by_layer(self, function: Any, *arrays: Array) -> Array:
        """One number of each layer, at each of its elements."""
        found_D = np.empty_like(self.v_D)
        for layer in self.layers:
            found_D[layer] = function(*(array[layer] for array in arrays))
        return found_D

    def norm(self, values: Array) -> float:
        """Of one layer, in float64."""
        return float(np.sqrt(np.square(values, dtype=np.float64).sum()))

    def move(self, m_D: Array, denominator_D: Array, live_D: Array, g_D: Array) -> None:
        """A step of LAMB, by c in the warm-up and by c-bar r after it."""
        direction_D = m_D / denominator_D
        if self.frozen:
            trust_D = self.applied_trust()
        else:
            trust_D = self.by_layer(self.trust_ratio, self.x_ND[0], self.trusted(direction_D))
            self.c_D = self.next_trust_mean(self.c_D, trust_D)
        for i in range(self.n):
            update_D = np.float32(self.hyper.lr) * self.update(trust_D, direction_D, self.x_ND[i])
            self.x_ND[i] = np.where(live_D, self.x_ND[i] - update_D, self.x_ND[i])

    def update(self, trust_D: Array, direction_D: Array, x_D: Array) -> Array:
        """c (P m + lambda x)."""
        return trust_D * (direction_D + self.decay(x_D))

    def trusted(self, direction_D: Array) -> Array:
        """What the trust ratio measures the length of: P m + lambda x."""
        return direction_D + self.decay(self.x_ND[0])

    def trust_ratio(self, weights: Array, update: Array) -> Any:
        """c of one layer."""
        x, r = self.norm(weights), self.norm(update)
        return np.clip(x / r if x > 0 and r > 0 else 1.0, self.hyper.min_trust, self.hyper.max_trust)

    def next_trust_mean(self, mean_D: Array, trust_D: Array) -> Array:
        """decay c-bar + (1 - decay) c."""
        decay = self.hyper.trust_decay
        return np.float32(decay) * mean_D + np.float32(1 - decay) * trust_D

    def applied_trust(self) -> Array:
        """c-bar r."""
        return self.c_D * self.r_D

    def freeze(self) -> None:
        """The layers get their scales, and v' begins."""
        super().freeze()
        self.s_D, self.fresh_D = self.layer_scales(), self.first_fresh_variance()

    def first_fresh_variance(self) -> Array:
        """A copy of the frozen v."""
        return self.v_D.copy()

    def layer_rms(self, momentum: Array) -> float:
        """Of the momentum of one layer."""
        return self.norm(momentum) / momentum.size**0.5

    def layer_scales(self) -> Array:
        """The mean of the layers' RMS over the own; 1 where that is 0."""
        common = sum(self.layer_rms(self.m_D[layer]) for layer in self.layers) / len(self.layers)
        return self.by_layer(lambda m: self.layer_scale(common, self.layer_rms(m)), self.m_D)

    def layer_scale(self, common: float, own: float) -> float:
        """Of one layer."""
        return common / own if own > 0 else 1.0

    def local_momentum(self, i: int, grads_ND: Array) -> Array:
        """s m_i."""
        return self.sent_scale() * super().local_momentum(i, grads_ND)

    def sent_scale(self) -> Array:
        """s, as the workers multiply by it."""
        return self.s_D

    def exchange(self, local_ND: Array, live_D: Array) -> None:
        """What is received is divided by s; it tells the gradient, and that tells v' and r."""
        old_D = self.m_D
        super().exchange(local_ND, live_D)
        self.m_D = self.m_D / self.received_scale()
        g_D = self.rebuilt(old_D, self.m_D)
        self.fresh_D = self.next_fresh_variance(self.fresh_D, g_D)
        self.r_D = self.next_ratio(live_D)

    def received_scale(self) -> Array:
        """s, as what is received is divided by it."""
        return self.s_D

    def rebuilt(self, old_D: Array, new_D: Array) -> Array:
        """(m - beta1 m before) / (1 - beta1)."""
        beta1 = self.hyper.beta1
        return (new_D - np.float32(beta1) * old_D) / np.float32(1 - beta1)

    def next_fresh_variance(self, fresh_D: Array, g_D: Array) -> Array:
        """beta2 v' + (1 - beta2) g'^2."""
        return np.float32(self.hyper.beta2) * fresh_D + np.float32(1 - self.hyper.beta2) * (g_D * g_D)

    def next_ratio(self, live_D: Array) -> Array:
        """r, cut to its range and to what it may change by."""
        eps = np.float32(self.hyper.eps)
        ratio_D = (np.sqrt(self.v_D) + eps) / (np.sqrt(self.fresh_D) + eps)
        found_D = self.by_layer(self.largest_ratio, ratio_D, live_D)
        return self.near_the_last(np.clip(found_D, np.float32(self.hyper.min_ratio), np.float32(self.hyper.max_ratio)))

    def largest_ratio(self, ratio: Array, live: Array) -> Any:
        """Of the live elements of one layer."""
        return ratio[live].max() if live.any() else 0.0

    def near_the_last(self, ratio_D: Array) -> Array:
        """Within the change that is allowed."""
        change = self.hyper.ratio_change
        return np.clip(ratio_D, self.r_D * np.float32(1 - change), self.r_D * np.float32(1 + change))

    def snapshot(self) -> Any:
        """Copies."""
        arrays = (self.x_ND, self.m_D, self.v_D, self.e_ND, self.E_D, self.c_D, self.s_D, self.fresh_D, self.r_D)
        return LambSnapshot(*(array.copy() for array in arrays), step=self.t)

    SAVED: ClassVar[tuple[str, ...]] = (*BaseOptimizer.SAVED, "c_D", "s_D", "fresh_D", "r_D")
