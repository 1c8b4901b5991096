"""Count sketch: a small table of random signed sums, from which large coordinates can be read (Charikar, Chen,
Farach-Colton 2002).

    table[r, bucket_r(j)] += sign_r(j) u_j for every row r       estimate of u_j: the median over r of
                                                                 sign_r(j) table[r, bucket_r(j)]

It is linear: the sketch of a sum is the sum of the sketches, so sketches can be all-reduced. That is why it is no
``Compressor`` here, whose messages decode one by one. Each row's estimate is unbiased over the hashes and misses u_j by
the other coordinates of its bucket: with a variance of at most ||u||^2 / columns.

Hashes are drawn at random from the seed, independently for every coordinate, so that no family of hash functions needs
to be argued about; a program with large D would compute them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from reference import arguments
from reference.arithmetic import Array, zeros


@dataclass(frozen=True)
class CountSketch:
    """A table of ``rows`` x ``columns`` for vectors of any length.

    Attributes:
        rows: odd, so that the median is one of the rows' estimates.
        columns: buckets in each row.
        seed: of the hashes; workers whose sketches are added share it.
    """

    rows: int = 5
    columns: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if arguments.integer("rows", self.rows) % 2 == 0:
            raise ValueError(f"rows must be odd, got {self.rows!r}")
        arguments.integer("columns", self.columns)
        arguments.integer("seed", self.seed, 0)

    @lru_cache(maxsize=4)  # noqa: B019 - a few tables of hashes, which every worker needs in every step
    def hashes(self, dim: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Buckets (rows, D) and signs (rows, D), -1 or +1; not to be written."""
        random = np.random.default_rng([self.seed, dim])
        bucket_RD = random.integers(self.columns, size=(self.rows, dim))
        sign_RD = (random.integers(2, size=(self.rows, dim)) * 2 - 1).astype(np.int8)
        bucket_RD.flags.writeable = sign_RD.flags.writeable = False
        return bucket_RD, sign_RD

    def sketch(self, u_D: Array) -> Array:
        """The table (rows, columns) of ``u_D`` (D,), in its dtype."""
        bucket_RD, sign_RD = self.hashes(u_D.size)
        table_RC = zeros((self.rows, self.columns), u_D.dtype)
        for table_C, bucket_D, sign_D in zip(table_RC, bucket_RD, sign_RD, strict=True):
            np.add.at(table_C, bucket_D, sign_D * u_D)
        return table_RC

    def estimate(self, table_RC: Array, dim: int) -> Array:
        """The estimates (D,) of the numbers whose table this is."""
        bucket_RD, sign_RD = self.hashes(dim)
        estimates_RD = sign_RD * np.take_along_axis(table_RC, bucket_RD, axis=1)
        return np.sort(estimates_RD, axis=0)[self.rows // 2]
