"""1-bit LAMB in one flat buffer: the parts of a step, in the names of ``one_bit_lamb.py``."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gpu_impl.kernels.arithmetic import preconditioner_of
from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.marks import floor_of, is_marked, live_in
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import F32, F64
from gpu_impl.kernels.step_scalars import LR, MOMENTUM_CORRECTION, WEIGHT_DECAY
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
    """

    names: ClassVar[Names] = ONE_BIT_LAMB

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.mean_momentum, self.fresh = flat_buffer(0), flat_buffer(0)
        n, device = len(self.flat.params), self.momentum.device
        self.squares = torch.zeros(n, 2, dtype=F64, device=device)
        self.trust = torch.ones(n, dtype=F32, device=device)

    # --- warm-up ---

    def moments_call(self, group: Group, mean: Gradient) -> dict[str, Any]:
        """Arguments of the first pass along the workers' average (D,)."""
        beta1, beta2 = group["betas"]
        own = {"grad": mean, "squares": self.squares, "beta1": beta1, "beta2": beta2}
        return {**self._call(group), **own}

    def move_call(self, group: Group) -> dict[str, Any]:
        """Arguments of the second pass."""
        return {**self._call(group), "trust": self.trust}

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

    def form(self, group: Group, grad: Tensor, scale: Tensor) -> None:
        """What this worker wants averaged, s (beta1 m-bar + (1-beta1) g), from its gradient (D,) and s (n,)."""
        beta1, scale = group["betas"][0], scale.to(F32)
        self.note_ignored(grad)
        for part in self.layers.parts:
            at = part.elements
            wanted = part.spread(scale) * (beta1 * self.mean_momentum[at] + (1 - beta1) * grad[at])
            self.buffer[at] = torch.where(is_marked(self.momentum[at]), 0.0, wanted)

    def refresh(self, group: Group, scale: Tensor) -> Tensor:
        """M-bar and v' from the average; the largest (sqrt(v) + eps) / (sqrt(v') + eps) of each parameter (n,)."""
        (beta1, beta2), eps, scale = group["betas"], self.frozen_with[0], scale.to(F32)
        self.take_average()
        complement = torch.full_like(self.buffer[:1], 1 - beta1)
        largest = torch.zeros(len(self.layers.sizes), dtype=F64, device=self.buffer.device)
        for part in self.layers.parts:
            at = part.elements
            momentum, fresh, v = self.mean_momentum[at], self.fresh[at], self.variance[at]
            new = self.buffer[at] / part.spread(scale)
            rebuilt = (new - beta1 * momentum) / complement
            momentum.copy_(new)
            fresh.copy_(beta2 * fresh + (1 - beta2) * (rebuilt * rebuilt))
            frozen_root, fresh_root = (one.double().sqrt() + eps for one in (v, fresh))
            part.put_largest(torch.where(live_in(v), frozen_root / fresh_root, 0.0), largest)
        return largest

    def move(self) -> None:
        """X <- x - gamma c-bar r w, with ``trust`` for c-bar r, where v is not 0."""
        values, x_D, (eps, correction) = self.scalars.values, self.x(), self.frozen_with
        for part in self.layers.parts:
            x, momentum, v = x_D[part.elements], self.mean_momentum[part.elements], self.variance[part.elements]
            update = preconditioner_of(v, correction, eps) * (momentum / values[MOMENTUM_CORRECTION])
            update = update + values[WEIGHT_DECAY] * x
            moved = x - values[LR] * (update * part.spread(self.trust))
            self.buffer[part.elements] = torch.where(v == 0, x, moved)
        self.flat.put(self.buffer)

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
