"""CAME: Adafactor's update, scaled by the confidence in it (Luo et al. 2023, ACL, arXiv 2307.02047).

    matrix   R <- beta2 R + (1 - beta2) row means of (g^2 + eps1)      C <- the same with column means
             V = R C / mean(R)                                         u = g / sqrt(V)
             u <- u / max(1, RMS(u) / clip)                            m <- beta1 m + (1 - beta1) u
             R', C' <- the same means of (u - m)^2 + eps2, with beta3  S = R' C' / mean(R')
             x <- x - gamma (m / sqrt(S) + lambda x)
    vector   v <- beta2 v + (1 - beta2) (g^2 + eps1), V = v, and there is no S: x <- x - gamma (m + lambda x)

An r x c matrix needs 2 (r + c) numbers beside m, where Adam needs r c. There are no messages but the mean gradient, so
there is no residual to conserve; what the factors keep is that the row and column means of V are R and C.

That vectors have no S is from the authors' code. An array with more than two axes is a matrix whose rows run over all
axes but the last, where their code factors the last two axes and keeps the others apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from reference import arguments
from reference.arithmetic import Array, sqrt, sum_of_squares, zeros
from reference.optimizers.base import Optimizer, dense_round, mean_over_workers
from reference.optimizers.layers import check_shapes, layer_slices, shapes_of
from reference.state import State


def factors(row_R: Array, column_C: Array) -> tuple[Array, Array]:
    """Factors (r, 1) and (c,) of R C / mean(R), the matrix of rank one with these row and column means.

    Roots are taken of each factor: where a row and a column never saw a gradient, the product underflows in float32.
    """
    return (row_R / (row_R.sum() / row_R.size))[:, None], column_C


@dataclass(frozen=True, kw_only=True)
class CAME(Optimizer):
    """Uncompressed distributed CAME.

    ``State.momentum`` is m, ``State.variance`` holds v on the vectors. The slots of matrix number l are ``row<l>_R``,
    ``column<l>_C``, and with ``confidence_`` before them R' and C'.

    Attributes:
        beta1, beta2, beta3: decays of m, of R, C and v, and of R', C', in [0, 1).
        eps1, eps2: added to the squares, > 0.
        clip: largest root mean square of u, > 0.
        shapes: shapes of the parameter arrays in their order; None: all parameters are one vector.
    """

    momentum_is: ClassVar[str] = "a momentum of updates"

    beta1: float = 0.9
    beta2: float = 0.999
    beta3: float = 0.9999
    eps1: float = 1e-30
    eps2: float = 1e-16
    clip: float = 1.0
    shapes: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes("shapes", self.shapes)
        arguments.decay("beta3", self.beta3)
        for name in ("eps1", "eps2", "clip"):
            arguments.number(name, getattr(self, name), strict=True)

    def init(self, params_D: Array, n_workers: int) -> State:
        state, slots = super().init(params_D, n_workers), dict[str, Array]()
        for number, shape in enumerate(shapes_of(self.shapes, params_D.size)):
            if len(shape) > 1:
                for name in (f"row{number}_R", f"confidence_row{number}_R"):
                    slots[name] = zeros(math.prod(shape[:-1]), params_D.dtype)
                for name in (f"column{number}_C", f"confidence_column{number}_C"):
                    slots[name] = zeros(shape[-1], params_D.dtype)
        return state.with_slots(**slots)

    def form(self, state: State) -> dict[str, Any]:
        """Slots are named by the place of their matrix, and say nothing of the vectors between."""
        return {"shapes": tuple(shapes_of(self.shapes, state.params.size)), **super().form(state)}

    def update(self, state: State, grads_ND: Array) -> State:
        grad_D, dim = mean_over_workers(grads_ND), state.params.size
        momentum_D, variance_D = state.momentum.copy(), state.variance.copy()
        direction_D, slots = zeros(dim, grad_D.dtype), dict(state.slots)
        layers = zip(shapes_of(self.shapes, dim), layer_slices(self.shapes, dim), strict=True)
        for number, (shape, layer) in enumerate(layers):
            grad = grad_D[layer].reshape(-1, shape[-1]) if len(shape) > 1 else grad_D[layer]
            if grad.ndim == 1:
                variance_D[layer] = self.beta2 * variance_D[layer] + (1 - self.beta2) * (grad * grad + self.eps1)
                u = grad / sqrt(variance_D[layer])
            else:
                row, column = self.remember_means(slots, f"{number}", grad * grad + self.eps1, self.beta2)
                u = grad / sqrt(row) / sqrt(column)
            u /= max(1.0, math.sqrt(sum_of_squares(u) / u.size) / self.clip)
            momentum = self.beta1 * momentum_D[layer].reshape(grad.shape) + (1 - self.beta1) * u
            momentum_D[layer] = momentum.ravel()
            if grad.ndim == 2:
                instability = (u - momentum) * (u - momentum) + self.eps2
                row, column = self.remember_means(slots, f"{number}", instability, self.beta3, "confidence_")
                momentum = momentum / sqrt(row) / sqrt(column)
            direction_D[layer] = momentum.ravel()
        state = replace(state, momentum=momentum_D, variance=variance_D, params=self.apply(state, direction_D))
        return dense_round(state.with_slots(**slots))

    @staticmethod
    def remember_means(
        slots: dict[str, Array], number: str, squares_RC: Array, beta: Any, prefix: str = ""
    ) -> tuple[Array, Array]:
        """Move the row and column means of a matrix towards those of ``squares_RC``; the new factors (r, 1), (c,)."""
        row, column = f"{prefix}row{number}_R", f"{prefix}column{number}_C"
        rows, columns = squares_RC.shape
        slots[row] = beta * slots[row] + (1 - beta) * (squares_RC.sum(axis=1) / columns)
        slots[column] = beta * slots[column] + (1 - beta) * (squares_RC.sum(axis=0) / rows)
        return factors(slots[row], slots[column])
