"""Family: what goes wrong in 0/1 Adam: its two policies, the walk between meetings, and what a meeting leaves."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_zero_one import BaseZeroOne
from verification.mutants.signs import ServerZeroIsMinus


class RefreshesAfterTheFreeze(BaseZeroOne):
    """v goes on being refreshed at meetings after T_w."""

    def refreshes(self, t):
        return super().refreshes(t) or (t > self.hyper.freeze_step and self.meets(t))


class RefreshesInEveryStep(BaseZeroOne):
    """The interval between two refreshes never doubles."""

    def refreshes(self, t):
        return t <= self.hyper.freeze_step


class DoublesOneRefreshLate(BaseZeroOne):
    """The interval of T_v doubles after kappa + 1 refreshes."""

    def refreshes(self, t):
        kappa = self.hyper.variance_doubling
        return super().refreshes(t if kappa is None or t <= kappa else t - 1)


class MeanOfSquares(BaseZeroOne):
    """v takes the mean of the squared gradients, not the square of the mean."""

    def next_variance(self, v_D, g_D, grads_ND):
        return super().next_variance(v_D, np.sqrt(np.square(grads_ND).mean(axis=0)), grads_ND)


class PreconditionsTheSum(BaseZeroOne):
    """What is accumulated, and sent, is the preconditioned step."""

    def summed(self, u_ND, m_ND):
        return super().summed(u_ND, self.preconditioned(m_ND))


class SumsGradientsOfTheLastStep(BaseZeroOne):
    """u_i is lr m_i of the last step alone: what was accumulated before is lost."""

    def summed(self, u_ND, m_ND):
        return super().summed(np.zeros_like(u_ND), m_ND)


class SharedLocalMomentum(BaseZeroOne):
    """Between two meetings all workers use the momentum of worker 0."""

    def walked(self, x_ND, m_ND):
        return super().walked(x_ND, np.tile(m_ND[0], (self.n, 1)))


class StandsBetweenMeetings(BaseZeroOne):
    """Workers do not move between two meetings: gradients are all taken where they last met."""

    def walked(self, x_ND, m_ND):
        return x_ND


class DecaysItsOwnX(BaseZeroOne):
    """Between two meetings the decay takes the worker's own x."""

    def walked(self, x_ND, m_ND):
        return x_ND - np.float32(self.hyper.lr) * (self.preconditioned(m_ND) + self.decay(x_ND))


class DecayOfOneStep(BaseZeroOne):
    """At a meeting x decays by one step, however many lie behind."""

    def led_to(self, x_D, received_D, total):
        return x_D - (self.preconditioned(received_D) + np.float32(self.hyper.lr) * self.decay(x_D))


class StartsFromItsOwnX(BaseZeroOne):
    """A meeting leads on from where worker 0 stands, so its local steps are taken twice."""

    def start_of_round(self):
        return self.x_ND[0]


class MomentumByOneStep(BaseZeroOne):
    """After a meeting the momentum is what was received over lr, not over Gamma."""

    def momenta_after(self, total):
        return super().momenta_after(np.float32(self.hyper.lr))


class KeepsItsMomentum(BaseZeroOne):
    """A meeting leaves every worker its own momentum."""

    def momenta_after(self, total):
        return self.m_ND


class OneWorkerKeepsItsMomentum(BaseZeroOne):
    """On one worker the momentum is never set to what a meeting says (DeepSpeed 0.19.6)."""

    def momenta_after(self, total):
        return self.m_ND if self.n == 1 else super().momenta_after(total)


class SumNotEmptied(BaseZeroOne):
    """What was accumulated is not set to 0 at a meeting."""

    def left_over(self):
        return self.u_ND


class MeetsOneStepLate(BaseZeroOne):
    """The interval is counted from one step after T_w."""

    def meets(self, t):
        return super().meets(t - 1)


class LimitIsDoubled(BaseZeroOne):
    """The limit of the interval is checked before it doubles, so it may be twice as long."""

    def meets(self, t):
        local, interval = t - self.hyper.freeze_step, 1
        for _ in range(max(0, local) // self.hyper.local_doubling):
            interval = 2 * interval if interval <= self.hyper.local_limit else interval
        return local <= 0 or local % interval == 0


class LimitIsIgnored(BaseZeroOne):
    """The interval doubles without a limit."""

    def meets(self, t):
        local = t - self.hyper.freeze_step
        return local <= 0 or local % 2 ** (local // self.hyper.local_doubling) == 0


class CountLostAtLoad(BaseZeroOne):
    """A load in the middle of a round forgets how many steps lie behind."""

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.met = max(self.met, self.t - 1)


class SumLostAtLoad(BaseZeroOne):
    """What was accumulated since the last meeting is not in a checkpoint."""

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.u_ND = np.zeros_like(self.u_ND)


class SumCutOffByResize(BaseZeroOne):
    """A resize gives new workers nothing, and drops what leaving ones had accumulated."""

    def resize(self, n_workers):
        old_ND = self.u_ND
        super().resize(n_workers)
        kept = min(len(old_ND), n_workers)
        self.u_ND = np.zeros_like(self.u_ND)
        self.u_ND[:kept] = old_ND[:kept]


class ResizeForgetsTheWalk(BaseZeroOne):
    """A resize puts all workers back to where they last met, with what they accumulated."""

    def resize(self, n_workers):
        super().resize(n_workers)
        self.x_ND = np.tile(self.shared_D, (n_workers, 1))


class FloorInTheState(BaseZeroOne):
    """A refresh raises v itself to the floor, and later refreshes go on from there."""

    def next_variance(self, v_D, g_D, grads_ND):
        new_D = super().next_variance(v_D, g_D, grads_ND)
        live_D = new_D > 0
        floor = self.hyper.variance_floor * float(new_D[live_D].mean(dtype=np.float64)) if live_D.any() else 0.0
        return np.where(live_D, np.maximum(new_D, np.float32(floor)), new_D)


class FloorOfAllCoordinates(BaseZeroOne):
    """The mean of the floor counts zero-variance coordinates."""

    def variance_floor(self, live_D):
        return super().variance_floor(live_D) * float(live_D.mean())


class DeadMoveAlone(BaseZeroOne):
    """Between two meetings zero-variance coordinates move with the others."""

    def live(self):
        return super().live() if self.meets(self.t) else np.ones_like(self.v_D, np.bool_)


class ErrorsOfOneStepAgo(BaseZeroOne):
    """Worker errors are halved when a round was longer than a step."""

    def exchange(self, local_ND, live_D):
        if self.steps() > 1:
            self.e_ND = self.e_ND * np.float32(0.5)
        super().exchange(local_ND, live_D)


class TieOfALongRoundIsMinus(BaseZeroOne):
    """The server's zero is -1 where a meeting closes more than one step."""

    def exchange(self, local_ND, live_D):
        ties = self.steps() > 1
        self.reducer.server_signs = ServerZeroIsMinus().server_signs if ties else type(self.reducer)().server_signs
        super().exchange(local_ND, live_D)


class OddOneOutForgets(BaseZeroOne):
    """The last worker drops its error where all others sent the same, and it did not."""

    def exchange(self, local_ND, live_D):
        super().exchange(local_ND, live_D)
        *others_ND, last_D = local_ND
        agree = all(np.array_equal(other_D, others_ND[0]) for other_D in others_ND)
        if len(others_ND) > 1 and agree and not np.array_equal(last_D, others_ND[0]):
            self.e_ND[-1] = 0
