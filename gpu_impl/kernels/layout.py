"""How D numbers are cut into N chunks [C3], and how a message of their signs and scales lies in memory [C4].

A message is an (N, row_bytes) uint8 tensor, one row a chunk:

    | c/8 bytes: bit k of byte b is element 8b + k of the chunk | zero padding | 4 K bytes: the fp32 scales |

K = 1, or with block scales [C13] K = ceil(c/B): then every B elements of a chunk, counted from its start, have a scale
of their own. The scales ride with the bits: an all-to-all of the rows of N worker messages, and an all-gather of N
one-row replies, are all the communication there is. Rows start at multiples of 16 bytes and the bits of a chunk fill
whole 32-bit words, so kernels may read and write words whatever D and N are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import check_scale_block

ROW_ALIGNMENT = 16
SCALE_BYTES = 4


@dataclass(frozen=True)
class Layout:
    """The chunks of a flat buffer.

    Attributes:
        dim: D >= 1, length of the buffer.
        n_chunks: server chunks, normally N, one a worker.
        scale_block: B, a multiple of 8: elements of a chunk that share a scale [C13]; c where it is larger. None: one
            scale a worker, one a chunk.
    """

    dim: int
    n_chunks: int
    scale_block: int | None = None

    def __post_init__(self) -> None:
        check_scale_block(self.scale_block)
        for name in ("dim", "n_chunks"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        if self.scale_block is not None:
            object.__setattr__(self, "scale_block", min(self.scale_block, self.chunk))

    @property
    def chunk(self) -> int:
        """c = 8 ceil(D / (8 N)), elements of a full chunk."""
        return 8 * -(-self.dim // (8 * self.n_chunks))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a message."""
        words = -(-self.chunk // 32)
        return ROW_ALIGNMENT * -(-(4 * words + SCALE_BYTES * self.n_blocks) // ROW_ALIGNMENT)

    @property
    def block(self) -> int:
        """Elements of a full block: those of a chunk that share a scale in a row."""
        return self.scale_block or self.chunk

    @property
    def n_blocks(self) -> int:
        """K, scales in a row."""
        return -(-self.chunk // self.block)

    @property
    def n_scales(self) -> int:
        """Scales of a worker: one, or one a block of every chunk."""
        return 1 if self.scale_block is None else self.n_chunks * self.n_blocks

    def part(self, j: int) -> slice:
        """Chunk j, [jc, min((j+1)c, D)); trailing chunks may be empty."""
        if not 0 <= j < self.n_chunks:
            raise ValueError(f"chunk must lie in [0, {self.n_chunks}), got {j!r}")
        return slice(min(j * self.chunk, self.dim), min((j + 1) * self.chunk, self.dim))

    def part_dim(self, j: int) -> int:
        """Elements of chunk j."""
        part = self.part(j)
        return part.stop - part.start

    def message(self, device: torch.device | str = "cpu") -> Tensor:
        """A message of zeros, (n_chunks, row_bytes) uint8."""
        return torch.zeros(self.n_chunks, self.row_bytes, dtype=torch.uint8, device=device)


def scales_of(message: Tensor, n_blocks: int | None = None) -> Tensor:
    """The scales of a message (n_rows,), or of one row (), as a view: writing to it changes the message.

    With ``n_blocks``, K of its layout, all scales of the rows (n_rows, K), or of one row (K,).
    """
    floats = message.view(torch.float32)
    return floats[..., -1] if n_blocks is None else floats[..., -n_blocks:]


def by_element(scales: Tensor, layout: Layout, dim: int) -> Tensor:
    """The scale of each of ``dim`` elements (..., dim), from those of their blocks: of n chunks (..., n * K).

    One scale for all of them (..., 1) stays as it is.
    """
    if scales.shape[-1] == 1:
        return scales
    of_blocks = scales.unflatten(-1, (-1, layout.n_blocks)).unsqueeze(-1)
    by_chunk = of_blocks.expand(*of_blocks.shape[:-1], layout.block).flatten(-2)[..., : layout.chunk]
    return by_chunk.flatten(-2)[..., :dim]


def in_blocks(values: Tensor, layout: Layout, n_chunks: int) -> Tensor:
    """At most the elements of ``n_chunks`` chunks, as the blocks of these (n_chunks * K, B), filled up with 0."""
    chunks = torch.nn.functional.pad(values, (0, n_chunks * layout.chunk - values.shape[0])).view(n_chunks, -1)
    return torch.nn.functional.pad(chunks, (0, layout.n_blocks * layout.block - layout.chunk)).view(-1, layout.block)
