"""Quadratic with a chosen spectrum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reference import arguments
from reference.problems import sampling
from reference.problems.additive_noise import AdditiveNoise
from reference.problems.base import Array


class Quadratic(AdditiveNoise):
    """f(x) = 1/2 (x - x*)^T A (x - x*),  grad f(x) = A (x - x*),  A = Q diag(lambda) Q^T.

    lambda is ``eigenvalues`` where given, else D values from 1/``condition_number`` to 1, evenly spaced in the
    logarithm. Q is a random rotation (``rotate=True``; A is then D x D) or the identity (A is a diagonal, any D).
    Noise and heterogeneity: see AdditiveNoise.

    Constants: L = max lambda and mu = min lambda, as grad f is linear with matrix A; f* = 0 at x*, drawn from
    N(0, I) with ``problem_seed``; sigma^2 = noise^2, exactly. In float32, A is rounded, and so are L and mu.
    """

    name = "quadratic"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        dim: int | None = None,
        condition_number: float = 100.0,
        eigenvalues: Sequence[float] | None = None,
        rotate: bool = True,
        noise: float = 1.0,
        heterogeneous: bool = False,
        heterogeneity: float = 1.0,
        problem_seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        if eigenvalues is None:
            dim = arguments.integer("dim", 100 if dim is None else dim)
            condition_number = arguments.number("condition_number", condition_number, 1.0)
            spectrum_D = np.geomspace(1 / condition_number, 1.0, dim)
        else:
            spectrum_D = np.array([arguments.number("eigenvalues", value, strict=True) for value in eigenvalues])
            if len(spectrum_D) == 0 or dim not in (None, len(spectrum_D)):
                raise ValueError(f"dim must be the number of eigenvalues, {len(spectrum_D)}, and >= 1, got {dim!r}")
            dim = len(spectrum_D)
        super().__init__(
            dim=dim,
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            heterogeneity=heterogeneity,
            noise=noise,
            problem_seed=problem_seed,
            dtype=dtype,
        )
        random = sampling.generator(sampling.DATA, problem_seed)
        self.optimum_D = random.standard_normal(dim).astype(self.dtype)
        self.optimal_loss = 0.0
        self.smoothness, self.strong_convexity = float(spectrum_D.max()), float(spectrum_D.min())
        matrix = spectrum_D
        if arguments.boolean("rotate", rotate):
            Q, R = np.linalg.qr(random.standard_normal((dim, dim)))
            Q *= np.sign(np.diag(R))  # makes Q uniform over the orthogonal group (Mezzadri 2007)
            matrix = (Q * spectrum_D) @ Q.T
            matrix = (matrix + matrix.T) / 2
        self.matrix = matrix.astype(self.dtype)

    def initial_params(self, seed: int) -> Array:
        """x_0 ~ N(0, I), (D,)."""
        return sampling.generator(sampling.START, seed).standard_normal(self.dim).astype(self.dtype)

    def value(self, params_D: Array) -> Array:
        """1/2 (x - x*)^T A (x - x*)."""
        return (params_D - self.optimum_D) @ self.slope(params_D) / 2

    def slope(self, params_D: Array) -> Array:
        """A (x - x*), (D,)."""
        offset_D = params_D - self.optimum_D
        return self.matrix @ offset_D if self.matrix.ndim == 2 else self.matrix * offset_D
