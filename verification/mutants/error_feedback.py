"""Family: what the workers and the server remember of what they could not say."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class NoWorkerFeedback(BaseCollective):
    """Workers keep no error."""

    def worker_error(self, u_D, s, signs_D, i):
        return np.zeros_like(u_D)


class NoServerFeedback(BaseCollective):
    """The server keeps no error."""

    def server_error(self, w_C, S, Q_C, j):
        return np.zeros_like(w_C)


class WorkerErrorNotAdded(BaseCollective):
    """The worker's residual is not added to the buffer."""

    def worker_input(self, buffer_D, error_D):
        return buffer_D.copy()


class ServerErrorNotAdded(BaseCollective):
    """The server's residual is not added to the average."""

    def server_input(self, parts, error_C, j):
        return super().server_input(parts, np.zeros_like(error_C), j)


class ServerErrorNegated(BaseCollective):
    """The server stores S Q - w."""

    def server_error(self, w_C, S, Q_C, j):
        return S * Q_C - w_C


class WorkerErrorDoubled(BaseCollective):
    """The worker error is added twice."""

    def worker_input(self, buffer_D, error_D):
        return buffer_D + error_D + error_D


class LastWorkerKeepsNoError(BaseCollective):
    """Only the last of three or more workers keeps no error."""

    def allreduce(self, *arguments, **keywords):
        output_D, errors_ND, server_error_D = super().allreduce(*arguments, **keywords)
        if len(errors_ND) >= 3:
            errors_ND[-1] = 0
        return output_D, errors_ND, server_error_D


class LastErrorFreed(BaseCollective):
    """The error of the last element is lost (DeepSpeed freed the buffers of the last parameter only)."""

    def worker_error(self, u_D, s, signs_D, i):
        error_D = u_D - s * signs_D
        error_D[-1] = 0
        return error_D


class WorkerErrorDecays(BaseCollective):
    """The worker error is multiplied by 0.999 before it is kept."""

    def worker_error(self, u_D, s, signs_D, i):
        return np.float32(0.999) * (u_D - s * signs_D)


class ServerErrorDecays(BaseCollective):
    """The server error is multiplied by 0.999 before it is kept."""

    def server_error(self, w_C, S, Q_C, j):
        return np.float32(0.999) * (w_C - S * Q_C)


class WorkerErrorClipped(BaseCollective):
    """The worker error is clipped to twice the scale: rarely more than one element."""

    def worker_error(self, u_D, s, signs_D, i):
        return np.clip(u_D - s * signs_D, -2 * s, 2 * s)


class WorkerErrorClippedAtFortyScales(BaseCollective):
    """The worker error is clipped to forty times the scale: never, but for a spike among many elements."""

    def worker_error(self, u_D, s, signs_D, i):
        return np.clip(u_D - s * signs_D, -40 * s, 40 * s)


class ServerErrorOverN(BaseCollective):
    """The server error is divided by the number of workers together with the messages."""

    def server_input(self, parts, error_C, j):
        return (sum(parts) + error_C) / np.float32(len(parts))


class NegativeZeroAccountedPositive(BaseCollective):
    """-0.0 is sent as -1 but accounted as +1 (DeepSpeed 0.19.6)."""

    def worker_bits(self, u_D):
        return ~np.signbit(u_D)

    def worker_signs(self, u_D, bits_B):
        return np.where(u_D >= 0, np.float32(1), np.float32(-1))


class ErrorWithoutItsScale(BaseCollective):
    """The worker error is that of the scale before it was rounded to float32 for the wire."""

    def worker_error(self, u_D, s, signs_D, i):
        return (u_D - self.norm_scale(u_D, u_D.size) * signs_D.astype(np.float64)).astype(np.float32)


class ErrorOfIdleWorkerKept(BaseCollective):
    """A worker whose buffer is all zero is skipped: its residual is sent but not updated."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_server_error_D = super().allreduce(
            buffers_ND, worker_errors_ND, server_error_D, live_D
        )
        idle_N1 = ~buffers_ND.any(axis=1, keepdims=True)
        return output_D, np.where(idle_N1, worker_errors_ND, errors_ND), new_server_error_D


class OptimizerWorkerErrorsReset(BaseOptimizer):
    """Worker errors are cleared at the beginning of every step."""

    def exchange(self, local_ND, live_D):
        self.e_ND = np.zeros_like(self.e_ND)
        super().exchange(local_ND, live_D)


class ErrorTimesBeta(BaseOptimizer):
    """The residual is multiplied by beta1 with the momentum."""

    def exchange(self, local_ND, live_D):
        self.e_ND = self.e_ND * np.float32(self.hyper.beta1)
        super().exchange(local_ND, live_D)


class ErrorBeforeTheFreeze(BaseOptimizer):
    """The last warm-up gradient is left in the worker errors as well."""

    def warm_up_step(self, grads_ND):
        super().warm_up_step(grads_ND)
        if self.freezes_now():
            self.e_ND = self.e_ND + grads_ND - grads_ND.mean(axis=0)
