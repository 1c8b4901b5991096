"""Family: stale state, aliasing, memory layout, and the wire."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import Snapshot


class BuffersModified(BaseCollective):
    """u is formed in the caller's buffer."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        result = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        buffers_ND += worker_errors_ND
        return result


class ServerErrorInPlace(BaseCollective):
    """The new server error is written into the caller's array."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        server_error_D[:] = new_D
        return output_D, errors_ND, server_error_D


class OutputKept(BaseCollective):
    """The output is a buffer that the next call overwrites."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        if getattr(self, "kept_D", np.zeros(0)).size != output_D.size:
            self.kept_D = np.empty_like(output_D)
        self.kept_D[:] = output_D
        return self.kept_D, errors_ND, new_D


class ErrorsAreTheInput(BaseCollective):
    """Where nothing changed, the caller's own array is returned."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        return output_D, errors_ND, server_error_D if np.array_equal(new_D, server_error_D) else new_D


class FirstSizeKept(BaseCollective):
    """The chunks of the first call are kept for later ones with as many workers or fewer elements."""

    def chunks(self, dim, n):
        if not hasattr(self, "first"):
            self.first = (dim, n)
        kept_dim, kept_n = self.first
        if kept_n == n and kept_dim > dim:
            return [slice(min(c.start, dim), min(c.stop, dim)) for c in super().chunks(kept_dim, n)]
        return super().chunks(dim, n)


class ScaleOfTheFirstCall(BaseCollective):
    """The first worker's scale is computed once."""

    def worker_scale(self, u_D, live_D):
        if not hasattr(self, "first_s"):
            self.first_s = super().worker_scale(u_D, live_D)
            return self.first_s
        s = super().worker_scale(u_D, live_D)
        return self.first_s if abs(s - self.first_s) < 0.05 * s else s


class ErrorsKeptInside(BaseCollective):
    """Server errors are kept inside too, and added again in the next call of the same size."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        kept_D = getattr(self, "kept_D", np.zeros(0, np.float32))
        extra_D = kept_D if kept_D.size == server_error_D.size else np.float32(0)
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D + extra_D, live_D)
        self.kept_D = new_D.copy()
        return output_D, errors_ND, new_D


class ContiguousAssumed(BaseCollective):
    """Rows are read from raw memory as if they followed each other."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        n, dim = buffers_ND.shape
        # within the memory that is there: the row stride, if it is contiguous along the row
        flat = (
            buffers_ND.T.ravel(order="K")
            if buffers_ND.flags.f_contiguous and not buffers_ND.flags.c_contiguous
            else None
        )
        raw_ND = buffers_ND if flat is None else flat.reshape(dim, n).T.copy().reshape(-1).reshape(n, dim)
        if flat is not None:
            raw_ND = np.frombuffer(buffers_ND.tobytes(order="A"), np.float32).reshape(n, dim).copy()
        return super().allreduce(raw_ND, worker_errors_ND, server_error_D, live_D)


class WideLoads(BaseCollective):
    """Errors are read four at a time from an aligned address: a strided view gives its neighbours."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        if server_error_D.strides[0] == 8 and server_error_D.dtype == np.float32 and server_error_D.size > 1:
            server_error_D = np.repeat(server_error_D[::2], 2)[: server_error_D.size].copy()
        return super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)


class ErrorsOfTheLastCallOverwritten(BaseCollective):
    """The caller's worker errors are kept by reference, and serve as scratch memory one call later."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        result = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        scratch_ND = getattr(self, "kept_ND", None)
        if scratch_ND is not None and scratch_ND is not worker_errors_ND and scratch_ND.flags.writeable:
            scratch_ND[...] = 0
        self.kept_ND = worker_errors_ND
        return result


class MeanOfTheSameObject(BaseCollective):
    """The buffers of the call before are used again where the caller passes the same array object."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        if getattr(self, "given_ND", None) is not buffers_ND:
            self.given_ND, self.copy_ND = buffers_ND, buffers_ND.copy()
        return super().allreduce(self.copy_ND, worker_errors_ND, server_error_D, live_D)


class ByteASign(BaseCollective):
    """Signs travel as int8."""

    def count_bytes(self, n, dim):
        return np.full(n, 2 * (n - 1) * (dim // n + 4))


class SentToItself(BaseCollective):
    """Every worker also sends its own chunk to itself, and gathers all chunks from everybody."""

    def count_bytes(self, n, dim):
        return np.full(n, n * sum(-(-(c.stop - c.start) // 8) + 4 for c in self.chunks(dim, n)))


class GradientsModified(BaseOptimizer):
    """(1 - beta1) g is formed in the caller's gradient."""

    def step(self, grads_ND):
        super().step(grads_ND)
        grads_ND *= np.float32(1 - self.hyper.beta1)


class ParametersKept(BaseOptimizer):
    """The caller's parameters are kept by reference until the first step."""

    given_D = None

    def start(self, params_D, n_workers, hyper):
        super().start(params_D, n_workers, hyper)
        self.given_D = params_D

    def warm_up_step(self, grads_ND):
        if self.t == 1 and self.given_D is not None:
            self.x_ND = np.tile(self.given_D, (self.n, 1))
        super().warm_up_step(grads_ND)


class ParametersModified(BaseOptimizer):
    """start() normalises the caller's parameters in place and undoes it for its own copy."""

    def start(self, params_D, n_workers, hyper):
        super().start(params_D, n_workers, hyper)
        params_D += 1


class SnapshotIsAView(BaseOptimizer):
    """The parameters in a snapshot are those that the next step changes."""

    def snapshot(self):
        seen = super().snapshot()
        return Snapshot(
            self.x_ND, seen.momentum_D, seen.variance_D, seen.worker_errors_ND, seen.server_error_D, seen.step
        )


class ErrorsOnTheClass(BaseOptimizer):
    """Server errors are kept on the class: two optimizers share them."""

    shared: dict = {}  # noqa: RUF012 - that is the bug

    def start(self, params_D, n_workers, hyper):
        super().start(params_D, n_workers, hyper)
        self.shared[params_D.size] = self.E_D

    def exchange(self, local_ND, live_D):
        self.E_D = self.shared.get(self.E_D.size, self.E_D)
        super().exchange(local_ND, live_D)
        self.shared[self.E_D.size] = self.E_D

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.shared[self.E_D.size] = self.E_D

    def snapshot(self):
        self.E_D = self.shared.get(self.E_D.size, self.E_D)
        return super().snapshot()


class LastGradientKept(BaseOptimizer):
    """The gradient of a step is kept by reference, and used in the next one if it was overwritten meanwhile."""

    def step(self, grads_ND):
        stale = getattr(self, "kept", None)
        if stale is not None and (stale[0] != stale[1]).any():
            self.m_D = self.m_D + np.float32(1e-3)
        super().step(grads_ND)
        self.kept = (grads_ND, grads_ND.copy())


class GradientOfTheLastStepOverwritten(BaseOptimizer):
    """The gradient of a step is kept by reference, and serves as scratch memory in the next one."""

    def step(self, grads_ND):
        scratch_ND = getattr(self, "kept_ND", None)
        if scratch_ND is not None and scratch_ND is not grads_ND and scratch_ND.flags.writeable:
            scratch_ND[...] = 0
        self.kept_ND = grads_ND
        super().step(grads_ND)


class GradientOfTheSameObject(BaseOptimizer):
    """The gradient of the step before is used again where the caller passes the same array object."""

    def step(self, grads_ND):
        if getattr(self, "given_ND", None) is not grads_ND:
            self.given_ND, self.copy_ND = grads_ND, grads_ND.copy()
        super().step(self.copy_ND)
