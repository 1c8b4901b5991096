"""1-bit LAMB in one flat buffer: the parts of a step, in the names of ``one_bit_lamb.py``."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.marks import floor_of, live_in
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import F32, F64
from gpu_impl.optimizer.bucket import Group
from gpu_impl.optimizer.buffer_bucket import BufferBucket
from gpu_impl.optimizer.names import ONE_BIT_LAMB, Names


class LambBucket(BufferBucket):
    """1-bit LAMB in one flat buffer.

    Attributes:
        mean_momentum: m-bar (D,), after the freeze.
        fresh: v' (D,), after the freeze.
        squares: sums of squares of x and r over each parameter (n, 2) float64, after the first pass of a warm-up step.
        trust: what multiplies the update of each parameter (n,) float32.
        scale: s of each parameter (n,) float32.
        largest: the largest (sqrt(v) + eps) / (sqrt(v') + eps) of each parameter (n,) float64.
    """

    names: ClassVar[Names] = ONE_BIT_LAMB

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.mean_momentum, self.fresh = flat_buffer(0), flat_buffer(0)
        n, device = len(self.flat.params), self.momentum.device
        self.squares = torch.zeros(n, 2, dtype=F64, device=device)
        self.trust, self.scale = (torch.ones(n, dtype=F32, device=device) for _ in range(2))
        self.largest = torch.zeros(n, dtype=F64, device=device)

    # --- warm-up ---

    def moments_call(self, group: Group, mean: Gradient) -> dict[str, Any]:
        """Arguments of the first pass along the workers' average (D,)."""
        beta1, beta2 = group["betas"]
        own = {"grad": mean, "squares": self.squares, "beta1": beta1, "beta2": beta2}
        return {**self._call(group), **own}

    def move_call(self, group: Group) -> dict[str, Any]:
        """Arguments of the second pass; once v is frozen, with the eps and the correction of that step."""
        call = {**self._call(group), "trust": self.trust}
        if not self.is_frozen:
            return call
        eps, correction = self.frozen_with
        return {**call, "momentum": self.mean_momentum, "eps": eps, "frozen_correction": correction}

    def _call(self, group: Group) -> dict[str, Any]:
        return {
            "params": self.flat.master,
            "momentum": self.momentum,
            "variance": self.variance,
            "step": self.scalars,
            "layers": self.layers,
            "eps": group["eps"],
            "params_copy": self.flat.params_copy,
        }

    # --- freeze ---

    def freeze(self, group: Group, variance_floor: float, variance_correction: float, *, loaded: bool = False) -> None:
        self.frozen_with = (group["eps"], variance_correction)
        live, v = live_in(self.variance), self.variance
        if not loaded:
            self.variance.copy_(torch.where(v > 0, torch.maximum(v, floor_of(v, variance_floor)), 0.0))
        self.mean_momentum = torch.where(live, self.momentum, 0.0)
        self.fresh = self.variance.clone()
        self.begin_exchange()
        self.mark(live)
        self.is_frozen = True

    # --- compressed ---

    def form_call(self, group: Group, grad: Gradient, factor: float) -> dict[str, Any]:
        """Arguments of what this worker wants averaged, s (beta1 m-bar + (1-beta1) factor g)."""
        return {
            "u": self.momentum,
            "momentum": self.mean_momentum,
            "buffer": self.buffer,
            "grad": grad,
            "layers": self.layers,
            "scale": self.scale,
            "ignored": self.worker.ignored,
            "factor": factor,
            "beta1": group["betas"][0],
        }

    def refresh_call(self, group: Group) -> dict[str, Any]:
        """Arguments of m-bar and v' from the average."""
        beta1, beta2 = group["betas"]
        return {
            "u": self.momentum,
            "momentum": self.mean_momentum,
            "fresh": self.fresh,
            "buffer": self.buffer,
            "variance": self.variance,
            "layers": self.layers,
            "scale": self.scale,
            "largest": self.largest,
            "beta1": beta1,
            "beta2": beta2,
            "eps": self.frozen_with[0],
        }

    def where(self) -> tuple[Any, ...]:
        """What a call depends on beside the group: a freeze and a load make other tensors."""
        rows = (self.mean_momentum, self.fresh, self.buffer)
        return self.is_frozen, self.frozen_with, *(row.data_ptr() for row in rows)

    # --- what it knows ---

    def momentum_D(self) -> Tensor:
        return self.mean_momentum.clone() if self.is_frozen else self.momentum + 0.0

    def parts_of(self, k: int) -> dict[str, tuple[Tensor, float]]:
        slot = self.flat.slots[k]
        own = {"exp_avg": (self.mean_momentum[slot], 0.0), "fresh_variance": (self.fresh[slot], 0.0)}
        return {**super().parts_of(k), **own}

    def flats(self) -> dict[str, Tensor]:
        fresh = self.fresh.clone() if self.is_frozen else torch.zeros_like(self.variance)
        return {**super().flats(), "fresh_variance": fresh}

    def load(
        self, found: dict[str, Tensor], *, is_frozen: bool, is_first: bool, frozen_with: tuple[float, float]
    ) -> None:
        del is_first
        self.paused, self.is_frozen = {}, False
        self.momentum.copy_(found["exp_avg"])
        self.variance.copy_(found["exp_avg_sq"])
        if is_frozen:
            eps, correction = frozen_with
            self.freeze({"eps": eps}, 0.0, correction, loaded=True)
            self.fresh.copy_(found["fresh_variance"])
            self.set_errors(found, live_in(self.variance))
        if "master" in found:
            self.flat.master.copy_(found["master"])
