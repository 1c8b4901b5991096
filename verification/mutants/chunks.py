"""Family: who averages what, and over how many."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class ChunksNotWholeBytes(BaseCollective):
    """Chunks of ceil(D/N) elements, which are not whole bytes."""

    def chunks(self, dim, n):
        c = -(-dim // n)
        return [slice(min(j * c, dim), min((j + 1) * c, dim)) for j in range(n)]


class OneChunk(BaseCollective):
    """One server serves everything, with one scale, without saying so."""

    def chunks(self, dim, n):
        return [slice(0, dim)] + [slice(dim, dim)] * (n - 1)


class TailInTheLastChunk(BaseCollective):
    """Chunk length floor(D/8N) * 8; the last one takes the rest."""

    def chunks(self, dim, n):
        c = 8 * (dim // (8 * n))
        return [slice(j * c, (j + 1) * c if j < n - 1 else dim) for j in range(n)]


class SumInsteadOfMean(BaseCollective):
    """The server adds and does not divide."""

    def server_input(self, parts, error_C, j):
        return sum(parts) + error_C


class OwnMessageTwice(BaseCollective):
    """Server j counts its own message instead of its neighbour's."""

    def server_input(self, parts, error_C, j):
        heard = parts.copy()
        heard[(j + 1) % len(parts)] = parts[j]
        return super().server_input(heard, error_C, j)


class NoServerCompression(BaseCollective):
    """The server sends its average as it is: everything is conserved, nothing is compressed."""

    def server_output(self, w_C, S, Q_C, j):
        return w_C.copy()

    def server_error(self, w_C, S, Q_C, j):
        return np.zeros_like(w_C)


class NoWorkerCompression(BaseCollective):
    """The workers send what they have: everything is conserved, nothing is compressed."""

    def worker_scale(self, u_D, live_D):
        return np.where(u_D == 0, np.float32(0), np.abs(u_D))


class LastServerErrorStale(BaseCollective):
    """The last server, of three or more, does not update its error."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        n, dim = buffers_ND.shape
        if n >= 3:
            last = self.chunks(dim, n)[-1]
            new_D[last] = server_error_D[last]
        return output_D, errors_ND, new_D


class ServerErrorOfAnotherChunk(BaseCollective):
    """Server errors are kept by the next worker's chunk when all chunks have one length."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        n, dim = buffers_ND.shape
        return output_D, errors_ND, np.roll(new_D, dim // n) if n > 1 and dim % (8 * n) == 0 else new_D


class IdleWorkersNotCounted(BaseCollective):
    """The mean is over workers whose message is not zero."""

    def server_input(self, parts, error_C, j):
        active = [part_C for part_C in parts if part_C.any()]
        return sum(parts) / np.float32(max(len(active), 1)) + error_C


class SingleWorkerShortcut(BaseCollective):
    """On one worker the round is skipped: its buffer is the result (0/1 Adam on one worker)."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        if len(buffers_ND) > 1:
            return super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        return buffers_ND[0].copy(), worker_errors_ND.copy(), server_error_D.copy()


class EmptyChunkNotEmpty(BaseCollective):
    """When a trailing chunk is empty, the last element is served again there, and gets the scale 0."""

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
        output_D, errors_ND, new_D = super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)
        if self.chunks(buffers_ND.shape[1], len(buffers_ND))[-1].start == buffers_ND.shape[1]:
            new_D[-1] += output_D[-1]
            output_D[-1] = 0
        return output_D, errors_ND, new_D


class OwnChunkUncompressed(BaseOptimizer):
    """Every worker applies the uncompressed average on the chunk that it serves."""

    def exchange(self, local_ND, live_D):
        errors_ND, error_D = self.e_ND, self.E_D
        super().exchange(local_ND, live_D)
        sent_ND = np.where(live_D, local_ND, 0) + errors_ND - self.e_ND
        self.w_D = sent_ND.mean(axis=0, dtype=np.float32) + error_D

    def move(self, m_D, denominator_D, live_D, g_D):
        if not self.frozen:
            super().move(m_D, denominator_D, live_D, g_D)
            return
        h = self.hyper
        for i, chunk in enumerate(self.reducer.chunks(m_D.size, self.n)):
            own_D = m_D.copy()
            own_D[chunk] = self.w_D[chunk] if self.n > 1 else m_D[chunk]
            update_D = own_D / denominator_D + self.decay(self.x_ND[i])
            self.x_ND[i] = np.where(live_D, self.x_ND[i] - np.float32(h.lr) * update_D, self.x_ND[i])
