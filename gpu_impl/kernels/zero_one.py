"""What 0/1 Adam needs beside the kernels of 1-bit Adam: a step in which no worker is met, fused.

The form here is the readable one, in torch's operations on any device; a backend that has a faster one overrides
it, and equals it: every elementwise operation is one float32 rounding, in the order in which it is written.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import FLOATS, check_beta, check_tensor
from gpu_impl.kernels.arithmetic import root
from gpu_impl.kernels.kernel import Arguments, check_params, kernel
from gpu_impl.kernels.marks import live_in
from gpu_impl.kernels.pieces import Gradient, check_gradient
from gpu_impl.kernels.state import F32, I64, length_of
from gpu_impl.kernels.step_scalars import GRADIENT_FACTOR, LR, WEIGHT_DECAY, StepScalars


class ZeroOneKernels:
    """See the module's docstring; arguments as in :class:`gpu_impl.Backend`."""

    @kernel
    def walk(
        self,
        params: Tensor,
        met: Tensor,
        walked: Tensor,
        momentum: Tensor,
        accumulated: Tensor,
        variance: Tensor,
        grad: Gradient,
        step: StepScalars,
        ignored: Tensor,
        floor: Tensor,
        *,
        beta1: float,
        eps: float,
        params_copy: Tensor | None = None,
    ) -> Arguments:
        """A step of 0/1 Adam in which no worker is met.

            m_i <- beta1 m_i + (1-beta1) g      u_i <- u_i + gamma m_i      P = 1 / (sqrt(max(v, floor)) + eps)
            walked <- walked + gamma (P m_i + lambda x)      x_i <- x - walked

        Where v is 0 or has overflowed nothing moves, and non-zero gradients are counted in ``ignored``.

        Args:
            params: x_i (D,) float32; not read.
            met: x (D,) float32; not written.
            walked: x - x_i (D,) float32.
            momentum: m_i (D,) float32.
            accumulated: u_i (D,) float32.
            variance: v (D,) float32.
            grad: g_i (D,).
            step: scalars of the step.
            ignored: (1,) int64.
            floor: (1,) float32.
            beta1: decay of the momentum.
            eps: as in Adam.
            params_copy: 16-bit weights (D,), whose master copy ``params`` is.
        """
        dim = length_of("params", params)
        check_tensor("params", params, (dim,), F32)
        check_params(params, params_copy, step, dim)
        for name, tensor in (("met", met), ("walked", walked), ("momentum", momentum), ("variance", variance)):
            check_tensor(name, tensor, (dim,), F32, params.device)
        check_tensor("accumulated", accumulated, (dim,), F32, params.device)
        check_gradient(grad, dim, FLOATS, params.device)
        check_tensor("ignored", ignored, (1,), I64, params.device)
        check_tensor("floor", floor, (1,), F32, params.device)
        check_beta("beta1", beta1)
        rows = (params, met, walked, momentum, accumulated, variance)
        return (*rows, grad, step, ignored, floor, beta1, eps, params_copy)

    @staticmethod
    def _walk(
        params: Tensor,
        met: Tensor,
        walked: Tensor,
        momentum: Tensor,
        accumulated: Tensor,
        variance: Tensor,
        grad: Tensor,
        step: StepScalars,
        ignored: Tensor,
        floor: Tensor,
        beta1: float,
        eps: float,
        params_copy: Tensor | None,
    ) -> None:
        go, live = ~torch.isnan(step.values[GRADIENT_FACTOR]), live_in(variance)
        g = grad.float() * step.values[GRADIENT_FACTOR]
        m = beta1 * momentum + (1 - beta1) * g
        u = accumulated + step.values[LR] * m
        preconditioner = 1 / (root(torch.maximum(variance, floor)) + eps)
        w = walked + step.values[LR] * (preconditioner * m + step.values[WEIGHT_DECAY] * met)
        w = torch.where(live, w, 0.0)
        ignored.add_(torch.where(go, (~live & (grad != 0)).sum(), 0))
        for target, values in ((walked, w), (momentum, m), (accumulated, u), (params, met - w)):
            target.copy_(torch.where(go, values, target))
        if params_copy is not None:
            params_copy.copy_(torch.where(go, params, params_copy))
