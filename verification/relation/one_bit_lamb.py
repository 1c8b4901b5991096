"""One step of 1-bit LAMB as a relation: LAMB until the freeze, then 1-bit Adam's rounds on scaled momenta."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theory import rounding
from verification.relation import layers
from verification.relation.compression import CLAUSES as ROUND_CLAUSES
from verification.relation.compression import CompressionRound
from verification.relation.finding import Finding, NotJudged, judge
from verification.relation.movement import Known, decay, moved, nothing_known, product, spill, stored
from verification.relation.step import ALWAYS, StepRelation
from verification.relation.tolerances import combined
from verification.relation.transition import Floats, Found, differs, same_bits

LAYERS = ("trust_mean", "layer_scale", "fresh_variance", "variance_ratio")
WARM_UP = (*ALWAYS, "adam_momentum", "adam_variance", "lamb_params", "no_errors_yet", "floor", *LAYERS)
CLAUSES = ("skip", *WARM_UP, "frozen", *ROUND_CLAUSES, "lamb_apply", "dead_params")


@dataclass(frozen=True)
class LambRelation(StepRelation):
    """State before, gradients (N, D), state after; what differs from 1-bit Adam."""

    def applied(self, judged: set[str]) -> list[Finding]:
        if self.warm_up:
            return judge(self, WARM_UP, judged)
        found = judge(self, (*ALWAYS, "frozen", *LAYERS), judged) + judge(self.round, ROUND_CLAUSES, judged)
        return found + judge(self, ("lamb_apply", "dead_params"), judged)

    @cached_property
    def slices(self) -> list[slice]:
        """Where the layers lie."""
        return self.hyper.slices(self.grads_ND.shape[1])

    @cached_property
    def direction(self) -> Known:
        """P m of a warm-up step, both corrected if that is asked: an Adam step from 0 with a rate of -1."""
        exact, tolerance = self.adam_step(np.zeros(self.grads_ND.shape[1]), 1.0, 0.0)
        return Known(-exact.params, tolerance.params)

    @cached_property
    def trust(self) -> Known:
        """c at every element of its layer."""
        h, x_D = self.hyper, self.before.params_ND[0].astype(np.float64)
        shrink = decay(h.weight_decay, x_D, self.traits)
        total = moved(0.0, [self.direction, shrink], Known(-1.0), self.traits)
        weights, update = (layers.rms(known, self.slices, self.traits) for known in (Known(x_D), nothing_known(total)))
        found = layers.trust_ratios(weights, update, h.min_trust, h.max_trust, self.traits)
        return layers.spread(found, self.slices)

    def lamb_params(self) -> Found:
        """Until the freeze x <- x - gamma c (P m + lambda x), with the trust ratio c of each layer [F4]."""
        yield from self._moves("lamb_params", self.direction, self.trust, np.arange(self.grads_ND.shape[1]))

    def _moves(self, clause: str, direction: Known, trust: Known, elements: np.ndarray) -> Found:
        """x moves by gamma c (direction + lambda x) at these elements."""
        h, x_D = self.hyper, self.before.params_ND[0].astype(np.float64)
        terms = [direction, decay(h.weight_decay, x_D, self.traits)]
        rate = product(stored(h.lr, self.traits), trust, self.traits, 2)
        expected = nothing_known(moved(x_D, terms, rate, self.traits))
        got, value, slack = self.after.params_ND[0], expected.value, expected.tolerance
        yield from differs("F4", clause, "params_ND", got[elements], value[elements], slack[elements], elements)

    def trust_mean(self) -> Found:
        """c-bar <- decay c-bar + (1 - decay) c until the freeze, and is bitwise constant after it [F4]."""
        if not self.warm_up:
            yield from self.unchanged("F4", "trust_mean", ("trust_mean_D",), "after the freeze ")
            return
        h, old_D, trust = self.hyper, self.before.trust_mean_D.astype(np.float64), self.trust
        slack_D = combined(
            rounding.momentum_tolerance(
                old_D,
                trust.value,
                0.0,
                h.trust_decay,
                dtype,
                complement=self.traits.complement,
                grads_tolerance=trust.tolerance,
            )
            for dtype in (self.traits.dtype, "float64")
        )
        expected_D = h.trust_decay * old_D + (1 - h.trust_decay) * trust.value
        yield from self._layer_numbers("F4", "trust_mean", "trust_mean_D", Known(expected_D, slack_D))

    def layer_scale(self) -> Found:
        """At the freeze s = mean RMS of the layers' m / own RMS; 1 before it, constant after it [F5]."""
        if not self.freezes:
            yield from self.unchanged("F5", "layer_scale", ("layer_scale_D",))
            return
        m_D = self.after.momentum_D.astype(np.float64)
        sizes = layers.rms(Known(m_D, rounding.gamma(1, self.traits.dtype) * np.abs(m_D)), self.slices, self.traits)
        known = layers.spread(layers.layer_scales(sizes, self.traits), self.slices)
        yield from self._layer_numbers("F5", "layer_scale", "layer_scale_D", known)

    def _layer_numbers(self, law: str, clause: str, name: str, known: Known) -> Found:
        """Numbers of layers are within their intervals, and one at all elements of a layer."""
        got_D = getattr(self.after, name)
        yield from differs(law, clause, name, got_D, known.value, known.tolerance)
        for layer in self.slices:
            if (got_D[layer] != got_D[layer.start]).any():
                k = layer.start + int(np.argmax(got_D[layer] != got_D[layer.start]))
                message = f"{name} is {got_D[k]:.9g} at element {k}, {got_D[layer.start]:.9g} where its layer begins"
                yield Finding(law, clause, message, f"after.{name}[{k}] == after.{name}[{layer.start}]")
                return

    def fresh_variance(self) -> Found:
        """v' is v at the freeze, and then beta2 v' + (1 - beta2) g'^2, g' = (m - beta1 m before) / (1 - beta1) [F6]."""
        name = "fresh_variance_D"
        if self.warm_up and not self.freezes:
            yield from self.unchanged("F6", "fresh_variance", (name,))
            return
        h, traits = self.hyper, self.traits
        if self.freezes:
            if not same_bits(self.after.fresh_variance_D, self.after.variance_D):
                claim = "np.array_equal(after.fresh_variance_D, after.variance_D)"
                yield Finding("F6", "fresh_variance", "at the freeze v' is not a copy of v", claim)
            return
        if not np.isfinite(self.after.momentum_D).all():
            raise NotJudged  # another clause says so
        old_D, rebuilt = self.before.fresh_variance_D.astype(np.float64), self.rebuilt
        slack_D = combined(
            rounding.variance_tolerance(
                old_D,
                rebuilt.value,
                h.beta2,
                dtype,
                complement=traits.complement,
                grads_tolerance=rebuilt.tolerance,
            )
            for dtype in (traits.dtype, "float64")
        )
        slack_D += traits.lost(8) * (1 + rebuilt.reach) * ((old_D != 0) | (rebuilt.reach > 0))
        expected_D = h.beta2 * old_D + (1 - h.beta2) * rebuilt.value**2
        yield from differs("F6", "fresh_variance", name, self.after.fresh_variance_D, expected_D, slack_D)

    @cached_property
    def rebuilt(self) -> Known:
        """g' = (m - beta1 m before) / (1 - beta1), from the momenta that are reported.

        Proof. beta1 m rounds once, the difference once, the division by the stored 1 - beta1, or the product with its
        reciprocal, twice; before that m itself may have been used as it was before it was stored, which is one more.
        Both coefficients are stored. So each term has at most gamma_5, and 1/(1 - e) - 1 <= e/(1 - e) for the divisor.
        """
        h, dtype = self.hyper, self.traits.dtype
        new_D, old_D = (s.momentum_D.astype(np.float64) for s in (self.after, self.before))
        of_beta, of_rest = rounding.coefficient_error(h.beta1, dtype, self.traits.complement)
        relative = rounding.compose(
            of_beta, of_rest / (1 - of_rest), *(rounding.gamma(5, k) for k in (dtype, "float64"))
        )
        reach_D = (np.abs(new_D) + h.beta1 * np.abs(old_D)) / (1 - h.beta1)
        underflow = 2 * spill(self.traits) * (1 + 1 / (1 - h.beta1)) * (reach_D > 0)
        return Known((new_D - h.beta1 * old_D) / (1 - h.beta1), relative * reach_D + underflow)

    def variance_ratio(self) -> Found:
        """r = max (sqrt(v) + eps) / (sqrt(v') + eps) in each layer, cut to its range, then near the last one [F6]."""
        if self.warm_up:
            yield from self.unchanged("F6", "variance_ratio", ("ratio_D",))
            return
        h, traits, live_D = self.hyper, self.traits, self.before.variance_D > 0
        v_D, fresh_D = (a.astype(np.float64) for a in (self.before.variance_D, self.after.fresh_variance_D))
        last_L = np.array([float(self.before.ratio_D[layer.start]) for layer in self.slices])
        found = layers.variance_ratios(v_D, fresh_D, live_D, self.slices, h.eps, traits)
        found = layers.cut(found, h.min_ratio, h.max_ratio, traits)
        # 1 - change is formed from a stored change and rounded, and so is its product with the last r
        found = layers.cut(found, last_L * (1 - h.ratio_change), last_L * (1 + h.ratio_change), traits, 4)
        dead_L = np.array([not live_D[layer].any() for layer in self.slices])
        known = layers.spread((np.where(dead_L, -np.inf, found[0]), np.where(dead_L, np.inf, found[1])), self.slices)
        yield from self._layer_numbers("F6", "variance_ratio", "ratio_D", known)

    @cached_property
    def round(self) -> CompressionRound:
        """The compression round of this step: u_hat = s (beta1 m-bar + (1 - beta1) g_i) + delta_i.

        Proof of the tolerance. T11b bounds m_i; its product with s, or those of its coefficients with s, and the
        addition of delta are at most gamma_3 more of each term, and a product may underflow before s multiplies it.
        """
        h, b, traits = self.hyper, self.before, self.traits
        m_D, g_ND, e_ND = (a.astype(np.float64) for a in (b.momentum_D, self.grads_ND, b.worker_errors_ND))
        s_D, live_D = b.layer_scale_D.astype(np.float64), b.variance_D > 0
        size_D = np.abs(s_D)  # a wrong one may be below 0
        sizes_ND = size_D * (h.beta1 * np.abs(m_D) + (1 - h.beta1) * np.abs(g_ND)) + np.abs(e_ND)
        slack_ND: Floats = np.zeros_like(sizes_ND)
        for dtype in (traits.dtype, "float64"):
            own = rounding.momentum_tolerance(m_D, g_ND, 0.0, h.beta1, dtype, complement=traits.complement)
            more = rounding.gamma(3, dtype)
            slack_ND += size_D * own * (1 + more) + more * sizes_ND
        slack_ND += (spill(traits) + traits.lost(8)) * (1 + size_D) * (sizes_ND > 0)
        received_D = s_D * self.after.momentum_D
        back = product(Known(self.after.momentum_D.astype(np.float64)), Known(s_D), traits, 3)  # it was divided by s
        slack_D = 0.0 if self.exact else back.tolerance + size_D * spill(traits)
        return CompressionRound(
            np.where(live_D, s_D * (h.beta1 * m_D + (1 - h.beta1) * g_ND) + e_ND, 0.0),
            np.where(live_D, slack_ND, 0.0),
            b.server_error_D,
            received_D,
            self.after.worker_errors_ND,
            self.after.server_error_D,
            live_D=live_D,
            scale=h.scale,
            scale_block=h.scale_block,
            traits=traits,
            exact=self.exact,
            names=("after.momentum_D", "after.worker_errors_ND", "after.server_error_D"),
            factor_D=s_D,
            output_tolerance_D=slack_D,
        )

    def lamb_apply(self) -> Found:
        """After the freeze x <- x - gamma c-bar r (P m-bar/b1 + lambda x), on live coordinates [F4]."""
        h, m_D = self.hyper, self.after.momentum_D.astype(np.float64)
        if not self.round.live_D.any():
            raise NotJudged
        b1 = 1 - h.beta1**self.t if h.bias_correction else 1.0
        off = rounding.correction_error(h.beta1, self.t, self.traits.correction) if h.bias_correction else 0.0
        P = self.preconditioner
        slack_D = P.step_tolerance(np.zeros_like(m_D), m_D, lr=1.0, weight_decay=0.0, correction=(b1, off))
        slack_D = slack_D + self.flushed_step(1.0, P.value_D, b1) * self.traits.flushes_subnormals
        mean, ratio = (Known(array.astype(np.float64)) for array in (self.after.trust_mean_D, self.after.ratio_D))
        trust = product(mean, ratio, self.traits)
        direction = Known(P.value_D * m_D / b1, slack_D)
        yield from self._moves("lamb_apply", direction, trust, np.flatnonzero(self.round.live_D))
