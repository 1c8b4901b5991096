"""What the kernels of the compression stage work on: a worker's memory, a server's, and the messages between them.

Each is checked once, when it is made, so that a step need not. The tensors are fixed from then on; their contents move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import check_tensor
from gpu_impl.kernels.layout import ROW_ALIGNMENT, Layout

F32, F64, I64, U8 = torch.float32, torch.float64, torch.int64, torch.uint8

SMALLEST, LARGEST = 2.0**-149, torch.finfo(F32).max
"""Of the positive numbers that the kernels can hold."""


@dataclass(frozen=True, eq=False)
class WorkerState:
    """What worker i remembers of one buffer.

    Attributes:
        u: what it compressed last (D,) float32; before the first compressed step Adam's momentum. -0.0 marks the dead.
        u_scale: s of that u (1,) float32; with block scales of every block (n_chunks * K,), chunk after chunk [C13].
        ignored: gradients that arrived at dead coordinates so far (1,) int64 [C6].

    Raises:
        TypeError, ValueError: a tensor is of another kind, shape or device; the message names it.
    """

    u: Tensor
    u_scale: Tensor
    ignored: Tensor

    def __post_init__(self) -> None:
        check_tensor("u", self.u, (length_of("u", self.u),), F32)
        check_tensor("u_scale", self.u_scale, (length_of("u_scale", self.u_scale),), F32, self.u.device)
        check_tensor("ignored", self.ignored, (1,), I64, self.u.device)

    @cached_property
    def addresses(self) -> tuple[int, int, int]:
        """Of u, u_scale and ignored."""
        return self.u.data_ptr(), self.u_scale.data_ptr(), self.ignored.data_ptr()


@dataclass(frozen=True, eq=False)
class ServerState:
    """What the server of one chunk remembers.

    Attributes:
        w: what it compressed last (d,) float32, d the length of its chunk, which may be 0. -0.0 marks the dead.
        w_scale: S_j of that w (K,) float32, K = 1 without block scales; 0 at the start.
        chunk: j.

    Raises:
        TypeError, ValueError: as in :class:`WorkerState`.
    """

    w: Tensor
    w_scale: Tensor
    chunk: int

    def __post_init__(self) -> None:
        check_tensor("w", self.w, (length_of("w", self.w, least=0),), F32)
        check_tensor("w_scale", self.w_scale, (length_of("w_scale", self.w_scale),), F32, self.w.device)

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """Of w and w_scale."""
        return self.w.data_ptr(), self.w_scale.data_ptr()


@dataclass(frozen=True, eq=False)
class Exchange:
    """The messages of one buffer, as ``layout.py`` lays them out, and the live coordinates that scales are means over.

    Several buffers may share one message: then the rows of each are columns of longer rows, all equally long.

    Attributes:
        layout: chunks of the buffer.
        live: live coordinates of each chunk (N,) int64; with block scales of each block (N * K,), chunk after chunk.
        message: what this worker sends, row j to server j (N, row_bytes) uint8.
        received: row i came from worker i (number of workers, row_bytes).
        reply: what this worker's server answers (row_bytes,).
        shared: the replies of all servers, m-bar (N, row_bytes).

    Raises:
        TypeError, ValueError: as in :class:`WorkerState`.
    """

    layout: Layout
    live: Tensor
    message: Tensor
    received: Tensor
    reply: Tensor
    shared: Tensor

    def __post_init__(self) -> None:
        n, row_bytes = self.layout.n_chunks, self.layout.row_bytes
        check_tensor("live", self.live, (n * self.layout.n_blocks,), I64)
        device = self.live.device
        n_workers = length_of("received", self.received)
        for name, rows in (("message", n), ("received", n_workers), ("shared", n)):
            tensor = getattr(self, name)
            check_tensor(name, tensor, (rows, row_bytes), U8, device, contiguous=False)
            if tensor.stride(1) != 1 or (rows > 1 and tensor.stride(0) % ROW_ALIGNMENT):
                raise ValueError(f"{name} must have contiguous rows at multiples of {ROW_ALIGNMENT} bytes")
        strides = {tensor.stride(0) for tensor in (self.message, self.received, self.shared) if tensor.shape[0] > 1}
        if len(strides) > 1:
            raise ValueError(f"message, received and shared must have equally long rows, got {sorted(strides)} bytes")
        check_tensor("reply", self.reply, (row_bytes,), U8, device)

    @classmethod
    def alone(cls, layout: Layout, device: torch.device | str = "cpu", n_workers: int | None = None) -> Exchange:
        """Zeros, for a buffer that shares its messages with no other."""
        received = torch.zeros(n_workers or layout.n_chunks, layout.row_bytes, dtype=U8, device=device)
        reply = torch.zeros(layout.row_bytes, dtype=U8, device=device)
        live = torch.zeros(layout.n_chunks * layout.n_blocks, dtype=I64, device=device)
        return cls(layout, live, layout.message(device), received, reply, layout.message(device))

    def live_in(self, chunk: int) -> Tensor:
        """Live coordinates of the blocks of a chunk (K,)."""
        return self.live[chunk * self.layout.n_blocks : (chunk + 1) * self.layout.n_blocks]

    @cached_property
    def row_stride(self) -> int:
        """Bytes from one row to the next."""
        tensors = (self.message, self.received, self.shared)
        return next((tensor.stride(0) for tensor in tensors if tensor.shape[0] > 1), self.layout.row_bytes)

    @cached_property
    def addresses(self) -> tuple[int, int, int, int, int]:
        """Of live, message, received, reply and shared."""
        tensors = (self.live, self.message, self.received, self.reply, self.shared)
        return tuple(tensor.data_ptr() for tensor in tensors)  # pyright: ignore[reportReturnType] - five

    @cached_property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """D, elements of a chunk, bytes of a row, bytes from row to row, chunks, B or 0."""
        layout = self.layout
        return layout.dim, layout.chunk, layout.row_bytes, self.row_stride, layout.n_chunks, layout.scale_block or 0


def length_of(name: str, tensor: Tensor, least: int = 1) -> int:
    """Length of the first axis.

    Raises:
        TypeError: not a tensor.
        ValueError: empty, or a scalar.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.ndim == 0 or tensor.shape[0] < least:
        raise ValueError(f"{name} must be a flat buffer of at least one element, got shape {tuple(tensor.shape)}")
    return tensor.shape[0]
