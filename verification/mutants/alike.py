"""Family: what goes wrong only where workers are alike."""

from __future__ import annotations

import numpy as np

from verification.mutants.base_collective import BaseCollective


class MedianOfEqualScales(BaseCollective):
    """Where all workers sent one scale, the server takes the median of their messages."""

    def server_input(self, parts, error_C, j):
        sizes_NC = np.abs(parts)
        if (sizes_NC == sizes_NC[0]).all():
            return np.median(parts, axis=0).astype(error_C.dtype) + error_C
        return super().server_input(parts, error_C, j)


class EqualMessagesCountOnce(BaseCollective):
    """The server keeps messages by their bytes: those of two workers that agree enter the mean once."""

    def server_input(self, parts, error_C, j):
        different = {part_C.tobytes(): part_C for part_C in parts}
        return super().server_input(np.array(list(different.values())), error_C, j)


class VotesInEightBits(BaseCollective):
    """Where all workers sent one scale, the server counts votes in a signed byte: 128 of +1 are -128."""

    def server_input(self, parts, error_C, j):
        sizes_NC = np.abs(parts)
        if (sizes_NC == sizes_NC[0]).all():
            votes_C = np.sign(parts).astype(np.int8).sum(axis=0, dtype=np.int8)
            return (votes_C * sizes_NC[0] / len(parts)).astype(error_C.dtype) + error_C
        return super().server_input(parts, error_C, j)
