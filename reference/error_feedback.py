"""Error feedback: what a compressor loses in one step is added to its input in the next.

    u_t = a_t + delta_{t-1}      send C(u_t)      delta_t = u_t - C(u_t)

Summed over t the errors telescope: sum C(u_t) = sum a_t + delta_0 - delta_T [theorem T2].
Seide et al. 2014; Karimireddy et al. 2019 (arXiv 1901.09847).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import Array, zeros
from reference.compressors import Compressor, Message, ScaledSign
from reference.compressors.scaled_sign import Starts

Mask = NDArray[np.bool_]


def compress_with_feedback(
    compressor: Compressor, u_D: Array, live_D: Mask | None, rng: np.random.Generator, starts_K: Starts | None = None
) -> tuple[Message, Array]:
    """Compress ``u_D`` = input + old error (D,) and leave the new error in it: what the message does not say.

    The error is computed from the decoded message, so it uses the very signs and scale that are sent [C2]. With
    ``starts_K``, where blocks begin, each of them has a scale of its own [C13]: then the compressor is a scaled sign.

    Returns:
        The message, and what every receiver decodes from it (D,): 0 at zero-variance coordinates, for all of them know
        which those are [C6].
    """
    if live_D is not None:
        u_D[~live_D] = zeros(1, u_D.dtype)[0]  # a product would turn Inf, from a P of 1/eps, into NaN
    if starts_K is not None and isinstance(compressor, ScaledSign):
        counted_D = np.ones(u_D.size, np.intp) if live_D is None else live_D.astype(np.intp)
        message = compressor.encode_blocks(u_D, starts_K, np.add.reduceat(counted_D, starts_K))
    else:
        message = compressor.encode(u_D, u_D.size if live_D is None else int(live_D.sum()), rng)
    sent_D = message.decode()
    if live_D is not None:
        sent_D *= live_D
    u_D -= sent_D
    return message, sent_D
