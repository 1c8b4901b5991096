"""What LAMB and 1-bit LAMB need beside the kernels of 1-bit Adam: passes over the layers of a buffer, fused.

The forms here are the readable ones, as in ``zero_one.py``; a backend that has faster ones equals them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import FLOATS, check_beta, check_tensor
from gpu_impl.kernels.arithmetic import master_of, root
from gpu_impl.kernels.kernel import Arguments, check_params, kernel
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.marks import is_marked, live_in
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


class LambKernels:
    """See the module's docstring; arguments as in :class:`gpu_impl.Backend`."""

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
        frozen_correction: float | None = None,
    ) -> Arguments:
        """The second pass: x <- x - gamma (c r), with the trust ratio c of each layer, ``trust`` (L,) float32.

        ``frozen_correction``: v is frozen, and this is its b2 in place of that of ``step``; where v is 0 x stays [C6].
        """
        self._check_lamb(params, momentum, variance, step, layers, params_copy)
        check_tensor("trust", trust, (len(layers.sizes),), F32, params.device)
        return params, momentum, variance, step, layers, trust, eps, params_copy, frozen_correction

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
        frozen_correction: float | None,
    ) -> None:
        go, x = ~torch.isnan(step.values[GRADIENT_FACTOR]), master_of(params, params_copy)
        update = _lamb_update(x, momentum, variance, step, eps, frozen_correction)
        moved = x - step.values[LR] * (update * layers.spread(trust))
        if frozen_correction is not None:
            moved = torch.where(variance == 0, x, moved)
        params.copy_(torch.where(go, moved, x))
        if params_copy is not None:
            params_copy.copy_(params)

    @kernel
    def lamb_form(
        self,
        u: Tensor,
        momentum: Tensor,
        buffer: Tensor,
        grad: Gradient,
        layers: Layers,
        scale: Tensor,
        ignored: Tensor,
        *,
        factor: float,
        beta1: float,
    ) -> Arguments:
        """Before the exchange of 1-bit LAMB: buffer <- s (beta1 m-bar + (1-beta1) factor g), 0 where u is marked.

        Args:
            u: the worker's error (D,) float32, whose marks say where nothing is sent; not written.
            momentum: m-bar (D,) float32; not written.
            buffer: what this worker wants averaged (D,) float32.
            grad: g_i (D,); where nothing is sent, those that are not 0 are counted in ``ignored``.
            layers: of the buffer.
            scale: s of each layer (L,) float32.
            ignored: (1,) int64.
            factor: of the gradient.
            beta1: decay of the momentum.
        """
        dim = self._check_rows(layers, scale, u=u, momentum=momentum, buffer=buffer)
        check_gradient(grad, dim, FLOATS, u.device)
        check_tensor("ignored", ignored, (1,), I64, u.device)
        check_beta("beta1", beta1)
        return u, momentum, buffer, grad, layers, scale, ignored, factor, beta1

    @staticmethod
    def _lamb_form(
        u: Tensor,
        momentum: Tensor,
        buffer: Tensor,
        grad: Tensor,
        layers: Layers,
        scale: Tensor,
        ignored: Tensor,
        factor: float,
        beta1: float,
    ) -> None:
        g, dead = grad.float() * factor, is_marked(u)
        ignored.add_((dead & (g != 0)).sum())
        buffer.copy_(torch.where(dead, 0.0, layers.spread(scale) * (beta1 * momentum + (1 - beta1) * g)))

    @kernel
    def lamb_refresh(
        self,
        u: Tensor,
        momentum: Tensor,
        fresh: Tensor,
        buffer: Tensor,
        variance: Tensor,
        layers: Layers,
        scale: Tensor,
        largest: Tensor,
        *,
        beta1: float,
        beta2: float,
        eps: float,
    ) -> Arguments:
        """After the exchange of 1-bit LAMB: m-bar and v' from the average, and how far v' is from v.

            m-bar <- buffer / s      g' = (m-bar - beta1 m-bar before) / (1-beta1)      v' <- beta2 v' + (1-beta2) g'^2

        Args:
            u: as in :meth:`lamb_form`.
            momentum: m-bar (D,) float32.
            fresh: v' (D,) float32.
            buffer: the average (D,) float32; not written.
            variance: v (D,) float32; not written.
            layers: of the buffer.
            scale: s of each layer (L,) float32.
            largest: the largest (sqrt(v) + eps) / (sqrt(v') + eps) of each layer (L,) float64, in float64; v' as it is
                now, and where v is 0 or has overflowed it counts as 0.
            beta1: decay of the momentum.
            beta2: decay of the variance.
            eps: as in Adam.
        """
        self._check_rows(layers, scale, u=u, momentum=momentum, fresh=fresh, buffer=buffer, variance=variance)
        check_tensor("largest", largest, (len(layers.sizes),), F64, u.device)
        check_beta("beta1", beta1)
        check_beta("beta2", beta2)
        return u, momentum, fresh, buffer, variance, layers, scale, largest, beta1, beta2, eps

    @staticmethod
    def _lamb_refresh(
        u: Tensor,
        momentum: Tensor,
        fresh: Tensor,
        buffer: Tensor,
        variance: Tensor,
        layers: Layers,
        scale: Tensor,
        largest: Tensor,
        beta1: float,
        beta2: float,
        eps: float,
    ) -> None:
        mean = torch.where(is_marked(u), 0.0, buffer) / layers.spread(scale)
        rebuilt = (mean - beta1 * momentum) / torch.full_like(mean[:1], 1 - beta1)
        momentum.copy_(mean)
        fresh.copy_(beta2 * fresh + (1 - beta2) * (rebuilt * rebuilt))
        frozen_root, fresh_root = (one.double().sqrt() + eps for one in (variance, fresh))
        largest.copy_(layers.reduce(torch.where(live_in(variance), frozen_root / fresh_root, 0.0), "max"))

    @staticmethod
    def _check_rows(layers: Layers, scale: Tensor, **rows: Tensor) -> int:
        first = next(iter(rows.values()))
        dim = length_of("u", first)
        for name, tensor in rows.items():
            check_tensor(name, tensor, (dim,), F32, first.device)
        check_tensor("scale", scale, (len(layers.sizes),), F32, first.device)
        _check_layers(layers, dim)
        return dim

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
        _check_layers(layers, dim)
        return dim


def _check_layers(layers: Layers, dim: int) -> None:
    if layers.dim != dim:
        raise ValueError(f"layers must have {dim} elements together, got {layers.dim}")


def _lamb_update(
    x: Tensor, momentum: Tensor, variance: Tensor, step: StepScalars, eps: float, correction: float | None = None
) -> Tensor:
    """r = P (m / b1) + lambda x (D,); ``correction``: b2, if it is not that of the step."""
    of_v = step.values[VARIANCE_CORRECTION] if correction is None else torch.full_like(variance[:1], correction)
    preconditioner = 1 / (root(variance / of_v) + eps)
    return preconditioner * (momentum / step.values[MOMENTUM_CORRECTION]) + step.values[WEIGHT_DECAY] * x
