"""Local SGD that averages a part of the layers in each step, in the manner of DreamDDP (Tang et al. 2025, 2502.11058).

    worker i   delta_i <- delta_i + gamma (g_i + lambda x_i)      x_i = x - delta_i
    step t     on the layers whose phase is t mod H:   x <- x - mean_i delta_i      delta_i <- 0

Every layer meets every H steps, as in local SGD, but not all of them in the same step: a little is sent in every step,
while the other layers are computed. The law is that of local SGD: x - Delta, the mean of the workers, obeys SGD on the
mean gradient. With phases that are all 0 it is local SGD, and so with one layer and no phases given; with H = 1 it is
SGD.

Where this departs from the paper: DreamDDP finds the phases from the measured times of a network and its layers, and
fills what bandwidth is left with further averages. Here the phases cut the parameters into H parts of about one size,
or are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reference import arguments
from reference.arithmetic import Array
from reference.optimizers.base import dense_round
from reference.optimizers.layers import check_shapes, layer_slices
from reference.optimizers.local_sgd import LocalSGD
from reference.state import State


@dataclass(frozen=True, kw_only=True)
class PartialSGD(LocalSGD):
    """Local SGD whose layers meet at different steps; ``params`` holds the last average of each layer.

    Attributes:
        shapes: shapes of the parameter arrays in their order, a layer each; None: all parameters are one layer.
        phases: for each layer, which steps t mod H it meets in; None: H parts of about one size.
    """

    shapes: Sequence[Sequence[int]] | None = None
    phases: Sequence[int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes("shapes", self.shapes)
        if self.phases is not None:
            phases = arguments.integers("phases", self.phases, 0)
            if len(phases) != (1 if self.shapes is None else len(self.shapes)) or max(phases) >= self.sync_every:
                raise ValueError(f"phases must give each layer a number below {self.sync_every}, got {self.phases!r}")

    def update(self, state: State, grads_ND: Array) -> State:
        t = state.step + 1
        gamma = self.learning_rate(t, state.params.dtype)
        moved_ND = state.worker_errors + gamma * (grads_ND + self.weight_decay * self.local_params(state))
        layers = layer_slices(self.shapes, state.params.size)
        due_D = np.zeros(state.params.size, np.bool_)
        for layer, phase in zip(layers, self.phases_of(layers), strict=True):
            due_D[layer] = t % self.sync_every == phase
        state = replace(state, worker_errors=moved_ND)
        if not due_D.any():
            return state
        met_D = state.params - due_D * state.total_error
        return dense_round(replace(state, params=met_D, worker_errors=moved_ND * ~due_D), int(due_D.sum()))

    def phases_of(self, layers: list[slice]) -> Sequence[int]:
        """The phase of each layer: by the middle of the layer, in H equal parts of the parameters; of one layer 0."""
        if self.phases is not None:
            return self.phases
        if len(layers) == 1:
            return [0]  # as local SGD
        parts, dim = self.sync_every, layers[-1].stop
        return [parts * (layer.start + layer.stop) // (2 * dim) for layer in layers]
