"""Family: what goes wrong in 1-bit LAMB: trust ratios, scales of layers, the fresh variance and its ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from verification.mutants.base_lamb import BaseLamb


class OneTrustRatio(BaseLamb):
    """One trust ratio for all layers."""

    def by_layer(self, function, *arrays):
        if function == self.trust_ratio:
            return np.full_like(self.v_D, function(*arrays))
        return super().by_layer(function, *arrays)


class TrustWithoutDecay(BaseLamb):
    """The trust ratio measures the step without its weight decay."""

    def trusted(self, direction_D):
        return direction_D


class TrustIsNotCut(BaseLamb):
    """The trust ratio is not cut to its range."""

    def trust_ratio(self, weights, update):
        x, r = self.norm(weights), self.norm(update)
        return x / r if x > 0 and r > 0 else 1.0


class TrustOfItsOwnRange(BaseLamb):
    """The trust ratio is cut to 0.01 at the least, whatever is asked for."""

    def trust_ratio(self, weights, update):
        x, r = self.norm(weights), self.norm(update)
        return np.clip(x / r if x > 0 and r > 0 else 1.0, 0.01, self.hyper.max_trust)


class RatioOfItsOwnRange(BaseLamb):
    """r is cut to 0.5 to 4, whatever is asked for."""

    def next_ratio(self, live_D):
        self.hyper = replace(self.hyper, min_ratio=0.5, max_ratio=4.0)
        return super().next_ratio(live_D)


class RatioCutToItsRangeLast(BaseLamb):
    """r is cut to what it may change by first, and to its range then."""

    def next_ratio(self, live_D):
        wanted, self.hyper = self.hyper, replace(self.hyper, min_ratio=0.0, max_ratio=np.inf)
        near_D = super().next_ratio(live_D)
        self.hyper = wanted
        return np.clip(near_D, np.float32(wanted.min_ratio), np.float32(wanted.max_ratio))


class RatioOfCorrectedVariances(BaseLamb):
    """With bias correction, r compares v and v' divided by 1 - beta2^t."""

    def next_ratio(self, live_D):
        v_D, fresh_D = self.v_D, self.fresh_D
        if self.hyper.bias_correction:
            correction = np.float32(1 - self.hyper.beta2**self.t)
            self.v_D, self.fresh_D = v_D / correction, fresh_D / correction
        found_D = super().next_ratio(live_D)
        self.v_D, self.fresh_D = v_D, fresh_D
        return found_D


class TrustOfTheLargest(BaseLamb):
    """The trust ratio takes maxima for norms."""

    def norm(self, values):
        return float(np.abs(values).max(initial=0.0))


class SwappedTrustDecay(BaseLamb):
    """c-bar <- (1 - decay) c-bar + decay c."""

    def next_trust_mean(self, mean_D, trust_D):
        return super().next_trust_mean(trust_D, mean_D)


class TrustMeanStartsAtOne(BaseLamb):
    """c-bar starts with the first trust ratio."""

    def next_trust_mean(self, mean_D, trust_D):
        return trust_D if self.t == 1 else super().next_trust_mean(mean_D, trust_D)


class AppliesTheMeanEarly(BaseLamb):
    """The last warm-up step goes by c-bar in place of c."""

    def by_layer(self, function, *arrays):
        found_D = super().by_layer(function, *arrays)
        last = function == self.trust_ratio and self.t == self.hyper.freeze_step
        return self.next_trust_mean(self.c_D, found_D) if last else found_D


class RatioIsNotApplied(BaseLamb):
    """The compression stage goes by c-bar alone."""

    def applied_trust(self):
        return self.c_D


class OneScale(BaseLamb):
    """All layers have the scale of the first."""

    def layer_scales(self):
        scale_D = super().layer_scales()
        return np.full_like(scale_D, scale_D[0])


class ScaleUpsideDown(BaseLamb):
    """A layer's scale is its RMS over the mean."""

    def layer_scale(self, common, own):
        return own / common if common > 0 else 1.0


class ScaleByTheNorm(BaseLamb):
    """Layers are scaled to one norm, not to one RMS."""

    def layer_rms(self, momentum):
        return self.norm(momentum)


class ScaleOfZeroMomentum(BaseLamb):
    """A layer whose momentum is 0 at the freeze gets the scale 0 (DeepSpeed 0.19.6 divides by zero)."""

    def layer_scale(self, common, own):
        return super().layer_scale(common, own) if own > 0 else 0.0


class ScaleMovesOn(BaseLamb):
    """The scales are formed anew in every compressed step."""

    def exchange(self, local_ND, live_D):
        super().exchange(local_ND, live_D)
        self.s_D = self.layer_scales()


class ReceivedUnscaled(BaseLamb):
    """What is received is not divided by the layer's scale."""

    def received_scale(self):
        return np.ones_like(self.s_D)


class SentUnscaled(BaseLamb):
    """Workers send the momentum as it is; what is received is divided all the same."""

    def sent_scale(self):
        return np.ones_like(self.s_D)


class ErrorsUnscaledAtLoad(BaseLamb):
    """A load takes the worker errors for unscaled ones."""

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.e_ND = self.e_ND / self.s_D


class FreshFromZero(BaseLamb):
    """The fresh variance starts at 0."""

    def first_fresh_variance(self):
        return np.zeros_like(self.v_D)


class FreshOfTheMomentum(BaseLamb):
    """The fresh variance squares the momentum, not the gradient that it tells of."""

    def rebuilt(self, old_D, new_D):
        return new_D


class RebuiltWithoutBeta(BaseLamb):
    """The gradient is rebuilt as (m - m before) / (1 - beta1)."""

    def rebuilt(self, old_D, new_D):
        return (new_D - old_D) / np.float32(1 - self.hyper.beta1)


class FreshIsFrozen(BaseLamb):
    """The fresh variance does not move."""

    def next_fresh_variance(self, fresh_D, g_D):
        return fresh_D


class SmallestRatio(BaseLamb):
    """r is the smallest ratio of a layer."""

    def largest_ratio(self, ratio, live):
        return ratio[live].min() if live.any() else 0.0


class RatioOfTheDead(BaseLamb):
    """Zero-variance coordinates count for r, with a ratio of 1, in a layer that has others."""

    def largest_ratio(self, ratio, live):
        return np.where(live, ratio, np.float32(1)).max() if live.any() else 0.0


class RatioIsNotCut(BaseLamb):
    """r may change by any amount in a step."""

    def near_the_last(self, ratio_D):
        return ratio_D


class RatioCutOnOneSide(BaseLamb):
    """r may grow by any amount in a step."""

    def near_the_last(self, ratio_D):
        return np.maximum(super().near_the_last(ratio_D), ratio_D)


class RatioLostAtLoad(BaseLamb):
    """A load puts the last r back to 1."""

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.r_D = np.ones_like(self.r_D)


class TrustLostByResize(BaseLamb):
    """On another number of workers c-bar begins anew."""

    def resize(self, n_workers):
        super().resize(n_workers)
        self.c_D = np.ones_like(self.c_D) if self.frozen else self.c_D


class DecayIsNotTrusted(BaseLamb):
    """Weight decay is applied at the plain learning rate."""

    def update(self, trust_D, direction_D, x_D):
        return trust_D * direction_D + self.decay(x_D)


class LayerScaleIsCut(BaseLamb):
    """The scale of a layer is at most 1e4, however small its momentum is beside that of the others."""

    def layer_scale(self, common, own):
        return min(super().layer_scale(common, own), 1e4)
