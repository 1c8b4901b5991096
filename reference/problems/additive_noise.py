"""Problems with a known f and Gaussian gradient noise of a chosen size."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.base import Array, Problem


class AdditiveNoise(Problem):
    """g_i = grad f(x) + b_i + (sigma / sqrt(D)) xi_i, with xi_i standard normal in R^D.

    So E||g_i - grad f_i||^2 = sigma^2 exactly, at every x. Homogeneous: b_i = 0. Heterogeneous: f_i(x) = f(x) +
    <b_i, x> with sum_i b_i = 0 (to rounding) and E||b_i||^2 = ``heterogeneity``^2 (1 - 1/N), drawn once from
    ``problem_seed``.

    Attributes:
        noise: sigma.
        offsets_ND: b_i, or None where homogeneous.
    """

    def __init__(
        self,
        *,
        dim: int,
        n_workers: Any,
        heterogeneous: Any,
        heterogeneity: Any,
        noise: Any,
        problem_seed: Any,
        dtype: Any,
    ) -> None:
        self.dim = dim
        self.n_workers = arguments.integer("n_workers", n_workers)
        self.dtype = arguments.floating("dtype", dtype)
        self.noise = arguments.number("noise", noise)
        self.noise_variance = self.noise**2
        heterogeneity = arguments.number("heterogeneity", heterogeneity)
        self.offsets_ND: Array | None = None
        if arguments.boolean("heterogeneous", heterogeneous):
            random = sampling.generator(sampling.DATA, problem_seed, step=1)
            offsets_ND = random.standard_normal((self.n_workers, dim)) * heterogeneity / math.sqrt(dim)
            self.offsets_ND = (offsets_ND - offsets_ND.mean(axis=0)).astype(self.dtype)

    @abstractmethod
    def value(self, params_D: Array) -> Array:
        """f(x), a scalar of the dtype of x."""

    @abstractmethod
    def slope(self, params_D: Array) -> Array:
        """grad f(x), (D,)."""

    @np.errstate(over="ignore", invalid="ignore")
    def loss(self, params_D: Array) -> float:
        """f(x), in float64."""
        return float(self.value(arguments.vector("params_D", params_D, self.dim, np.float64)))

    @np.errstate(over="ignore", invalid="ignore")
    def gradient(self, params_D: Array) -> Array:
        """grad f(x), (D,)."""
        return self.slope(arguments.vector("params_D", params_D, self.dim, self.dtype))

    @np.errstate(over="ignore", invalid="ignore")
    def worker_gradients(self, params_D: Array, seed: int, step: int) -> Array:
        """grad f(x) + b_i + noise, (N, D)."""
        random = sampling.generator(sampling.BATCH, seed, step)
        grads_ND = random.standard_normal((self.n_workers, self.dim), dtype=self.dtype.type)
        grads_ND *= self.noise / math.sqrt(self.dim)
        grads_ND += self.gradient(params_D)
        if self.offsets_ND is not None:
            grads_ND += self.offsets_ND
        return grads_ND
