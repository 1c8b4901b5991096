"""Rosenbrock's function, chained over D coordinates."""

from __future__ import annotations

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.additive_noise import AdditiveNoise
from reference.problems.base import Array


class Rosenbrock(AdditiveNoise):
    """f(x) = sum_{i<D} 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2, a curved valley with a slow floor; D >= 2.

    Its gradient, with r_i = x_{i+1} - x_i^2, is -400 x_i r_i - 2 (1 - x_i) at i plus 200 r_i at i + 1. Noise and
    heterogeneity: see AdditiveNoise.

    Constants: f* = 0 at x* = (1, ..., 1), as a sum of squares that all vanish there; for D >= 4 there is a second
    local minimum near (-1, 1, ..., 1). The Hessian is unbounded, so there is no L. sigma^2 = noise^2, exactly.

    References: H. H. Rosenbrock, Computer Journal 3, 1960; Y.-W. Shang, Y.-H. Qiu, A note on the extended Rosenbrock
    function, Evolutionary Computation 14, 2006 (the second minimum of the chain).
    """

    name = "rosenbrock"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        dim: int = 20,
        noise: float = 1.0,
        heterogeneous: bool = False,
        heterogeneity: float = 1.0,
        problem_seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        super().__init__(
            dim=arguments.integer("dim", dim, 2),
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            heterogeneity=heterogeneity,
            noise=noise,
            problem_seed=problem_seed,
            dtype=dtype,
        )
        self.optimum_D = np.ones(self.dim, self.dtype)
        self.optimal_loss = 0.0

    def initial_params(self, seed: int) -> Array:
        """Rosenbrock's start (-1.2, 1, -1.2, 1, ...) plus N(0, 0.01 I), (D,)."""
        start_D = np.resize([-1.2, 1.0], self.dim)
        return (start_D + 0.1 * sampling.generator(sampling.START, seed).standard_normal(self.dim)).astype(self.dtype)

    def value(self, params_D: Array) -> Array:
        """sum 100 r_i^2 + (1 - x_i)^2."""
        head, tail = params_D[:-1], params_D[1:]
        return (100 * (tail - head**2) ** 2 + (1 - head) ** 2).sum()

    def slope(self, params_D: Array) -> Array:
        """-400 x_i r_i - 2 (1 - x_i) at i, plus 200 r_i at i + 1, (D,)."""
        head, tail = params_D[:-1], params_D[1:]
        residual = tail - head**2
        grad_D = np.zeros_like(params_D)
        grad_D[:-1] = -400 * head * residual - 2 * (1 - head)
        grad_D[1:] += 200 * residual
        return grad_D
