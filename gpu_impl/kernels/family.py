"""What 0/1 Adam and LAMB need beside the kernels of 1-bit Adam: elementwise passes, fused.

The forms here are the readable ones, in torch's operations on any device; a backend that has faster ones overrides
them, and equals them: every elementwise operation is one float32 rounding, in the order in which it is written.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import FLOATS, check_beta, check_tensor
from gpu_impl.kernels.arithmetic import master_of, root
from gpu_impl.kernels.kernel import Arguments, check_params, kernel
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.marks import live_in
from gpu_impl.kernels.pieces import Gradient, check_gradient
from gpu_impl.kernels.state import F32, F64, I64, length_of
from gpu_impl.kernels.step_scalars import (
    GRADIENT_FACTOR,
    LR,
    MOMENTUM_CORRECTION,
    VARIANCE_CORRECTION,
    WEIGHT_DECAY,
    StepScalars,
)


class FamilyKernels:
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

    @kernel
    def lamb_moments(
        self,
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        grad: Gradient,
        step: StepScalars,
        layers: Layers,
        squares: Tensor,
        *,
        beta1: float,
        beta2: float,
        eps: float,
        params_copy: Tensor | None = None,
    ) -> Arguments:
        """The first pass of a step of LAMB: m and v as in Adam, and the squares of the norms of x and of its update r.

            r = P (m / b1) + lambda x      P = 1 / (sqrt(v / b2) + eps)

        Args:
            params: x (D,) float32; not written.
            momentum: m (D,) float32.
            variance: v (D,) float32.
            grad: the workers' average (D,).
            step: scalars of the step.
            layers: of the buffer.
            squares: sums of squares of x and r over each layer (L, 2) float64.
            beta1: decay of the momentum.
            beta2: decay of the variance.
            eps: as in Adam.
            params_copy: as in :meth:`gpu_impl.Backend.adam`; not written.
        """
        dim = self._check_lamb(params, momentum, variance, step, layers, params_copy)
        check_gradient(grad, dim, FLOATS, params.device)
        check_tensor("squares", squares, (len(layers.sizes), 2), F64, params.device)
        check_beta("beta1", beta1)
        check_beta("beta2", beta2)
        return params, momentum, variance, grad, step, layers, squares, beta1, beta2, eps, params_copy

    @staticmethod
    def _lamb_moments(
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        grad: Tensor,
        step: StepScalars,
        layers: Layers,
        squares: Tensor,
        beta1: float,
        beta2: float,
        eps: float,
        params_copy: Tensor | None,
    ) -> None:
        go, g = ~torch.isnan(step.values[GRADIENT_FACTOR]), grad.float() * step.values[GRADIENT_FACTOR]
        m = beta1 * momentum + (1 - beta1) * g
        v = beta2 * variance + (1 - beta2) * (g * g)
        momentum.copy_(torch.where(go, m, momentum))
        variance.copy_(torch.where(go, v, variance))
        x = master_of(params, params_copy)
        for column, values in enumerate((x, _lamb_update(x, momentum, variance, step, eps))):
            wide = values.double()
            squares[:, column] = layers.reduce(wide * wide, "sum")

    @kernel
    def lamb_move(
        self,
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        step: StepScalars,
        layers: Layers,
        trust: Tensor,
        *,
        eps: float,
        params_copy: Tensor | None = None,
    ) -> Arguments:
        """The second pass: x <- x - gamma (c r), with the trust ratio c of each layer, ``trust`` (L,) float32."""
        self._check_lamb(params, momentum, variance, step, layers, params_copy)
        check_tensor("trust", trust, (len(layers.sizes),), F32, params.device)
        return params, momentum, variance, step, layers, trust, eps, params_copy

    @staticmethod
    def _lamb_move(
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        step: StepScalars,
        layers: Layers,
        trust: Tensor,
        eps: float,
        params_copy: Tensor | None,
    ) -> None:
        go, x = ~torch.isnan(step.values[GRADIENT_FACTOR]), master_of(params, params_copy)
        update = _lamb_update(x, momentum, variance, step, eps)
        moved = x - step.values[LR] * (update * layers.spread(trust))
        params.copy_(torch.where(go, moved, x))
        if params_copy is not None:
            params_copy.copy_(params)

    @staticmethod
    def _check_lamb(
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        step: StepScalars,
        layers: Layers,
        params_copy: Tensor | None,
    ) -> int:
        dim = length_of("params", params)
        check_tensor("params", params, (dim,), F32)
        check_params(params, params_copy, step, dim)
        check_tensor("momentum", momentum, (dim,), F32, params.device)
        check_tensor("variance", variance, (dim,), F32, params.device)
        if layers.dim != dim:
            raise ValueError(f"layers must have {dim} elements together, got {layers.dim}")
        return dim


def _lamb_update(x: Tensor, momentum: Tensor, variance: Tensor, step: StepScalars, eps: float) -> Tensor:
    """r = P (m / b1) + lambda x (D,)."""
    preconditioner = 1 / (root(variance / step.values[VARIANCE_CORRECTION]) + eps)
    return preconditioner * (momentum / step.values[MOMENTUM_CORRECTION]) + step.values[WEIGHT_DECAY] * x
