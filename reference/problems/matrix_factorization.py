"""Low-rank matrix factorisation from random entries."""

from __future__ import annotations

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.base import Array
from reference.problems.finite_sum import FiniteSum
from reference.problems.layout import Layout


class MatrixFactorization(FiniteSum):
    """f(U, V) = 1/(2 m n) ||U V^T - M||_F^2, with M = U* V*^T of rank r; x = (U, V), U (m, r), V (n, r).

    A sample is an entry (i, j), in row-major order: l_ij = ((U V^T)_ij - M_ij)^2 / 2, whose gradient is
    ((U V^T)_ij - M_ij) V_j in row i of U and ((U V^T)_ij - M_ij) U_i in row j of V. A batch touches few rows, so worker
    gradients are sparse. Heterogeneous: a worker's shard is a block of consecutive rows of M.

    Constants: f* = 0 at (U*, V*), as M is built from it, and at (U* R, V* R^-T) for every invertible R. f has degree
    4, so there is no L; the noise vanishes at the optimum and is unbounded, so there is no sigma^2.

    Reference: R. Ge, J. D. Lee, T. Ma, Matrix completion has no spurious local minimum, NeurIPS 2016 (the landscape,
    for the symmetric case).
    """

    name = "matrix_factorization"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        rows: int = 32,
        columns: int = 24,
        rank: int = 3,
        batch_size: int | None = 32,
        heterogeneous: bool = False,
        problem_seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        rows, columns = arguments.integer("rows", rows), arguments.integer("columns", columns)
        rank = arguments.integer("rank", rank)
        self.layout = Layout({"U": (rows, rank), "V": (columns, rank)})
        super().__init__(
            dim=self.layout.dim,
            labels_n=np.repeat(np.arange(rows), columns),
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            dtype=dtype,
        )
        self.optimum_D = sampling.generator(sampling.DATA, problem_seed).standard_normal(self.dim).astype(self.dtype)
        self.optimal_loss = 0.0
        # Each entry is rounded from float64: in float32, f(x*) is about eps^2.
        target = self.layout.views(self.optimum_D.astype(np.float64))
        self.target_mn = (target["U"] @ target["V"].T).astype(self.dtype)

    def initial_params(self, seed: int) -> Array:
        """x_0 ~ N(0, 0.01 I), (D,): near the saddle point 0."""
        start_D = 0.1 * sampling.generator(sampling.START, seed).standard_normal(self.dim)
        return start_D.astype(self.dtype)

    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """((U V^T)_ij - M_ij)^2 / 2, (n,)."""
        x = self.layout.views(params_D)
        return (x["U"] @ x["V"].T - self.target_mn).ravel()[index_n] ** 2 / 2

    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """R_N = counts of the drawn entries * (U V^T - M) / B; the gradient is (R_N V, R_N^T U), (N, D)."""
        N, B = index_NB.shape
        x = self.layout.views(params_D)
        entries = self.target_mn.size
        counts = np.bincount((index_NB + entries * np.arange(N)[:, None]).ravel(), minlength=N * entries)
        weights_Nmn = counts.reshape(N, *self.target_mn.shape).astype(params_D.dtype) / B
        residual_Nmn = weights_Nmn * (x["U"] @ x["V"].T - self.target_mn)
        grads_ND = np.empty((N, self.dim), params_D.dtype)
        grads = self.layout.views(grads_ND)
        np.matmul(residual_Nmn, x["V"], out=grads["U"])
        np.matmul(residual_Nmn.swapaxes(1, 2), x["U"], out=grads["V"])
        return grads_ND
