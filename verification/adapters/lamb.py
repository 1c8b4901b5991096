"""Our own NumPy 1-bit LAMB, as anybody else would have it checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from verification.adapters.reference import ReferenceOptimizer
from verification.protocol import LambSnapshot


class ReferenceOneBitLamb(ReferenceOptimizer):
    """``reference.OneBitLamb``."""

    algorithm = "one_bit_lamb"
    extensions = ("scale_block", "frozen_dtype")

    def snapshot(self) -> Any:
        s = self.state
        params_ND = np.tile(s.params, (s.n_workers, 1))
        sizes = self.hyper.layers or (s.params.size,)
        trust_D, scale_D, ratio_D = (
            np.repeat(s.slots[name], sizes) for name in ("trust_mean_L", "layer_scale_L", "last_ratio_L")
        )
        own = (trust_D, scale_D, s.slots["fresh_variance_D"], ratio_D)
        return LambSnapshot(params_ND, s.momentum, s.variance, s.worker_errors, s.server_error, *own, step=s.step)


class ReferenceOneBitLamb64(ReferenceOneBitLamb):
    """The same in float64."""

    dtype = "float64"
