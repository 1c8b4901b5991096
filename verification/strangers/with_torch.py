"""The same algorithm in PyTorch operations, as an implementer would write it there."""

from __future__ import annotations

from typing import ClassVar

import torch

from verification.protocol import Array, Scale


class Torch:
    """torch.linalg norms, torch.where signs; squares overflow where torch's do not guard, so norms are in float64."""

    scale: ClassVar[Scale] = "l2"

    def allreduce(
        self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array
    ) -> tuple[Array, Array, Array]:
        buffers, errors, error = (
            torch.tensor(array) for array in (buffers_ND.copy(), worker_errors_ND.copy(), server_error_D.copy())
        )
        n, dim = buffers.shape
        u = buffers + errors
        s = (torch.linalg.vector_norm(u, dim=1, keepdim=True, dtype=torch.float64) / dim**0.5).float()
        message = s * torch.where(u >= 0, 1.0, -1.0)
        w = message.mean(dim=0) + error
        c = 8 * -(-dim // (8 * n))
        parts = [
            (torch.linalg.vector_norm(part, dtype=torch.float64) / part.numel() ** 0.5).float()
            * torch.where(part >= 0, 1.0, -1.0)
            for part in torch.split(w, c)
        ]
        output = torch.cat(parts)
        return output.numpy(), (u - message).numpy(), (w - output).numpy()


TORCH: tuple[type, ...] = (Torch,)
