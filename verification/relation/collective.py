"""The relation of a collective: one compression round on its own inputs."""

from __future__ import annotations

import numpy as np

from verification.protocol import Array, Traits
from verification.relation.compression import CompressionRound
from verification.relation.tolerances import sum_tolerance


def collective_round(
    traits: Traits, inputs: tuple[Array, Array, Array], outputs: tuple[Array, Array, Array], *, exact: bool = False
) -> CompressionRound:
    """The relation for a collective: u = buffer + error is rounded at most once, so its sign is never in doubt.

    Where it is 0, the two are 0 or each other's negative, flushed or not.
    """
    buffers_ND, worker_errors_ND, server_error_D = inputs
    u_ND = buffers_ND.astype(np.float64) + worker_errors_ND
    return CompressionRound(
        u_ND,
        sum_tolerance(buffers_ND, worker_errors_ND, u_ND, traits.dtype) + traits.lost(3) * (u_ND != 0),
        server_error_D,
        *outputs,
        live_D=np.ones(server_error_D.size, np.bool_),
        scale=traits.scale or "l2",
        scale_block=traits.scale_block,
        traits=traits,
        exact=exact,
    )
