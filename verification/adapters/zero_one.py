"""Our own NumPy 0/1 Adam, as anybody else would have it checked."""

from __future__ import annotations

from typing import Any

from verification.adapters.reference import ReferenceOptimizer
from verification.protocol import ZeroOneSnapshot


class ReferenceZeroOneAdam(ReferenceOptimizer):
    """``reference.ZeroOneAdam``."""

    algorithm = "zero_one_adam"
    extensions = ("scale_block",)

    def snapshot(self) -> Any:
        s = self.state
        return ZeroOneSnapshot(
            params_ND=s.params - s.slots["walked_ND"],
            shared_D=s.params,
            momentum_ND=s.slots["momentum_ND"],
            accumulated_ND=s.slots["accumulated_ND"],
            variance_D=s.variance,
            worker_errors_ND=s.worker_errors,
            server_error_D=s.server_error,
            step=s.step,
        )


class ReferenceZeroOneAdam64(ReferenceZeroOneAdam):
    """The same in float64."""

    dtype = "float64"
