"""Logistic regression on breast cancer."""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import expit

from reference import arguments
from reference.problems import datasets
from reference.problems.base import Array
from reference.problems.finite_sum import FiniteSum
from reference.problems.minimise import minimiser


class LogisticRegression(FiniteSum):
    """f(x) = (1/n) sum_k log(1 + exp(-y_k <a_k, x>)) + l2/2 ||x||^2, y_k = +1 or -1, n = 569, D = 31.

    a_k: the 30 features of scikit-learn's breast cancer set, standardised, and a 1 for the intercept (regularised too,
    which keeps f strongly convex in every direction). With z_k = y_k a_k: grad l_k = -s(-<z_k, x>) z_k + l2 x,
    s the logistic function.

    Constants:
        L = lambda_max(sum_k a_k a_k^T / n)/4 + l2, since s' = s(1 - s) <= 1/4; reached at x = 0.
        mu = l2, since the first term is convex.
        sigma^2 = max_i mean of ||a_k||^2 over the shard of worker i / B, at every x: grad l_k - l2 x = -s z_k with
            0 < s < 1.
        x*, f*: Newton's method in float64, once a process.
    """

    name = "logistic_regression"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        batch_size: int | None = 8,
        l2: float = 1e-2,
        heterogeneous: bool = False,
        dtype: str = "float32",
    ) -> None:
        features_nd, labels_n = datasets.standardised("load_breast_cancer")
        super().__init__(
            dim=features_nd.shape[1],
            labels_n=labels_n,
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            dtype=dtype,
        )
        self.l2 = arguments.number("l2", l2, strict=True)
        self.rows_nD = _signed_rows().astype(self.dtype)
        self.smoothness, optimum_D, self.optimal_loss = _solution(self.l2, self.n_samples)
        self.strong_convexity = self.l2
        self.optimum_D = optimum_D.astype(self.dtype)
        self.noise_variance = self.variance_bound(np.square(self.rows_nD).sum(axis=1))

    def initial_params(self, seed: int) -> Array:
        """0, (D,), for every seed: the problem is convex, so only the mini-batches differ."""
        return np.zeros(self.dim, self.dtype)

    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """log(1 + exp(-<z_k, x>)) + l2/2 ||x||^2, (n,)."""
        return _losses(self.rows_nD[index_n], params_D, self.l2)

    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """-(1/B) sum_k s(-<z_k, x>) z_k + l2 x, (N, D)."""
        return _gradients(self.rows_nD[index_NB], params_D, self.l2)


def _losses(rows_nD: Array, params_D: Array, l2: float) -> Array:
    return np.logaddexp(0, -(rows_nD @ params_D)) + l2 / 2 * (params_D @ params_D)


def _gradients(rows_NBD: Array, params_D: Array, l2: float) -> Array:
    weights_NB = expit(-(rows_NBD @ params_D)) / rows_NBD.shape[1]
    return l2 * params_D - (weights_NB[:, None] @ rows_NBD)[:, 0]


@functools.cache
def _signed_rows() -> Array:
    features_nd, labels_n = datasets.standardised("load_breast_cancer")
    return (2 * labels_n[:, None] - 1).astype(features_nd.dtype) * features_nd


@functools.cache
def _solution(l2: float, n_samples: int) -> tuple[float, Array, float]:
    """L, x* and f* over the first ``n_samples`` samples."""
    rows_nD = _signed_rows()[:n_samples].astype(np.float64)
    smoothness = float(np.linalg.norm(rows_nD, 2)) ** 2 / n_samples / 4 + l2

    def loss(x_D: Array) -> float:
        return float(_losses(rows_nD, x_D, l2).mean())

    optimum_D = minimiser(loss, lambda x_D: _gradients(rows_nD[None], x_D, l2)[0], np.zeros(rows_nD.shape[1]))
    return smoothness, optimum_D, loss(optimum_D)
