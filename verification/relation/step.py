"""One step of 1-bit Adam as a relation: Adam until the freeze, then compression rounds and a frozen variance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from theory import rounding
from verification.relation.claims import near
from verification.relation.compression import CLAUSES as ROUND_CLAUSES
from verification.relation.compression import CompressionRound
from verification.relation.finding import Finding, NotJudged, judge
from verification.relation.preconditioner import Preconditioner, update_step_tolerance
from verification.relation.tolerances import combined, fits, floor_bounds
from verification.relation.transition import Floats, Transition, differs

ALWAYS = ("count", "replicas")
WARM_UP = (*ALWAYS, "adam_momentum", "adam_variance", "adam_params", "no_errors_yet", "floor")
CLAUSES = ("skip", *WARM_UP, "frozen", *ROUND_CLAUSES, "apply", "dead_params")


@dataclass(frozen=True)
class StepRelation(Transition):
    """State before, gradients (N, D), state after."""

    @property
    def warm_up(self) -> bool:
        return self.t <= self.hyper.freeze_step

    @property
    def freezes(self) -> bool:
        """Whether v is frozen after this step; a class that has the warm-up alone never does."""
        return self.t == self.hyper.freeze_step and self.traits.compresses

    def applied(self, judged: set[str]) -> list[Finding]:
        if self.warm_up:
            return judge(self, WARM_UP, judged)
        found = judge(self, (*ALWAYS, "frozen"), judged)
        found += judge(self.round, ROUND_CLAUSES, judged)
        return found + judge(self, ("apply", "dead_params"), judged)

    @cached_property
    def adam(self) -> tuple[rounding.AdamTolerance, rounding.AdamTolerance]:
        """(exact values, tolerances) of an Adam step from the state before along the mean gradient."""
        x_D = self.before.params_ND[0].astype(np.float64)
        return self.adam_step(x_D, self.hyper.lr, self.hyper.weight_decay)

    def adam_step(
        self, x: Floats, lr: float, weight_decay: float
    ) -> tuple[rounding.AdamTolerance, rounding.AdamTolerance]:
        """The same from other parameters (D,), and with another rate and decay."""
        h, b = self.hyper, self.before
        m, v = (array.astype(np.float64) for array in (b.momentum_D, b.variance_D))
        g = self.grads_ND.astype(np.float64).mean(axis=0)
        b1, b2 = (1 - h.beta1**self.t, 1 - h.beta2**self.t) if h.bias_correction else (1.0, 1.0)
        new_m, new_v = h.beta1 * m + (1 - h.beta1) * g, h.beta2 * v + (1 - h.beta2) * g * g
        with np.errstate(divide="ignore", invalid="ignore"):
            new_x = x - lr * (new_m / b1 / (np.sqrt(new_v / b2) + h.eps) + weight_decay * x)
        bounds = []
        for dtype in (self.traits.dtype, "float64"):
            averaged = rounding.average_tolerance(self.grads_ND, dtype)
            bounds.append(
                rounding.adam_step_tolerance(
                    x,
                    m,
                    v,
                    g,
                    lr=lr,
                    beta1=h.beta1,
                    beta2=h.beta2,
                    eps=h.eps,
                    weight_decay=weight_decay,
                    step=self.t if h.bias_correction else None,
                    dtype=dtype,
                    complement=self.traits.complement,
                    correction_dtype=self.traits.correction if dtype == self.traits.dtype else "float64",
                    grads_tolerance=averaged,
                )
            )
        # with eps = 0 there is no bound on x where v may be 0: theory gives inf, or inf - inf
        sums = [np.fmin(one + other, np.inf) for one, other in zip(*bounds, strict=True)]
        if self.traits.flushes_subnormals:
            flushed = self._flushed_adam(lr, new_m, new_v, np.abs(g), (b1, b2))
            sums = [one + other for one, other in zip(sums, flushed, strict=True)]
        return rounding.AdamTolerance(new_x, new_m, new_v), rounding.AdamTolerance(*sums)

    def _flushed_adam(
        self, lr: float, m: Floats, v: Floats, g: Floats, corrections: tuple[float, float]
    ) -> tuple[Floats, Floats, Floats]:
        """What flushed subnormals may add to the tolerances of x, m and v.

        m and v are formed by at most 8 operations, of operands that were flushed, with factors of at most 1, or abs(g)
        where (1 - beta2) g comes before its product with g; of zeros alone nothing is lost. The root of v loses
        min(sqrt(l), l / sqrt(v)).
        """
        some_D = (self.grads_ND != 0).any(axis=0)
        lost_m = self.traits.lost(8) * ((self.before.momentum_D != 0) | some_D)
        lost_v = self.traits.lost(8) * (1 + g) * ((self.before.variance_D != 0) | some_D)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(v / corrections[1])
            lost_root = np.fmin(np.sqrt(lost_v), lost_v / np.sqrt(v)) / corrections[1] ** 0.5
            size = 1 / np.maximum(root + self.hyper.eps - lost_root, self.hyper.eps)
            in_params = self.flushed_step(lr, size, corrections[0], np.abs(m) * lost_root * size * size)
        return in_params, lost_m, lost_v

    def flushed_step(self, lr: float, size: Any, correction: float, in_update: Any = 0.0) -> Floats:
        """The same for x alone, whose update is m/b1 times at most ``size``, with ``in_update`` lost in it before."""
        return lr / correction * (in_update + self.traits.lost(10) * (1 + size)) + self.traits.lost(6)

    @cached_property
    def preconditioner(self) -> Preconditioner:
        """P from the v that was frozen, here or before; from v = 1 where v is 0 and there is no P [C12, C14]."""
        frozen = self.after if self.warm_up else self.before
        h, v_D = self.hyper, frozen.variance_D.astype(np.float64)
        frozen_at = h.freeze_step if h.bias_correction else None
        kinds = (h.frozen_dtype, self.traits.dtype, self.traits.correction)
        return Preconditioner(np.where(v_D > 0, v_D, 1.0), h.eps, h.beta2, frozen_at, *kinds)

    def adam_momentum(self) -> Iterator[Finding]:
        """m <- beta1 m + (1 - beta1) g-bar [L3]; at the freeze 0 where v = 0 [C6], and P m in the update form [C12]."""
        exact, tolerance = self.adam
        expected_D, slack_D = exact.momentum, tolerance.momentum
        if self.freezes and self.hyper.compress == "update":
            slack_D = self.preconditioner.product_tolerance(expected_D, momentum_tolerance=slack_D)
            slack_D += self.traits.lost(10) * (1 + self.preconditioner.value_D)
            expected_D = self.preconditioner.value_D * expected_D
        if self.freezes:
            dead_D = self.after.variance_D == 0
            expected_D, slack_D = np.where(dead_D, 0.0, expected_D), np.where(dead_D, 0.0, slack_D)
        yield from differs("L3", "adam_momentum", "momentum_D", self.after.momentum_D, expected_D, slack_D)

    def adam_variance(self) -> Iterator[Finding]:
        """v <- beta2 v + (1 - beta2) g-bar^2, before the freeze raises it to its floor [L3]."""
        if self.freezes and self.hyper.variance_floor:
            raise NotJudged
        exact, tolerance = self.adam
        yield from differs(
            "L3", "adam_variance", "variance_D", self.after.variance_D, exact.variance, tolerance.variance
        )

    def adam_params(self) -> Iterator[Finding]:
        """x <- x - gamma (P m + lambda x), with P from the variance of this step, not yet raised to its floor [L3]."""
        exact, tolerance = self.adam
        yield from differs("L3", "adam_params", "params_ND", self.after.params_ND[0], exact.params, tolerance.params)

    def no_errors_yet(self) -> Iterator[Finding]:
        """Nothing is compressed during the warm-up, so there is no residual."""
        for name in ("worker_errors_ND", "server_error_D"):
            if np.any(getattr(self.after, name) != 0):
                message = "there is a compression error in the warm-up"
                yield Finding("L1", "no_errors_yet", message, f"not after.{name}.any()")
                return

    def floor(self) -> Iterator[Finding]:
        """At the freeze v <- max(v, kappa mean of live v) on live coordinates; dead ones stay 0 [C7]."""
        kappa = self.hyper.variance_floor
        if not self.freezes or kappa == 0:
            raise NotJudged
        v_D, tolerance_D = self.adam[0].variance, self.adam[1].variance
        low, high = floor_bounds(v_D, tolerance_D, kappa, self.traits.dtype)
        low, high = low - self.traits.lost(8), high + self.traits.lost(8)
        stored_D = self.after.variance_D.astype(np.float64)
        # max is monotone in both arguments, so it maps the two intervals to an interval
        least_D, most_D = np.maximum(v_D - tolerance_D, low), np.maximum(v_D + tolerance_D, high)
        ok_D = (stored_D >= least_D) & (stored_D <= most_D)
        ok_D |= (stored_D == 0) & (v_D <= tolerance_D)
        ok_D &= (stored_D == 0) | (v_D + tolerance_D > 0)
        for k in np.flatnonzero(~ok_D)[:1]:
            yield Finding(
                "C7",
                "floor",
                f"element {k}: v = {v_D[k]:.9g} and a floor of {(low + high) / 2:.9g} were frozen as {stored_D[k]:.9g}",
                near(f"after.variance_D.item({k})", (least_D[k] + most_D[k]) / 2, (most_D[k] - least_D[k]) / 2)
                if v_D[k]
                else f"after.variance_D[{k}] == 0",
            )

    def frozen(self) -> Iterator[Finding]:
        """v is bitwise constant after the freeze [L4]."""
        yield from self.unchanged("L4", "frozen", ("variance_D",))

    @cached_property
    def round(self) -> CompressionRound:
        """The compression round of this step: u_hat = beta1 m-bar + (1 - beta1) g_i + delta_i.

        In the update form P g_i takes the place of g_i [C12], known to its own rounding, and y-bar that of m-bar.
        """
        h, b = self.hyper, self.before
        m_D, g_ND, e_ND = (array.astype(np.float64) for array in (b.momentum_D, self.grads_ND, b.worker_errors_ND))
        dtypes, wobble, lost = (self.traits.dtype, "float64"), {}, self.traits.lost(8)
        if h.compress == "update":
            P = self.preconditioner
            wobble = {dtype: P.weighted_product_tolerance(g_ND, 1 - h.beta1, dtype) for dtype in dtypes}
            g_ND, lost = P.value_D * g_ND, self.traits.lost(12) * (1 + P.value_D)
        u_ND = h.beta1 * m_D + (1 - h.beta1) * g_ND + e_ND
        tolerance_ND: Floats = combined(
            rounding.momentum_tolerance(
                m_D,
                g_ND,
                e_ND,
                h.beta1,
                dtype,
                complement=self.traits.complement,
                grads_tolerance=wobble.get(dtype, 0.0),
            )
            for dtype in dtypes
        )
        tolerance_ND += lost * ((m_D != 0) | (g_ND != 0) | (e_ND != 0))
        live_D = b.variance_D > 0
        return CompressionRound(
            np.where(live_D, u_ND, 0.0),
            np.where(live_D, tolerance_ND, 0.0),
            b.server_error_D,
            self.after.momentum_D,
            self.after.worker_errors_ND,
            self.after.server_error_D,
            live_D=live_D,
            scale=h.scale,
            scale_block=h.scale_block,
            traits=self.traits,
            exact=self.exact,
            names=("after.momentum_D", "after.worker_errors_ND", "after.server_error_D"),
        )

    def apply(self) -> Iterator[Finding]:
        """x <- x - gamma (P m-bar + lambda x) with the m-bar that was received and the frozen P.

        In the update form x <- x - gamma (y-bar + lambda x): P is in y-bar already [C12]. Where a product of these may
        overflow, as after an m-bar that is wrong, nothing is asked.
        """
        h, live_D = self.hyper, self.round.live_D
        x_D, m_D = (a.astype(np.float64) for a in (self.before.params_ND[0], self.after.momentum_D))
        b1 = 1 - h.beta1**self.t if h.bias_correction else 1.0
        step: dict[str, Any] = {"lr": h.lr, "weight_decay": h.weight_decay}
        step["correction"] = (
            b1,
            rounding.correction_error(h.beta1, self.t, self.traits.correction) if h.bias_correction else 0.0,
        )
        if h.compress == "update":
            size_D = np.ones_like(x_D)
            tolerance_D = update_step_tolerance(x_D, m_D, dtype=self.traits.dtype, **step)
        else:
            size_D = self.preconditioner.value_D
            tolerance_D = self.preconditioner.step_tolerance(x_D, m_D, **step)
        expected_D = x_D - h.lr * (size_D * m_D / b1 + h.weight_decay * x_D)
        tolerance_D = tolerance_D + self.flushed_step(h.lr, size_D, b1) * self.traits.flushes_subnormals
        beside_D = x_D * max(1.0, h.lr) * max(1.0, h.weight_decay)
        live = np.flatnonzero(live_D & fits(self.traits.dtype, m_D, 1 / b1, size_D, h.lr, beside=beside_D))
        if live_D.any() and not live.size:
            raise NotJudged
        got_D = self.after.params_ND[0]
        yield from differs("L2", "apply", "params_ND", got_D[live], expected_D[live], tolerance_D[live], live)

    def dead_params(self) -> Iterator[Finding]:
        """A zero-variance coordinate is not updated and does not decay [C6]."""
        yield from self.still(~self.round.live_D, "params_ND")
