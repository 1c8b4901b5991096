"""The compressed all-reduce of 1-bit Adam: all-to-all, average, all-gather, error feedback on both sides.

Worker i sends chunk j of its compressed buffer to worker j, which owns ("serves") chunk j: it averages what it
received, compresses the average, and sends that to everyone. Tang et al. 2021 (arXiv 2102.02888), Figure 3 and
Algorithm 1; two-sided feedback as in DoubleSqueeze (Tang et al. 2019, arXiv 1905.05957).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference import arguments
from reference.arithmetic import Array, zeros
from reference.compressors import Compressor, ScaledSign
from reference.compressors.base import SCALAR_BYTES
from reference.compressors.scaled_sign import Starts
from reference.error_feedback import Mask, compress_with_feedback


@dataclass(frozen=True)
class AllreduceResult:
    """What a compressed all-reduce returns, and what it put on the wire.

    Attributes:
        output_D: the decoded server messages (D,), equal on every worker [L6].
        worker_errors_ND: new worker errors delta_i (N, D).
        server_error_D: new server errors (D,); chunk j lives on worker j.
        bytes_per_worker: bytes that each worker sends to others (N,), int64.
    """

    output_D: Array
    worker_errors_ND: Array
    server_error_D: Array
    bytes_per_worker: NDArray[np.int64]


def chunk_slices(dim: int, n_chunks: int) -> list[slice]:
    """The chunks [C3]: length c = 8 ceil(D / (8 n)), chunk j is [jc, min((j+1)c, D)); trailing ones may be empty."""
    c = 8 * -(-dim // (8 * n_chunks))
    return [slice(min(j * c, dim), min((j + 1) * c, dim)) for j in range(n_chunks)]


def block_starts(chunk: slice, scale_block: int) -> list[int]:
    """Where the blocks [C13] of a chunk begin: every ``scale_block`` elements, from its start on."""
    return list(range(chunk.start, chunk.stop, scale_block))


def dense_allreduce_bytes(dim: int, n_workers: int) -> int:
    """Bytes that a ring all-reduce of D fp32 numbers puts on the wire, all workers together: 2 (N-1) 4 D."""
    return 2 * (n_workers - 1) * SCALAR_BYTES * dim


def number_of_chunks(server_chunks: int | None, n_workers: int) -> int:
    """Of the all-reduce [C3]; None is one a worker."""
    n_chunks = n_workers if server_chunks is None else arguments.integer("server_chunks", server_chunks)
    if n_chunks > n_workers:
        raise ValueError(f"server_chunks must be at most the number of workers, {n_workers}, got {n_chunks}")
    return n_chunks


def compressed_allreduce(
    buffers_ND: Array,
    worker_errors_ND: Array,
    server_error_D: Array,
    *,
    scale: str = "l2",
    server_chunks: int | None = None,
    scale_block: int | None = None,
    live_D: Mask | None = None,
    compressor: Compressor | None = None,
    rng: np.random.Generator | None = None,
    overwrite_buffers: bool = False,
) -> AllreduceResult:
    """Average N buffers with one bit a number each way.

        worker i   u_i = a_i + delta_i           s_i q_i = C(u_i)     delta_i <- u_i - s_i q_i
        chunk j    w = (1/N) sum_i s_i q_i + delta_bar     S_j Q_j = C(w)     delta_bar <- w - S_j Q_j

    Args:
        buffers_ND: what is averaged, a_i (N, D): float32, float64, or Fractions (then ``scale="l1"``).
        worker_errors_ND: delta_i before (N, D).
        server_error_D: delta_bar before (D,).
        scale: "l2" or "l1" [C1].
        server_chunks: number of chunks, at most N; None means N. 1 is the literal Algorithm 1 [C3].
        scale_block: B, a multiple of 8: every B elements of a chunk have a scale of their own, at workers and servers,
            so a chunk of d elements takes d/8 + 4 ceil(d/B) bytes [C13]. None: one scale a worker, one a chunk.
        live_D: mask of live coordinates (D,); dead ones are left out and become 0 everywhere [C6]. None: all live.
        compressor: another compressor in place of ``ScaledSign(scale)``.
        rng: generator for compressors that draw (random-k); None means a fixed seed.
        overwrite_buffers: let ``buffers_ND`` become the new worker errors, which saves an N x D array.

    Returns:
        An :class:`AllreduceResult` of new arrays; the inputs are not modified, unless ``overwrite_buffers`` says so.

    Raises:
        TypeError: an argument is not an array of a supported dtype.
        ValueError: shapes disagree, N = 0 or D = 0, or ``scale``, ``server_chunks`` or ``scale_block`` is not allowed.
    """
    arguments.array("buffers_ND", buffers_ND, (None, None))
    (n, dim), dtype = buffers_ND.shape, buffers_ND.dtype
    arguments.array("worker_errors_ND", worker_errors_ND, (n, dim), dtype)
    arguments.array("server_error_D", server_error_D, (dim,), dtype)
    n_chunks = number_of_chunks(server_chunks, n)
    if live_D is not None and (live_D.shape != (dim,) or live_D.dtype != np.bool_):
        raise ValueError(f"live_D must be a boolean mask of shape ({dim},), got {live_D.dtype} {live_D.shape}")
    arguments.scale_block("scale_block", scale_block)
    if scale_block is not None and compressor is not None:
        raise ValueError(f"scale_block is for the scaled sign; it must be None with compressor={compressor!r}")
    compressor = ScaledSign(scale) if compressor is None else compressor
    rng = np.random.default_rng(0) if rng is None else rng

    def live(part: slice) -> Mask | None:
        return None if live_D is None else live_D[part]

    def starts(parts: list[slice]) -> Starts | None:
        """Where the blocks of these chunks begin, counted from the first chunk's start."""
        if scale_block is None:
            return None
        return np.array([k - parts[0].start for part in parts for k in block_starts(part, scale_block)], np.intp)

    chunks = [chunk for chunk in chunk_slices(dim, n_chunks) if chunk.start < chunk.stop]  # an empty one is not sent
    edges_J = np.array([0, *(chunk.stop for chunk in chunks)])
    starts_K, bytes_NJ = starts(chunks), np.empty((n, len(chunks)), np.int64)
    sum_D, output_D = zeros(dim, dtype), np.empty_like(server_error_D)

    # Every worker compresses its whole buffer, with one scale (or one a block); u_i turns into the new delta_i.
    # All-to-all: worker j receives chunk j of every message, and averages. Here the chunks lie side by side.
    new_worker_errors_ND = np.add(buffers_ND, worker_errors_ND, out=buffers_ND if overwrite_buffers else None)
    for i, u_D in enumerate(new_worker_errors_ND):
        message, sent_D = compress_with_feedback(compressor, u_D, live_D, rng, starts_K)
        sum_D += sent_D
        bytes_NJ[i] = message.bytes_between(edges_J)
    new_server_error_D = sum_D / n + server_error_D

    for j, chunk in enumerate(chunks):
        # Worker j compresses the average of its chunk, with a scale of its own; w turns into the new delta_bar.
        w_C = new_server_error_D[chunk]
        message, output_D[chunk] = compress_with_feedback(compressor, w_C, live(chunk), rng, starts([chunk]))
        # All-gather: it sends the result to the other N - 1, and keeps its own part of the all-to-all.
        bytes_NJ[j, j] = (n - 1) * message.nbytes
    bytes_per_worker = bytes_NJ.sum(axis=1)

    return AllreduceResult(output_D, new_worker_errors_ND, new_server_error_D, bytes_per_worker)
