"""DeepSpeed 0.19.6's ``OneBitLamb``, driven as its ``OneBitAdam`` is (``deepspeed.py``), one parameter tensor a layer.

In fp16 and bf16 the engine wraps it in ``FP16_UnfusedOptimizer``, which keeps a float32 copy of each parameter: layers
are layers in every precision. The wrapper's constructor takes the step on zeros here, too. Momenta of all layers are
one buffer, so D alone has to be a size that need not be padded.

Left to findings of their own, beside what is left out of OneBitAdam's search: weight decay, which changes r there, and
layers whose momentum is 0 at the freeze.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from verification.adapters.published.deepspeed import DeepSpeedOptimizer, Engine
from verification.protocol import Array, LambSnapshot

GIVEN = {
    "max_trust": "max_coeff",
    "min_trust": "min_coeff",
    "trust_decay": "coeff_beta",
    "max_ratio": "factor_max",
    "min_ratio": "factor_min",
    "ratio_change": "factor_threshold",
}
"""Hyper-parameters and what DeepSpeed calls them."""


class DeepSpeedLamb(DeepSpeedOptimizer):
    """``OneBitLamb`` of the engine, in fp32 over nccl."""

    algorithm = "one_bit_lamb"
    takes: ClassVar[dict[str, Any]] = {"bias_correction": False, "variance_floor": 0.0, "weight_decay": 0.0}

    def made(self, params_D: Array, n_workers: int, **params: Any) -> Engine:
        own = {theirs: getattr(self.hyper, ours) for ours, theirs in GIVEN.items()}
        return super().made(params_D, n_workers, optimizer="OneBitLamb", **own, **params)

    def parts(self, array_D: Array) -> list[Array]:
        return [array_D[layer] for layer in self.hyper.slices(self.dim)]

    def leave_out(self) -> None:
        super().leave_out()
        if not all(m_D.any() for m_D in self.engine.momentum):
            raise NotImplementedError("a layer without momentum: a finding of its own")

    def snapshot(self) -> Any:
        seen = self.engine.seen()
        states, sizes = seen[0]["state"], [array.size for array in self.engine.arrays]
        scales = seen[0].get("next_scales") or [state.get("scaling_coeff", 1.0) for state in states]
        return LambSnapshot(
            **self.common(seen),
            trust_mean_D=spread([state["lamb_coeff_freeze"] for state in states], sizes),
            layer_scale_D=spread(scales, sizes),
            fresh_variance_D=np.concatenate([state["exp_avg_sq_fresh"] for state in states]),
            ratio_D=spread([state["last_factor"] for state in states], sizes),
        )


def spread(numbers: list[float], sizes: list[int]) -> Array:
    """A number of each layer at all its elements."""
    return np.repeat(np.array(numbers, np.float32), sizes)


class DeepSpeedLambFp16(DeepSpeedLamb):
    """The same in fp16."""

    precision = "fp16"


class DeepSpeedLambBf16(DeepSpeedLamb):
    """The same in bf16."""

    precision = "bf16"


class DeepSpeedLambCompressed(DeepSpeedLamb):
    """fp32 over the transport compressed."""

    transport = "compressed"
