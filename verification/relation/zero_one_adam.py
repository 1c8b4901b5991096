"""One step of 0/1 Adam as a relation: workers walk alone, v is refreshed in T_v, and the workers meet in T_u."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from verification.relation.claims import equal
from verification.relation.compression import CLAUSES as ROUND_CLAUSES
from verification.relation.compression import CompressionRound
from verification.relation.finding import Finding, judge
from verification.relation.movement import Known, decay, moved, nothing_known, product, spill, stored
from verification.relation.preconditioner import Preconditioner
from verification.relation.tolerances import combined, floor_bounds
from verification.relation.transition import Found, Transition, differs

ALONE = ("between", "local_momentum", "local_sum", "local_params", "dead_params")
TOGETHER = ("replicas", "meeting", "meeting_params", "dead_params")
FARTHEST = 1000
"""Steps to the next refresh or meeting, beyond which none is looked for: no case has so many."""

CLAUSES = ("skip", "count", "refresh", "kept_variance", *ALONE, *TOGETHER, *ROUND_CLAUSES)


@dataclass(frozen=True)
class ZeroOneRelation(Transition):
    """State before, gradients (N, D), state after."""

    def applied(self, judged: set[str]) -> list[Finding]:
        found = judge(self, ("count", "refresh" if self.refreshes(self.t) else "kept_variance"), judged)
        if not self.meets(self.t):
            return found + judge(self, ALONE, judged)
        return found + judge(self.round, ROUND_CLAUSES, judged) + judge(self, TOGETHER, judged)

    def refreshes(self, t: int) -> bool:
        """Whether step t is in T_v."""
        return self.traits.policies(self.hyper)[0](t)

    def meets(self, t: int) -> bool:
        """Whether step t is in T_u."""
        return self.traits.policies(self.hyper)[1](t)

    @cached_property
    def live_D(self) -> NDArray[np.bool_]:
        """Coordinates that a refresh has brought to life [C6]."""
        return self.after.variance_D > 0

    @cached_property
    def counted_D(self) -> NDArray[np.bool_]:
        """Coordinates whose m_i and u_i the next meeting uses: live ones, and all if v is refreshed until then."""
        for t in range(self.t + 1, self.t + FARTHEST):
            if self.refreshes(t):
                return np.full_like(self.live_D, True)
            if self.meets(t):
                break
        return self.live_D

    def refresh(self) -> Found:
        """In T_v v <- beta2 v + (1 - beta2) g-bar^2 [F1]."""
        h, v_D = self.hyper, self.before.variance_D.astype(np.float64)
        g_D = self.grads_ND.astype(np.float64).mean(axis=0)
        tolerance_D = combined(
            rounding.variance_tolerance(
                v_D,
                g_D,
                h.beta2,
                dtype,
                complement=self.traits.complement,
                grads_tolerance=rounding.average_tolerance(self.grads_ND, dtype),
            )
            for dtype in (self.traits.dtype, "float64")
        )
        some_D = (v_D != 0) | (self.grads_ND != 0).any(axis=0)  # of zeros alone nothing is lost
        tolerance_D += self.traits.lost(8) * (1 + np.abs(g_D)) * some_D
        expected_D = h.beta2 * v_D + (1 - h.beta2) * g_D * g_D
        yield from differs("F1", "refresh", "variance_D", self.after.variance_D, expected_D, tolerance_D)

    def kept_variance(self) -> Found:
        """Outside T_v v is bitwise constant [F1]."""
        yield from self.unchanged("F1", "kept_variance", ("variance_D",))

    @cached_property
    def momentum(self) -> Known:
        """m_i before a meeting: beta1 m_i + (1 - beta1) g_i (N, D)."""
        h = self.hyper
        m_ND, g_ND = (array.astype(np.float64) for array in (self.before.momentum_ND, self.grads_ND))
        tolerance_ND = combined(
            rounding.momentum_tolerance(m_ND, g_ND, 0.0, h.beta1, dtype, complement=self.traits.complement)
            for dtype in (self.traits.dtype, "float64")
        )
        tolerance_ND = tolerance_ND + self.traits.lost(8) * ((m_ND != 0) | (g_ND != 0))
        return Known(h.beta1 * m_ND + (1 - h.beta1) * g_ND, tolerance_ND)

    @cached_property
    def sum(self) -> Known:
        """u_i before a meeting: u_i + gamma m_i (N, D), which is a step along -m_i."""
        along = Known(-self.momentum.value, self.momentum.tolerance)
        u_ND = self.before.accumulated_ND.astype(np.float64)
        return moved(u_ND, [along], stored(self.hyper.lr, self.traits), self.traits)

    @cached_property
    def preconditioner(self) -> Preconditioner:
        """P from v and its floor [C7]; from v = 1 where v is 0 and there is no P."""
        v_D, traits = self.after.variance_D.astype(np.float64), self.traits
        low, high = floor_bounds(v_D, np.zeros_like(v_D), self.hyper.variance_floor, traits.dtype)
        low_D, high_D = np.maximum(v_D, low - traits.lost(8)), np.maximum(v_D, high + traits.lost(8))
        held = Known.between(low_D, high_D if self.hyper.variance_floor else v_D)
        value_D, slack_D = np.where(self.live_D, held.value, 1.0), np.where(self.live_D, held.tolerance, 0.0)
        kinds = ("float32", traits.dtype, traits.correction)
        return Preconditioner(value_D, self.hyper.eps, self.hyper.beta2, None, *kinds, variance_tolerance_D=slack_D)

    def preconditioned(self, known: Known) -> Known:
        """P times what is given (..., D)."""
        P = self.preconditioner
        off = P.product_tolerance(known.value, momentum_tolerance=known.tolerance)
        return nothing_known(Known(P.value_D * known.value, off + self.traits.lost(10) * (1 + P.value_D)))

    @property
    def shared_decay(self) -> Known:
        """lambda x, with x of the last meeting."""
        return decay(self.hyper.weight_decay, self.before.shared_D.astype(np.float64), self.traits)

    def local_momentum(self) -> Found:
        """Between two meetings m_i is Adam's, with the worker's own gradient, where the next meeting uses it [F2]."""
        yield from self._alone("local_momentum", "momentum_ND", self.momentum, self.counted_D)

    def local_sum(self) -> Found:
        """Between two meetings u_i grows by gamma m_i, where the next meeting uses it [F2]."""
        yield from self._alone("local_sum", "accumulated_ND", self.sum, self.counted_D)

    def local_params(self) -> Found:
        """Between two meetings x_i <- x_i - gamma (P m_i + lambda x), x that of the last meeting [F2]."""
        x_ND, x_D = (array.astype(np.float64) for array in (self.before.params_ND, self.before.shared_D))
        terms = [self.preconditioned(self.momentum), self.shared_decay]
        about = {"beside": np.abs(x_D - x_ND), "scaled": self.preconditioner.value_D}
        walked = moved(x_ND, terms, stored(self.hyper.lr, self.traits), self.traits, **about)
        yield from self._alone("local_params", "params_ND", nothing_known(walked), self.live_D)

    def _alone(self, clause: str, name: str, known: Known, where_D: NDArray[np.bool_]) -> Found:
        places, got_ND = np.flatnonzero(where_D), getattr(self.after, name)
        exact_ND, slack_ND = known.value[:, places], np.broadcast_to(known.tolerance, got_ND.shape)[:, places]
        yield from differs("F2", clause, name, got_ND[:, places], exact_ND, slack_ND, places)

    def between(self) -> Found:
        """Between two meetings nothing is exchanged: errors and x of the last meeting stay bitwise [F2]."""
        yield from self.unchanged("F2", "between", ("worker_errors_ND", "server_error_D", "shared_D"), "no meeting: ")

    @cached_property
    def steps(self) -> int:
        """How many steps lie between the last meeting and this one."""
        return next(self.t - s for s in range(self.t - 1, -1, -1) if s == 0 or self.meets(s))

    @cached_property
    def total_rate(self) -> Known:
        """Gamma, gamma times the steps since the last meeting: by a product, or by a sum of as many terms."""
        return stored(self.hyper.lr * self.steps, self.traits, self.steps + 1)

    @cached_property
    def received(self) -> Known:
        """u-bar, from the m = u-bar / Gamma that all workers hold after a meeting (D,)."""
        m_D = self.after.momentum_ND[0].astype(np.float64)
        found = product(Known(m_D), self.total_rate, self.traits, 3)  # a division, by a reciprocal or not
        underflow = self.total_rate.reach * spill(self.traits)
        return Known(found.value, np.zeros_like(m_D) if self.exact else found.tolerance + underflow)

    @cached_property
    def round(self) -> CompressionRound:
        """The compression round of a meeting: u_hat = u_i + gamma m_i + delta_i, in any order."""
        b, traits, live_D = self.before, self.traits, self.live_D
        e_ND, summed = b.worker_errors_ND.astype(np.float64), self.sum
        sizes_ND = np.abs(b.accumulated_ND) + np.abs(e_ND) + self.hyper.lr * self.momentum.reach + summed.tolerance
        again = sum(rounding.gamma(2, dtype) for dtype in (traits.dtype, "float64"))
        return CompressionRound(
            np.where(live_D, summed.value + e_ND, 0.0),
            np.where(live_D, summed.tolerance + again * sizes_ND + traits.lost(2), 0.0),
            b.server_error_D,
            self.received.value,
            self.after.worker_errors_ND,
            self.after.server_error_D,
            live_D=live_D,
            scale=self.hyper.scale,
            scale_block=self.hyper.scale_block,
            traits=traits,
            exact=self.exact,
            names=("after.momentum_ND[0]", "after.worker_errors_ND", "after.server_error_D"),
            factor_D=self.total_rate.value,
            output_tolerance_D=self.received.tolerance,
        )

    def meeting(self) -> Found:
        """A meeting leaves one x, one momentum, and nothing accumulated [F3]."""
        yield from self.equal_rows("momentum_ND", "F3", "meeting")
        if np.any(self.after.accumulated_ND != 0):
            yield Finding("F3", "meeting", "u is not 0 after a meeting", "not after.accumulated_ND.any()")
        x_D, shared_D = self.after.params_ND[0], self.after.shared_D
        if not np.array_equal(x_D, shared_D):
            claim = equal("after.shared_D", "after.params_ND[0]", shared_D, x_D)
            yield Finding("F3", "meeting", "x of the last meeting is not where worker 0 stands after it", claim)

    def meeting_params(self) -> Found:
        """At a meeting x <- x - P u-bar - Gamma lambda x, from where they last met [F3]."""
        x_D, live = self.before.shared_D.astype(np.float64), np.flatnonzero(self.live_D)
        terms = [self.preconditioned(self.received), decay(self.hyper.weight_decay, x_D, self.traits, self.total_rate)]
        expected = nothing_known(moved(x_D, terms, Known(1.0), self.traits, scaled=self.preconditioner.value_D))
        got, slack = self.after.params_ND[0], np.broadcast_to(expected.tolerance, x_D.shape)
        yield from differs("F3", "meeting_params", "params_ND", got[live], expected.value[live], slack[live], live)

    def dead_params(self) -> Found:
        """A coordinate whose v is 0 stands still; at a meeting it is where it was after the last one [C6]."""
        yield from self.still(~self.live_D, "shared_D", *(() if self.meets(self.t) else ("params_ND",)))
