"""Softmax regression on digits."""

from __future__ import annotations

import functools

import numpy as np

from reference import arguments
from reference.problems import cross_entropy, datasets
from reference.problems.base import Array
from reference.problems.finite_sum import FiniteSum
from reference.problems.minimise import minimiser

K = 10


class SoftmaxRegression(FiniteSum):
    """f(X) = (1/n) sum_k -log softmax(X^T a_k)[y_k] + l2/2 ||X||^2, x = vec(X), X is (65, 10), n = 1797, D = 650.

    a_k: the 64 pixels of scikit-learn's digits, standardised (constant ones become 0), and a 1 for the intercept.
    grad l_k = a_k (p_k - e_{y_k})^T + l2 X with p_k = softmax(X^T a_k). Weights of the three constant pixels have
    no gradient but l2 x: from x_0 = 0 they stay exactly 0, and are zero-variance coordinates (C6).

    Constants:
        L = lambda_max(sum_k a_k a_k^T / n)/2 + l2: the Hessian of one loss is (diag p - p p^T) kron a a^T, and each
            row of the first factor has absolute sum 2 p_j (1 - p_j) <= 1/2 (Gershgorin).
        mu = l2, since the first term is convex.
        sigma^2 = max_i mean of 2 ||a_k||^2 over the shard of worker i / B, at every x: ||p - e_y||^2 is at most
            2 (1 - p_y)^2 < 2.
        x*, f*: Newton's method in float64, once a process.

    Reference: D. Boehning, Annals of the Institute of Statistical Mathematics 44, 1992 (bounds of this Hessian).
    """

    name = "softmax_regression"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        batch_size: int | None = 16,
        l2: float = 1e-2,
        heterogeneous: bool = False,
        dtype: str = "float32",
    ) -> None:
        features_nd, self.labels_n = datasets.standardised("load_digits")
        super().__init__(
            dim=features_nd.shape[1] * K,
            labels_n=self.labels_n,
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            dtype=dtype,
        )
        self.l2 = arguments.number("l2", l2, strict=True)
        self.features_nd = features_nd.astype(self.dtype)
        self.smoothness, optimum_D, self.optimal_loss = _solution(self.l2, self.n_samples)
        self.strong_convexity = self.l2
        self.optimum_D = optimum_D.astype(self.dtype)
        self.noise_variance = self.variance_bound(2 * np.square(self.features_nd).sum(axis=1))

    def initial_params(self, seed: int) -> Array:
        """0, (D,), for every seed: the problem is convex, so only the mini-batches differ."""
        return np.zeros(self.dim, self.dtype)

    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """-log softmax(X^T a_k)[y_k] + l2/2 ||X||^2, (n,)."""
        return _losses(self.features_nd[index_n], self.labels_n[index_n], params_D, self.l2)

    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """(1/B) sum_k a_k (p_k - e_{y_k})^T + l2 X, (N, D)."""
        return _gradients(self.features_nd[index_NB], self.labels_n[index_NB], params_D, self.l2)


def _losses(features_nd: Array, labels_n: Array, params_D: Array, l2: float) -> Array:
    return cross_entropy.losses(features_nd @ params_D.reshape(-1, K), labels_n) + l2 / 2 * (params_D @ params_D)


def _gradients(features_NBd: Array, labels_NB: Array, params_D: Array, l2: float) -> Array:
    N, B, _ = features_NBd.shape
    errors_NBK = cross_entropy.gradient(features_NBd @ params_D.reshape(-1, K), labels_NB) / B
    return l2 * params_D + (features_NBd.swapaxes(1, 2) @ errors_NBK).reshape(N, -1)


@functools.cache
def _solution(l2: float, n_samples: int) -> tuple[float, Array, float]:
    """L, x* and f* over the first ``n_samples`` samples."""
    features_nd, labels_n = datasets.standardised("load_digits")
    features_nd, labels_n = features_nd[:n_samples].astype(np.float64), labels_n[:n_samples]
    smoothness = float(np.linalg.norm(features_nd, 2)) ** 2 / n_samples / 2 + l2

    def loss(x_D: Array) -> float:
        return float(_losses(features_nd, labels_n, x_D, l2).mean())

    def gradient(x_D: Array) -> Array:
        return _gradients(features_nd[None], labels_n[None], x_D, l2)[0]

    optimum_D = minimiser(loss, gradient, np.zeros(features_nd.shape[1] * K))
    return smoothness, optimum_D, loss(optimum_D)
