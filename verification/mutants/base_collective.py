"""A correct compressed all-reduce in float32, worker by worker; every decision is a method that a mutant replaces."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from verification.protocol import Array, Scale


class BaseCollective:
    """Per-worker float32 NumPy, sums in float64; deliberately plain. ``live_D`` is given by the optimizer alone.

    Attributes:
        cut: the server chunks of this call.
        scaled: the parts that have a scale of their own at the workers; used where there are blocks.
        sent_N: bytes that each worker sent in the last call.
    """

    scale: ClassVar[Scale] = "l2"
    scale_block: ClassVar[int | None] = None
    kind: str = ""

    def __init__(self) -> None:
        self.kind, self.block = self.kind or self.scale, self.scale_block
        self.sent_N: Array = np.zeros(0, np.int64)
        self.cut: list[slice] = []
        self.scaled: list[slice] = []

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array, live_D: Array | None = None
    ) -> tuple[Array, Array, Array]:
        n, dim = buffers_ND.shape
        self.cut = self.chunks(dim, n)
        self.scaled = [block for chunk in self.cut for block in self.blocks(chunk)]
        live_D = np.ones(dim, np.bool_) if live_D is None else live_D
        messages, errors = [], []
        for i in range(n):
            u_D = np.where(live_D, self.worker_input(buffers_ND[i], worker_errors_ND[i]), np.float32(0))
            s = self.worker_scales(u_D, live_D)
            bits_B = self.pack(self.worker_bits(u_D))
            messages.append((bits_B, s))
            errors.append(self.worker_error(u_D, s, self.worker_signs(u_D, bits_B), i))
        received_ND = np.stack([self.worker_message(self.unpack(bits_B, dim), s) for bits_B, s in messages])
        output_D, new_server_error_D = np.empty_like(server_error_D), np.empty_like(server_error_D)
        for j, chunk in enumerate(self.cut):
            live_C = live_D[chunk]
            w_C = self.server_input(received_ND[:, chunk], server_error_D[chunk], j)
            w_C = np.where(live_C, w_C, np.float32(0))
            S = self.server_scales(w_C, live_C, [s for _, s in messages])
            Q_C = self.server_signs(w_C)
            output_D[chunk] = self.server_output(w_C, S, Q_C, j)
            new_server_error_D[chunk] = self.server_error(w_C, S, Q_C, j)
        self.sent_N = self.count_bytes(n, dim)
        for new in (output_D, errors_ND := np.stack(errors), new_server_error_D):
            new[..., ~live_D] = 0
        return output_D, errors_ND, new_server_error_D

    def chunks(self, dim: int, n: int) -> list[slice]:
        """Server chunks [C3]."""
        c = 8 * -(-dim // (8 * n))
        return [slice(min(j * c, dim), min((j + 1) * c, dim)) for j in range(n)]

    def blocks(self, chunk: slice) -> list[slice]:
        """The parts of a chunk that have a scale of their own [C13]."""
        b = self.block or max(1, chunk.stop - chunk.start)
        return [slice(start, min(start + b, chunk.stop)) for start in range(chunk.start, chunk.stop, b)]

    def worker_scales(self, u_D: Array, live_D: Array) -> Any:
        """One scale, or with blocks the scale of its block at every element."""
        return self.worker_scale(u_D, live_D) if self.block is None else self.block_scales(u_D, live_D, self.scaled)

    def block_scales(self, u_D: Array, live_D: Array, blocks: list[slice]) -> Array:
        """The scale of its block at every element."""
        scale_D = np.zeros_like(u_D)
        for block in blocks:
            scale_D[block] = self.worker_scale(u_D[block], live_D[block])
        return scale_D

    def server_scales(self, w_C: Array, live_C: Array, scales: list[Any]) -> Any:
        """The same at the server of a chunk."""
        if self.block is None:
            return self.server_scale(w_C, live_C, scales)
        scale_C = np.zeros_like(w_C)
        for block in self.blocks(slice(0, w_C.size)):
            scale_C[block] = self.server_scale(w_C[block], live_C[block], scales)
        return scale_C

    def worker_input(self, buffer_D: Array, error_D: Array) -> Array:
        """u = buffer + error."""
        return buffer_D + error_D

    def norm_scale(self, u: Array, count: int) -> Any:
        """The scale of the live numbers ``u`` [C1], in float64."""
        wide = u.astype(np.float64)
        if count == 0:
            return 0.0
        return np.abs(wide).sum() / count if self.kind == "l1" else np.sqrt(np.square(wide).sum() / count)

    def worker_scale(self, u_D: Array, live_D: Array) -> Any:
        """s_i, as sent: float32."""
        return np.float32(self.norm_scale(u_D[live_D], int(live_D.sum())))

    def worker_bits(self, u_D: Array) -> Array:
        """The bits [C2]."""
        return u_D >= 0

    def pack(self, bits_D: Array) -> Array:
        """Eight bits a byte [C4]."""
        return np.packbits(bits_D, bitorder="little")

    def unpack(self, bits_B: Array, dim: int) -> Array:
        """Signs in float32, as the receiver reads them."""
        return np.unpackbits(bits_B, count=dim, bitorder="little").astype(np.float32) * 2 - 1

    def worker_signs(self, u_D: Array, bits_B: Array) -> Array:
        """The signs with which the worker computes its error: those that it sends."""
        return self.unpack(bits_B, u_D.size)

    def worker_message(self, signs_D: Array, s: Any) -> Array:
        """What a receiver reads out of a message."""
        return s * signs_D

    def worker_error(self, u_D: Array, s: Any, signs_D: Array, i: int) -> Array:
        """delta_i."""
        return u_D - s * signs_D

    def server_input(self, parts: Array, error_C: Array, j: int) -> Array:
        """w = mean of the messages, a row of ``parts`` for each worker, + server error."""
        return np.add.reduce(parts, axis=0) / np.float32(len(parts)) + error_C

    def server_scale(self, w_C: Array, live_C: Array, scales: list[Any]) -> Any:
        """S_j."""
        return np.float32(self.norm_scale(w_C[live_C], int(live_C.sum())))

    def server_signs(self, w_C: Array) -> Array:
        """Q_j [C2]."""
        return np.where(w_C >= 0, np.float32(1), np.float32(-1))

    def server_output(self, w_C: Array, S: Any, Q_C: Array, j: int) -> Array:
        """What everyone receives."""
        return S * Q_C

    def server_error(self, w_C: Array, S: Any, Q_C: Array, j: int) -> Array:
        """delta-bar on chunk j."""
        return w_C - S * Q_C

    def count_bytes(self, n: int, dim: int) -> Array:
        """Bytes that each worker sends to others."""
        sizes = [-(-(c.stop - c.start) // 8) + 4 * len(self.blocks(c)) for c in self.chunks(dim, n)]
        return np.array([sum(sizes) - sizes[i] + (n - 1) * sizes[i] for i in range(n)])

    def bytes_per_worker(self) -> Array:
        """Of the last call (N,)."""
        return self.sent_N
