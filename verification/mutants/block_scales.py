"""Family: a scale for every block [C13]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer


class _Blocks(BaseCollective):
    scale_block = 40


class LastBlockDividedByB(_Blocks):
    """The last, shorter block of a worker is divided by B."""

    def block_scales(self, u_D, live_D, blocks):
        scale_D = super().block_scales(u_D, live_D, blocks)
        for block in blocks:
            if block.stop - block.start < (self.block or 0):
                scale_D[block] = self.norm_scale(u_D[block][live_D[block]], self.block or 0)
        return scale_D


class ServerDividesTheLastBlockByB(_Blocks):
    """The last, shorter block of a chunk is divided by B at the server."""

    def server_scales(self, w_C, live_C, scales):
        scale_C = super().server_scales(w_C, live_C, scales)
        if self.block is not None and w_C.size % self.block:
            rest = slice(w_C.size - w_C.size % self.block, w_C.size)
            scale_C[rest] = self.norm_scale(w_C[rest][live_C[rest]], self.block)
        return scale_C


class LastBlockMerged(_Blocks):
    """The last, shorter block of the buffer takes the scale of the one before."""

    def block_scales(self, u_D, live_D, blocks):
        scale_D = super().block_scales(u_D, live_D, blocks)
        if len(blocks) > 1 and blocks[-1].stop - blocks[-1].start < self.block:
            scale_D[blocks[-1]] = scale_D[blocks[-2].start]
        return scale_D


class BlockScaleOfTheWholeTensor(_Blocks):
    """A worker has one scale for all blocks."""

    def block_scales(self, u_D, live_D, blocks):
        return np.full_like(u_D, self.worker_scale(u_D, live_D))


class ServerHasOneScaleAChunk(_Blocks):
    """The server has one scale for all blocks of its chunk."""

    def server_scales(self, w_C, live_C, scales):
        return self.server_scale(w_C, live_C, scales)


class OneScaleAChunkAtTheWorkers(_Blocks):
    """A worker has a scale for every chunk, not for every block."""

    def worker_scales(self, u_D, live_D):
        if self.block is None:
            return super().worker_scales(u_D, live_D)
        return self.block_scales(u_D, live_D, self.cut)


class BlocksFromTheStartOfTheBuffer(_Blocks):
    """A worker counts blocks from the start of its buffer, not of each chunk."""

    def worker_scales(self, u_D, live_D):
        if self.block is None:
            return super().worker_scales(u_D, live_D)
        return self.block_scales(u_D, live_D, self.blocks(slice(0, u_D.size)))


class BlocksTwiceAsLong(_Blocks):
    """Blocks of 2 B at the server."""

    def server_scales(self, w_C, live_C, scales):
        block, self.block = self.block, self.block and 2 * self.block
        try:
            return super().server_scales(w_C, live_C, scales)
        finally:
            self.block = block


class NeighboursScaleInTheError(_Blocks):
    """The error is formed with the scale of the block after; the last takes the first."""

    def worker_error(self, u_D, s, signs_D, i):
        return super().worker_error(u_D, s if self.block is None else np.roll(s, -self.block), signs_D, i)


class ScalesInReverse(_Blocks):
    """The scales of a message are read from its end."""

    def worker_message(self, signs_D, s):
        return super().worker_message(signs_D, s if self.block is None else s[::-1])


class FirstBlockOfEveryServerShared(_Blocks):
    """Each chunk's first block takes the scale of the chunk."""

    def server_scales(self, w_C, live_C, scales):
        scale_C = super().server_scales(w_C, live_C, scales)
        if self.block is not None:
            scale_C[: self.block] = self.server_scale(w_C, live_C, scales)
        return scale_C


class _DeadCounted(BaseCollective):
    def block_scales(self, u_D, live_D, blocks):
        return super().block_scales(u_D, np.ones_like(live_D), blocks)


class DeadCountedInBlocks(BaseOptimizer):
    """A block is divided by its length, zero-variance coordinates and all."""

    collective = _DeadCounted


class BlocksIgnored(BaseOptimizer):
    """Hyper.scale_block is accepted and ignored."""

    def exchange(self, local_ND, live_D):
        self.reducer.block = None
        super().exchange(local_ND, live_D)


class BlocksLostAtALoad(BaseOptimizer):
    """A loaded run has one scale a message again."""

    def load(self, data, n_workers):
        super().load(data, n_workers)
        self.hyper = replace(self.hyper, scale_block=None)
        self.reducer.block = None
