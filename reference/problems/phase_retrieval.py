"""Real phase retrieval from Gaussian measurements."""

from __future__ import annotations

import math

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.base import Array
from reference.problems.finite_sum import FiniteSum


class PhaseRetrieval(FiniteSum):
    """f(x) = 1/(4n) sum_k (<a_k, x>^2 - y_k)^2, with y_k = <a_k, x*>^2, a_k ~ N(0, I), ||x*|| = 1.

    grad l_k = (<a_k, x>^2 - y_k) <a_k, x> a_k. Heterogeneous: shards of the samples sorted by y_k, so the last worker
    holds the strong measurements.

    Constants: f* = 0 at x* and at -x*, as the measurements have no noise. f has degree 4, so there is no L; the
    gradient noise vanishes at the optimum and is unbounded, so there is no sigma^2.

    Reference: E. J. Candes, X. Li, M. Soltanolkotabi, Phase retrieval via Wirtinger flow, IEEE Transactions on
    Information Theory 61, 2015: f(z) = 1/(2n) sum (y_k - |<a_k, z>|^2)^2 over complex z. Here x is real and the factor
    is 1/(4n), which leaves their expression for the gradient as it is.
    """

    name = "phase_retrieval"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        dim: int = 32,
        n_samples: int = 512,
        batch_size: int | None = 8,
        heterogeneous: bool = False,
        problem_seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        dim, n_samples = arguments.integer("dim", dim), arguments.integer("n_samples", n_samples)
        random = sampling.generator(sampling.DATA, problem_seed)
        direction_D = random.standard_normal(dim)
        optimum_D = direction_D / np.linalg.norm(direction_D)
        rows_nD = random.standard_normal((n_samples, dim))
        super().__init__(
            dim=dim,
            labels_n=(rows_nD @ optimum_D) ** 2,
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            dtype=dtype,
        )
        self.rows_nD = rows_nD.astype(self.dtype)
        self.optimum_D = optimum_D.astype(self.dtype)
        self.optimal_loss = 0.0
        # From the rounded rows and optimum, so that in float32 only the rounding of y is left: f(x*) is about eps^2.
        self.intensities_n = ((self.rows_nD @ self.optimum_D.astype(np.float64)) ** 2).astype(self.dtype)

    def initial_params(self, seed: int) -> Array:
        """x_0 ~ N(0, I/D), (D,): as long as x*, in no particular direction."""
        start_D = sampling.generator(sampling.START, seed).standard_normal(self.dim) / math.sqrt(self.dim)
        return start_D.astype(self.dtype)

    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """(<a_k, x>^2 - y_k)^2 / 4, (n,)."""
        return ((self.rows_nD[index_n] @ params_D) ** 2 - self.intensities_n[index_n]) ** 2 / 4

    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """(1/B) sum_k (<a_k, x>^2 - y_k) <a_k, x> a_k, (N, D)."""
        rows_NBD = self.rows_nD[index_NB]
        products_NB = rows_NBD @ params_D
        weights_NB = (products_NB**2 - self.intensities_n[index_NB]) * products_NB / index_NB.shape[1]
        return (weights_NB[:, None] @ rows_NBD)[:, 0]
