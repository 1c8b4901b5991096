"""1-bit LAMB: Algorithm 1 of Li et al. 2021 (HiPC 2022, arXiv 2104.06069).

Warm-up, t <= T_w: LAMB, with a running mean c-bar of the trust ratio of each layer,

    c-bar <- 0.9 c-bar + 0.1 c

At the freeze v stays, a copy of it becomes v', and each layer gets a scale s = (mean RMS of all layers) / RMS(m), so
that one magnitude can stand for all of them. Compression, t > T_w:

    worker i   m_i = beta1 m-bar + (1 - beta1) g_i
    everyone   m-bar, errors <- (compressed all-reduce of s m_i) / s
               g' = (m-bar_t - beta1 m-bar_{t-1}) / (1 - beta1)         v' <- beta2 v' + (1 - beta2) g'^2
               r = max (sqrt(v) + eps) / (sqrt(v') + eps) in each layer, cut to [0.5, 4], then within 10 % of the last
               x <- x - gamma c-bar r (P m-bar + lambda x)              P = 1 / (sqrt(v) + eps), frozen

The errors are in units of s m. With them L1 holds with Delta / s for Delta, because s is fixed at the freeze [theorems
T3c, T3l]. L2 holds up to the change of r, at most a tenth a step [T3g].

Where this departs from the paper and DeepSpeed's code: the freeze is that of 1-bit Adam, with zero-variance coordinates
[C6] and the floor [C7]; these coordinates do not enter the maximum r, and a layer whose momentum is 0 at the freeze has
the scale 1, where DeepSpeed divides by zero. With weight decay DeepSpeed weights r by the share of P m-bar in the step;
here r is as the paper has it. As published,
c-bar starts at 0: after a warm-up of T_w steps it carries the factor 1 - 0.9^T_w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reference import arguments
from reference.arithmetic import Array, as_scalar, norm, zeros
from reference.optimizers.lamb import Lamb
from reference.optimizers.layers import layer_slices
from reference.optimizers.one_bit_adam import OneBitAdam
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class OneBitLamb(OneBitAdam, Lamb):
    """LAMB that sends one bit a coordinate once its variance is frozen.

    Slots: ``trust_mean_L`` is c-bar, ``last_ratio_L`` r, ``layer_scale_L`` s, one number a layer each, and
    ``fresh_variance_D`` is v'.

    Attributes:
        trust_decay: decay of c-bar, in [0, 1).
        min_ratio, max_ratio, ratio_change: the range of r, and its largest relative change in a step.
        compress: "momentum" alone; the update form C12 is 1-bit Adam's.
    """

    trust_decay: float = 0.9
    min_ratio: float = 0.5
    max_ratio: float = 4.0
    ratio_change: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.decay("trust_decay", self.trust_decay)
        arguments.decay("ratio_change", self.ratio_change)
        arguments.number("min_ratio", self.min_ratio)
        arguments.number("max_ratio", self.max_ratio, self.min_ratio)
        arguments.choice("compress", self.compress, ("momentum",))

    def init(self, params_D: Array, n_workers: int) -> State:
        state = super().init(params_D, n_workers)
        nothing_L = zeros(len(layer_slices(self.shapes, params_D.size)), params_D.dtype)
        return state.with_slots(
            trust_mean_L=nothing_L,
            last_ratio_L=nothing_L + 1,
            layer_scale_L=nothing_L + 1,
            fresh_variance_D=zeros(params_D.size, params_D.dtype),
        )

    def form(self, state: State) -> dict[str, Any]:
        """A slot has a number for each layer, and errors are in units of s m."""
        layers = layer_slices(self.shapes, state.params.size)
        sizes = tuple(layer.stop - layer.start for layer in layers)
        errors = {"errors": "errors of scaled momenta"} if state.frozen_at is not None else {}
        return {**super().form(state), "shapes": sizes, **errors}

    def trusted_step(self, state: State, direction_D: Array, trust_L: Array) -> State:
        if state.frozen_at is None:
            mean_L = self.trust_decay * state.slots["trust_mean_L"] + (1 - self.trust_decay) * trust_L
            state = state.with_slots(trust_mean_L=mean_L)
        return super().trusted_step(state, direction_D, trust_L)

    def freeze_if_due(self, state: State, t: int) -> State:
        state = super().freeze_if_due(state, t)
        if state.frozen_at is None:
            return state
        return state.with_slots(layer_scale_L=self.layer_scales(state), fresh_variance_D=state.variance)

    def layer_scales(self, state: State) -> Array:
        """s (L,): the mean over layers of the RMS of their momenta, over the layer's own; 1 where that is 0."""
        layers, dtype = layer_slices(self.shapes, state.params.size), state.params.dtype
        rms = [norm(state.momentum[layer]) / (layer.stop - layer.start) ** 0.5 for layer in layers]
        common = sum(rms) / len(rms)
        return np.array([as_scalar(common / own if own > 0 else 1.0, dtype) for own in rms], dtype)

    def compressed_step(self, state: State, grads_ND: Array, frozen_at: int) -> State:
        scale_D = self.spread(state.slots["layer_scale_L"], state.params.size)
        momentum_ND = scale_D * (self.beta1 * state.momentum + (1 - self.beta1) * grads_ND)
        reduced = self.exchange(state, momentum_ND)
        momentum_D = reduced.output_D / scale_D

        rebuilt_D = (momentum_D - self.beta1 * state.momentum) / (1 - self.beta1)
        fresh_D = self.beta2 * state.slots["fresh_variance_D"] + (1 - self.beta2) * (rebuilt_D * rebuilt_D)
        ratio_L = self.variance_ratios(state, fresh_D)
        direction_D = self.frozen_preconditioner(state.variance, frozen_at) * (
            momentum_D / self.correction(self.beta1, state.step + 1)
        )
        moved = self.trusted_step(state, direction_D, state.slots["trust_mean_L"] * ratio_L)
        params_D, ignored = moved.params, 0
        if state.live is not None:
            params_D = np.where(state.variance == 0, state.params, params_D)
            ignored = int(np.count_nonzero((grads_ND[:, ~state.live] != 0).any(axis=0)))
        return self.remember(
            state,
            reduced,
            params=params_D,
            momentum=momentum_D,
            ignored_gradients=state.ignored_gradients + ignored,
        ).with_slots(last_ratio_L=ratio_L, fresh_variance_D=fresh_D)

    def variance_ratios(self, state: State, fresh_D: Array) -> Array:
        """r (L,) for the fresh variance v' (D,): over live coordinates, clipped to the range and to the last r.

        Computed in float64, as norms are; in exact arithmetic it is that float as a Fraction.
        """
        live_D = np.ones(fresh_D.size, np.bool_) if state.live is None else state.live
        frozen_D, wide_D = (np.sqrt(v_D.astype(np.float64)) + float(self.eps) for v_D in (state.variance, fresh_D))
        ratio_D = np.divide(frozen_D, wide_D, out=np.zeros_like(wide_D), where=live_D & (wide_D > 0))
        ratios = []
        for layer, last in zip(layer_slices(self.shapes, fresh_D.size), state.slots["last_ratio_L"], strict=True):
            ratio = min(max(as_scalar(ratio_D[layer].max(), fresh_D.dtype), self.min_ratio), self.max_ratio)
            ratios.append(min(max(ratio, last * (1 - self.ratio_change)), last * (1 + self.ratio_change)))
        return np.array(ratios, fresh_D.dtype)

    def spread(self, values_L: Array, dim: int) -> Array:
        """(D,): the number of its layer at every coordinate."""
        return np.repeat(values_L, [layer.stop - layer.start for layer in layer_slices(self.shapes, dim)])
