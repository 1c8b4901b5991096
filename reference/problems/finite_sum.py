"""Problems that are a mean over samples, with mini-batch gradients."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.base import Array, Problem

CHUNK = 32


class FiniteSum(Problem):
    """f(x) = (1/n) sum_k l_k(x); worker i draws g_i = (1/B) sum over a batch of grad l_k, with replacement.

    Homogeneous: every worker draws from all n samples, f_i = f. Heterogeneous: worker i draws from its own shard of
    the samples sorted by label, and f_i is the mean over that shard; shards have equal size, so f = mean_i f_i (where
    N does not divide n, the last n mod N samples of the data set are left out of f as well).

    A subclass states its losses and gradients for given sample indices, in the dtype of the parameters it is given:
    the full loss and gradient are then a batch that holds every sample once, and there is one formula for both.

    Attributes:
        n_samples: n, after the cut to equal shards.
        batch_size: B, or None for the whole shard at each step (no noise).
        shards_Nm: sample indices of each worker, (1, n) where homogeneous.
    """

    def __init__(
        self, *, dim: int, labels_n: Array, n_workers: Any, heterogeneous: Any, batch_size: Any, dtype: Any
    ) -> None:
        self.dim = dim
        self.n_workers = arguments.integer("n_workers", n_workers)
        self.dtype = arguments.floating("dtype", dtype)
        self.batch_size = None if batch_size is None else arguments.integer("batch_size", batch_size)
        self.shards_Nm = sampling.shards(labels_n, self.n_workers, arguments.boolean("heterogeneous", heterogeneous))
        self.n_samples = self.shards_Nm.size

    @abstractmethod
    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """l_k(x) for each k in ``index_n``, (n,)."""

    @abstractmethod
    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """(1/B) sum_k grad l_k(x) over the indices of each row, (N, D)."""

    def _chunks(self) -> list[Array]:
        """All sample indices in order, in pieces whose intermediate arrays stay in cache."""
        return np.array_split(np.arange(self.n_samples), -(-self.n_samples // CHUNK))

    @np.errstate(over="ignore", invalid="ignore")
    def loss(self, params_D: Array) -> float:
        """f(x) = (1/n) sum_k l_k(x), in float64."""
        params_D = arguments.vector("params_D", params_D, self.dim, np.float64)
        return float(np.concatenate([self.sample_losses(params_D, chunk) for chunk in self._chunks()]).mean())

    @np.errstate(over="ignore", invalid="ignore")
    def gradient(self, params_D: Array) -> Array:
        """(1/n) sum_k grad l_k(x), (D,)."""
        params_D = arguments.vector("params_D", params_D, self.dim, self.dtype)
        grad_D = np.zeros(self.dim, self.dtype)
        for chunk in self._chunks():
            grad_D += self.batch_gradients(params_D, chunk[None])[0] * (len(chunk) / self.n_samples)
        return grad_D

    @np.errstate(over="ignore", invalid="ignore")
    def worker_gradients(self, params_D: Array, seed: int, step: int) -> Array:
        """g_i = (1/B) sum of grad l_k(x) over the batch of worker i, (N, D)."""
        params_D = arguments.vector("params_D", params_D, self.dim, self.dtype)
        index_NB = sampling.batches(self.shards_Nm, self.n_workers, self.batch_size, seed, step)
        return self.batch_gradients(params_D, index_NB)

    @np.errstate(over="ignore", invalid="ignore")
    def local_gradients(self, params_ND: Array, seed: int, step: int) -> Array:
        """g_i at x_i over the batch of worker i, (N, D): only that batch is computed."""
        index_NB = sampling.batches(self.shards_Nm, self.n_workers, self.batch_size, seed, step)
        params_ND = np.asarray(params_ND, self.dtype)
        return np.concatenate([self.batch_gradients(x_D, index_NB[i : i + 1]) for i, x_D in enumerate(params_ND)])

    def variance_bound(self, bounds_n: Array) -> float:
        """sigma^2 = max_i (mean of c_k over the shard of worker i) / B, where E||grad l_k - r||^2 <= c_k for a fixed r.

        The variance of a mean of B independent draws is that of one draw over B, and that of one draw is at most its
        mean squared distance from any fixed r. A whole shard has none.
        """
        if self.batch_size is None:
            return 0.0
        return float(bounds_n[self.shards_Nm].mean(axis=1, dtype=np.float64).max()) / self.batch_size
