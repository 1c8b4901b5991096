"""Random streams, data shards and mini-batches: who sees which sample at which step."""

from __future__ import annotations

import numpy as np

from reference import arguments
from reference.problems.base import Array

# One stream a purpose, so that a starting point never shares numbers with the data or with a mini-batch.
DATA, START, BATCH, LATENT = 0, 1, 2, 3


def generator(stream: int, seed: int, step: int = 0) -> np.random.Generator:
    """The generator of (stream, seed, step), independent of every other one and of anything drawn before.

    The stream and the step go into ``spawn_key``: as plain entropy, (seed,) and (seed, 0) would coincide.
    """
    seed, step = arguments.integer("seed", seed, 0), arguments.integer("step", step, 0)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, step)))


def shards(labels_n: Array, n_workers: int, heterogeneous: bool) -> Array:
    """Indices of the samples that each worker draws from.

    Homogeneous: (1, n), all the data, common to all workers. Heterogeneous: (N, n // N), the samples sorted by label
    (stable) and cut into N shards of equal size; the last n mod N samples of the data set are left out, before the
    sort, so that f = mean_i f_i holds exactly and no label is singled out.
    """
    n = len(labels_n)
    if not heterogeneous:
        return np.arange(n)[None]
    if n < n_workers:
        raise ValueError(f"n_workers must be at most the number of samples, {n}, where heterogeneous, got {n_workers}")
    kept = n - n % n_workers
    return np.argsort(labels_n[:kept], kind="stable").reshape(n_workers, -1)


def batches(shards_Nm: Array, n_workers: int, batch_size: int | None, seed: int, step: int) -> Array:
    """Sample indices (N, B) of the mini-batches at ``step``: uniform, with replacement, from each worker's shard.

    ``batch_size=None`` is the whole shard, (N, m), with nothing random about it. Worker i's positions are drawn in
    row i of one row-major call, so with homogeneous data they do not depend on N.
    """
    m = shards_Nm.shape[1]
    if batch_size is None:
        return np.broadcast_to(shards_Nm, (n_workers, m))
    positions_NB = generator(BATCH, seed, step).integers(m, size=(n_workers, batch_size))
    return np.take_along_axis(shards_Nm, positions_NB, axis=1)
