"""MERIT: trust ratios by maxima, element by element (ICML 2025, arXiv 2508.20577).

    m, v as in Adam, without bias correction      r = m / (sqrt(v) + eps) + lambda x
    matrix   c_jk = max( max|x_j.| / max|r_j.|,  max|x_.k| / max|r_.k|,  max|x| / max|r| )
    vector   c = max|x| / max|r|
    x <- x - gamma clip(c r, -1, 1)

c is 1 where a maximum is 0. LAMB divides norms of layers; here a row or a column of large weights has steps of its own
size, and no coordinate moves by more than gamma. There are no messages but the mean gradient, so there is no residual
to conserve.

The fallback c = 1 and the treatment of vectors are from the authors' code. An array with more than two axes is a matrix
whose rows run over its first axis. Unlike there, max|x| / max|r| is not formed by itself: in float32 it overflows where
a column has had no gradient for some 850 steps, as its m has shrunk by 0.9^850, and inf times 0 is no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reference.arithmetic import Array
from reference.optimizers.adam import Adam
from reference.optimizers.layers import check_shapes, layer_slices, shapes_of
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class MERIT(Adam):
    """Uncompressed distributed MERIT.

    Attributes:
        bias_correction: off as published.
        shapes: shapes of the parameter arrays in their order; None: all parameters are one vector.
    """

    eps: float = 1e-6
    bias_correction: bool = False
    shapes: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes("shapes", self.shapes)

    def adam_update(self, state: State, grad_D: Array) -> State:
        t, dim = state.step + 1, state.params.size
        momentum_D, variance_D, direction_D = self.moments(state.momentum, state.variance, grad_D, t)
        update_D = direction_D + self.weight_decay * state.params
        for shape, layer in zip(shapes_of(self.shapes, dim), layer_slices(self.shapes, dim), strict=True):
            axes = (shape[0], -1) if len(shape) > 1 else (-1,)
            weights, update = state.params[layer].reshape(axes), update_D[layer].reshape(axes)
            update_D[layer] = np.clip(by_maxima(weights, update), -1, 1).ravel()
        params_D = state.params - self.learning_rate(t, state.params.dtype) * update_D
        return replace(state, momentum=momentum_D, variance=variance_D, params=params_D)


def by_maxima(weights: Array, update: Array) -> Array:
    """c r for a vector (n,) or a matrix (r, c), of the same shape; each ratio as max|x| (|r| / max|r|)."""
    axes = (None,) if weights.ndim == 1 else (None, 0, 1)
    maxima = [[abs(a).max(axis=axis, keepdims=True) for a in (weights, update)] for axis in axes]
    known = np.logical_and.reduce(np.broadcast_arrays(*[(x > 0) & (r > 0) for x, r in maxima]))
    sizes = [x * (abs(update) / np.where(r > 0, r, r + 1)) for x, r in maxima]
    return np.where(known, np.sign(update) * np.maximum.reduce(np.broadcast_arrays(*sizes)), update)
