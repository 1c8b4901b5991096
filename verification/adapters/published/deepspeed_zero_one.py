"""DeepSpeed 0.19.6's ``ZeroOneAdam`` from the freeze of v on, driven as its ``OneBitAdam`` is (``deepspeed.py``).

Its warm-up is another algorithm than the paper's, so ``onebit verify`` can't be told to search it: a step of T_v is
Adam's, uncompressed; between two of them the gradient is sent with one bit, not the momentum. After the freeze the
workers walk alone and send what they accumulated, as published. So a finding runs the warm-up, and judges what follows
by the step relation of 0/1 Adam. ``var_freeze_step`` is T_w. Without weight decay, which is a finding of its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from verification.adapters.published.deepspeed import DeepSpeedOptimizer, Engine
from verification.protocol import Array, ZeroOneHyper, ZeroOneSnapshot


def interval(hyper: ZeroOneHyper, t: int) -> int:
    """Steps between two meetings when step t is made: 1 at the freeze, doubled after so many steps, and cut."""
    return min(hyper.local_limit, 2 ** max(0, (t - hyper.freeze_step - 1) // hyper.local_doubling))


def meets(hyper: ZeroOneHyper, t: int) -> bool:
    """DeepSpeed's T_u after the freeze: its own count, which is one more than t, is a multiple of the interval."""
    return t <= hyper.freeze_step or (t + 1) % interval(hyper, t) == 0


class DeepSpeedZeroOneAdam(DeepSpeedOptimizer):
    """``ZeroOneAdam`` of the engine, for its steps after the freeze."""

    algorithm = "zero_one_adam"
    takes: ClassVar[dict[str, Any]] = {"variance_floor": 0.0, "weight_decay": 0.0}
    meeting_policy = staticmethod(meets)

    def made(self, params_D: Array, n_workers: int, **params: Any) -> Engine:
        h = self.hyper
        self.shared_D = params_D
        return Engine(
            self.precision, self.transport, [params_D], n_workers=n_workers, optimizer="ZeroOneAdam",
            lr=h.lr, betas=(h.beta1, h.beta2), eps=h.eps, var_freeze_step=h.freeze_step,
            var_update_scaler=h.variance_doubling, local_step_scaler=h.local_doubling,
            local_step_clipper=h.local_limit, **params,
        )  # fmt: skip

    def snapshot(self) -> Any:
        seen = self.engine.seen()
        known = self.common(seen)
        del known["momentum_D"]
        if meets(self.hyper, known["step"]):
            self.shared_D = known["params_ND"][0]
        # DeepSpeed accumulates and sends -u, so its errors are those of -u
        known |= {name: -known[name] for name in ("worker_errors_ND", "server_error_D")}
        # what is accumulated are steps of x: P is taken out of them, as it is before they are sent
        out_D = np.sqrt(known["variance_D"]) + np.float32(self.hyper.eps)
        return ZeroOneSnapshot(
            **known,
            shared_D=self.shared_D,
            momentum_ND=np.stack([row["momentum"][0] for row in seen]),
            accumulated_ND=np.stack([-out_D * row["state"][0]["momentum_accumulator"] for row in seen]),
        )
