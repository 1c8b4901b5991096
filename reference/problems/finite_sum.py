"""Problems that are a mean over samples, with mini-batch gradients."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.base import Array, Problem

CHUNK = 128


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
        held_out_n: sample indices that no worker draws, on which ``held_out_loss`` is measured; may be empty.
        measured_n: the samples on which ``loss`` and ``gradient`` are measured: all n, or ``measured`` of them, evenly
            spread, where a run makes less than a pass over so many that measuring would take longer than training.
    """

    def __init__(
        self,
        *,
        dim: int,
        labels_n: Array,
        n_workers: Any,
        heterogeneous: Any,
        batch_size: Any,
        dtype: Any,
        held_out: Any = 0,
        held_out_n: Array | None = None,
        measured: Any = None,
    ) -> None:
        """``labels_n`` has an entry for every sample. Held out are ``held_out_n``, or every ``held_out``-th sample."""
        self.dim = dim
        self.n_workers = arguments.integer("n_workers", n_workers)
        self.dtype = arguments.floating("dtype", dtype)
        self.batch_size = None if batch_size is None else arguments.integer("batch_size", batch_size)
        if held_out_n is None:
            every = arguments.integer("held_out", held_out, 0)
            held_out_n = np.arange(every - 1, len(labels_n), every) if every else np.arange(0)
        self.held_out_n = held_out_n
        training_n = np.setdiff1d(np.arange(len(labels_n)), held_out_n)
        if not len(training_n):
            raise ValueError(f"held_out must leave samples to train on, got {held_out!r}")
        heterogeneous = arguments.boolean("heterogeneous", heterogeneous)
        self.shards_Nm = training_n[sampling.shards(labels_n[training_n], self.n_workers, heterogeneous)]
        self.n_samples = self.shards_Nm.size
        everything_n = np.sort(self.shards_Nm, axis=None)
        count = self.n_samples if measured is None else min(arguments.integer("measured", measured), self.n_samples)
        self.measured_n = everything_n[np.arange(count) * self.n_samples // count]

    @abstractmethod
    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """l_k(x) for each k in ``index_n``, (n,)."""

    @abstractmethod
    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """(1/B) sum_k grad l_k(x) over the indices of each row, (N, D)."""

    def _mean_loss(self, params_D: Array, index_n: Array) -> float:
        """Mean of l_k(x) over ``index_n``, in float64."""
        params_D = arguments.vector("params_D", params_D, self.dim, np.float64)
        return float(np.concatenate([self.sample_losses(params_D, chunk) for chunk in _chunks(index_n)]).mean())

    @np.errstate(over="ignore", invalid="ignore")
    def loss(self, params_D: Array) -> float:
        """f(x) = (1/n) sum_k l_k(x), in float64."""
        return self._mean_loss(params_D, self.measured_n)

    @np.errstate(over="ignore", invalid="ignore")
    def held_out_loss(self, params_D: Array) -> float:
        """The mean of l_k(x) over the samples that are held out, in float64; NaN where there are none."""
        return self._mean_loss(params_D, self.held_out_n) if len(self.held_out_n) else math.nan

    @np.errstate(over="ignore", invalid="ignore")
    def gradient(self, params_D: Array) -> Array:
        """(1/n) sum_k grad l_k(x), (D,)."""
        params_D = arguments.vector("params_D", params_D, self.dim, self.dtype)
        grad_D = np.zeros(self.dim, self.dtype)
        for chunk in _chunks(self.measured_n):
            grad_D += self.batch_gradients(params_D, chunk[None])[0] * (len(chunk) / len(self.measured_n))
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


def _chunks(index_n: Array) -> list[Array]:
    """``index_n`` in pieces whose intermediate arrays stay in cache."""
    return np.array_split(index_n, -(-len(index_n) // CHUNK))
