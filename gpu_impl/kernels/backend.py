"""What a backend does: operations on flat buffers. This class checks the arguments, a subclass computes.

These nine are those of 1-bit Adam; ``zero_one.py`` and ``lamb.py`` have what other algorithms need on top.

The lazy form of 1-bit Adam. In place of the errors it stores what was compressed:

    worker   delta = u - s sign(u)      u <- (1-beta1) g + beta1 m-bar + delta      sends sign(u) and s = scale(u)
    server   delta-bar = w - S sign(w)  w <- (1/N) sum_i s_i q_i + delta-bar        sends sign(w) and S = scale(w)
    apply    x <- x - gamma (P m-bar + lambda x)      m-bar = S_j Q_j, read from the message that was gathered

In the update form [C12] P stands before the compressor: P g takes the place of g, m-bar is y-bar = P m-bar from the
freeze on, and ``apply`` moves x by it alone.

The next step forms delta from u and s in registers, so that compression is one pass: nobody waits for the norm before
writing the error. At the freeze Adam's momentum buffer becomes u and its variance buffer becomes P, in place.

**Dead coordinates** [C6] cost no byte: the bit pattern of -0.0 in u, w and P marks them. A live value is never -0.0:
the freeze adds +0.0, and from then on an error is never -0.0 (x - y is -0.0 only if x is), so neither is a sum with
one. A marked u or w is a zero: it adds nothing to a norm, its error is 0, and it stays marked. A marked P leaves the
parameter alone, weight decay included; a P of +0.0 leaves it to weight decay.

**Block scales** [C13]. With ``Layout.scale_block`` a block is done when its sum is: its scale is written where it is
read next, and nobody waits for the others.

**Arithmetic.** Every elementwise operation is one float32 rounding in the order written above, never a fused
multiply-add, and division and square root are correctly rounded: backends agree bitwise with NumPy. Norms are summed in
float64, in blocks of fixed size, without atomics, so they repeat bitwise; backends differ there by the order only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import FLOATS, FROZEN_DTYPES, check_beta, check_scale, check_tensor
from gpu_impl.kernels.computations import Computations
from gpu_impl.kernels.kernel import CHECKS, Arguments, check_params, kernel
from gpu_impl.kernels.lamb import LambKernels
from gpu_impl.kernels.layout import Layout
from gpu_impl.kernels.marks import is_marked, live_counts
from gpu_impl.kernels.pieces import Gradient, check_gradient, length_and_device
from gpu_impl.kernels.state import F32, F64, I64, U8, Exchange, ServerState, WorkerState, length_of
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.zero_one import ZeroOneKernels

PUBLISHED = {"compress": "momentum", "scale_block": None, "frozen_dtype": "float32"}
"""What the published algorithm has where an extension has something else [C12, C13, C14]."""


class Backend(ZeroOneKernels, LambKernels, Computations):
    """The kernels of one implementation. Methods write their results into the given tensors and never wait for a GPU.

    ``step`` is what :func:`gpu_impl.step_scalars` makes. Gradients are float32, bfloat16 or float16, parameters
    likewise; all state is float32, but P may be bfloat16 [C14]. All tensors of a call are contiguous and on one device.
    A method raises TypeError or ValueError for an argument that it cannot honour, before anything is written.
    """

    name: str
    extensions: tuple[str, ...] = tuple(PUBLISHED)
    """Which of them it has."""
    reads_pieces = False
    """Whether gradients may be :class:`Pieces`; else they are flat tensors."""

    def prepare(self, kernel: str, calls: Sequence[Mapping[str, Any]]) -> Callable[[], None]:
        """A function that makes some calls of one kernel, one after another, as often as one likes.

        They are checked and converted now. What the tensors hold may change later, and so may the addresses of pieces.

        Args:
            kernel: gradient_norm, adam, compress, server, apply, decode, or one of the family's.
            calls: for each call the arguments of that method, by name.
        """
        checked = [CHECKS[kernel](self, **call) for call in calls]
        return self._prepare(kernel, [arguments for arguments in checked if arguments is not None])

    def _prepare(self, kernel: str, calls: Sequence[tuple[Any, ...]]) -> Callable[[], None]:
        function = getattr(self, f"_{kernel}")

        def run() -> None:
            for arguments in calls:
                function(*arguments)

        return run

    def pack(self, values: Tensor, bits: Tensor) -> None:
        """Bit k of ``bits[b]`` <- ``values[8b + k] >= 0`` [C2, C4]: values (D,) float, bits (ceil(D/8),) uint8."""
        dim = length_of("values", values)
        check_tensor("values", values, (dim,), FLOATS)
        check_tensor("bits", bits, (-(-dim // 8),), U8, values.device)
        self._pack(values, bits)

    def unpack(self, bits: Tensor, scale: Tensor, values: Tensor) -> None:
        """``values`` (D,) <- +scale where the bit is 1 and -scale where it is 0; ``scale`` (1,) float32."""
        dim = length_of("values", values)
        check_tensor("values", values, (dim,), F32)
        check_tensor("bits", bits, (-(-dim // 8),), U8, values.device)
        check_tensor("scale", scale, (1,), F32, values.device)
        self._unpack(bits, scale, values)

    @kernel
    def gradient_norm(self, grad: Gradient, norm: Tensor) -> Arguments:
        """``norm`` (1,) float64 <- sum of squares of the gradient (D,): NaN or Inf if an element is [C8, C9].

        The only kernel that is not always needed: it reads the gradient once more, to know before u is overwritten
        whether to skip the step, or how much to clip.
        """
        dim, device = length_and_device(grad)
        check_gradient(grad, dim, FLOATS, device)
        check_tensor("norm", norm, (1,), F64, device)
        return grad, norm

    @kernel
    def adam(
        self,
        params: Tensor,
        momentum: Tensor,
        variance: Tensor,
        grad: Gradient,
        step: StepScalars,
        *,
        beta1: float,
        beta2: float,
        eps: float,
        params_copy: Tensor | None = None,
    ) -> Arguments:
        """A warm-up step: Adam on the averaged gradient ``grad`` (D,).

            m <- beta1 m + (1-beta1) g        v <- beta2 v + (1-beta2) g^2
            x <- x - gamma (m/b1 / (sqrt(v/b2) + eps) + lambda x)

        ``params_copy`` (D,) bfloat16 or float16, if given, receives the rounded parameters: the model's weights, when
        ``params`` is their float32 master copy. Where it is not what ``params`` round to, somebody has changed the
        weights, by whatever way: x then is what they are now.
        """
        dim, device = length_of("params", params), params.device
        check_params(params, params_copy, step, dim)
        check_tensor("momentum", momentum, (dim,), F32, device)
        check_tensor("variance", variance, (dim,), F32, device)
        check_gradient(grad, dim, FLOATS, device)
        check_beta("beta1", beta1)
        check_beta("beta2", beta2)
        return params, momentum, variance, grad, step, beta1, beta2, eps, params_copy

    def freeze(
        self,
        momentum: Tensor,
        variance: Tensor,
        live: Tensor,
        *,
        layout: Layout,
        eps: float,
        variance_floor: float,
        variance_correction: float = 1.0,
        update: bool = False,
        rounded: Tensor | None = None,
    ) -> None:
        """After step T_w: ``variance`` becomes P, ``momentum`` becomes the u of the first compressed step, in place.

            v <- max(v, floor * mean of live v)      P = 1 / (sqrt(v / b2) + eps)      dead: u = P = -0.0

        ``update``: u <- P m in place of m [C12]. ``rounded`` (D,) bfloat16, if given, receives P rounded to nearest,
        marks and all: that is P then [C14], and ``variance`` is not needed any more.
        Dead is where v = 0. Where v has overflowed, as after a gradient of 1e21, P is +0: as in Adam no gradient moves
        that coordinate any more, only weight decay. It is marked in u, and left out of mean, scales and messages, where
        it would stop or drown all others.
        ``live`` (n_chunks * K,) int64 <- live coordinates of each chunk, or of each block of it [C13]. All workers hold
        the same m and v, so all find the same. Runs once, so it is not on the byte table.
        """
        check_tensor("momentum", momentum, (layout.dim,), F32)
        check_tensor("variance", variance, (layout.dim,), F32, momentum.device)
        check_tensor("live", live, (layout.n_chunks * layout.n_blocks,), I64, momentum.device)
        self.check_extensions(compress="update" if update else "momentum", scale_block=layout.scale_block)
        if rounded is not None:
            self.check_extensions(frozen_dtype="bfloat16")
            check_tensor("rounded", rounded, (layout.dim,), torch.bfloat16, momentum.device)
        self._freeze(momentum, variance, eps, variance_floor, variance_correction, update and rounded is None)
        if rounded is not None:
            rounded.copy_(variance)
            if update:
                momentum.copy_(torch.where(is_marked(momentum), -0.0, rounded.float() * momentum + 0.0))
        live.copy_(live_counts(momentum, layout))

    def check_extensions(self, **values: Any) -> None:
        """Raise ValueError if these kernels can't do one of ``values``, such as ``compress="update"``."""
        for name, value in values.items():
            if value != PUBLISHED[name] and name not in self.extensions:
                raise ValueError(f"the {self.name} backend has no {name}={value!r}: use another backend")

    def server_start(self, preconditioner_part: Tensor) -> Tensor:
        """The w (d,) of a server before its first step: error 0, marked where P is 0 or dead."""
        return torch.where(preconditioner_part == 0, -0.0, 0.0).to(F32)

    @kernel
    def compress(
        self,
        grad: Gradient,
        worker: WorkerState,
        exchange: Exchange,
        step: StepScalars,
        *,
        beta1: float,
        scale: str = "l2",
        first: bool = False,
        keep_old: bool = False,
        preconditioner: Tensor | None = None,
    ) -> Arguments:
        """One worker's compression, one pass: u <- (1-beta1) g + beta1 m-bar + (u - s sign(u)).

        Writes u and u_scale of ``worker``, counts in ``ignored`` the non-zero gradients at dead coordinates
        [C6], and writes the signs of the new u and s into every row of ``exchange.message``.

        Args:
            grad: g_i (D,).
            worker: its memory.
            exchange: m-bar is read from ``shared``, the message that all workers gathered in the previous step.
            step: scalars of the step.
            beta1: decay of the momentum.
            scale: "l2" or "l1" [C1].
            first: first step after the freeze: u holds Adam's momentum, the error is 0, ``shared`` and ``u_scale`` are
                not read.
            keep_old: ``grad``, which must be float32, receives the old u: to undo the step if it must be skipped.
            preconditioner: P (D,) in the update form, whose u is (1-beta1) P g + beta1 y-bar + delta [C12]; else None.
        """
        check_gradient(grad, exchange.layout.dim, F32 if keep_old else FLOATS, worker.u.device)
        self._check_fit(worker.u, exchange.layout.dim, "u", exchange, step)
        check_scale(scale)
        check_beta("beta1", beta1)
        self._check_scales("u_scale", worker.u_scale, exchange.layout.n_scales)
        if preconditioner is not None:
            self.check_extensions(compress="update")
            self._check_preconditioner(preconditioner, exchange.layout.dim, worker.u.device)
        return grad, worker, exchange, step, beta1, scale == "l1", first, keep_old, preconditioner

    @kernel
    def server(self, server: ServerState, exchange: Exchange, step: StepScalars, *, scale: str = "l2") -> Arguments:
        """The server of one chunk: w <- (1/N) sum_i s_i q_i + (w - S sign(w)), summed in the order of the workers.

        Reads ``exchange.received``, whose row i is this chunk of worker i. Writes w and w_scale of ``server``,
        and the signs of the new w and S_j into ``exchange.reply``.

        Args:
            server: its memory.
            exchange: messages.
            step: scalars of the step.
            scale: "l2" or "l1" [C1].
        """
        self._check_fit(server.w, exchange.layout.part_dim(server.chunk), "w", exchange, step)
        check_scale(scale)
        self._check_scales("w_scale", server.w_scale, exchange.layout.n_blocks)
        if not server.w.shape[0]:  # an empty chunk has nothing to say; its row is zeros from the start
            return None
        return server, exchange, step, scale == "l1"

    @kernel
    def apply(
        self,
        params: Tensor,
        preconditioner: Tensor | None,
        exchange: Exchange,
        step: StepScalars,
        *,
        params_copy: Tensor | None = None,
        live_bits: Tensor | None = None,
    ) -> Arguments:
        """Everyone: x <- x - gamma (P (m-bar/b1) + lambda x) with m-bar = S_j Q_j from ``exchange.shared``.

        Args:
            params: x (D,).
            preconditioner: P (D,). None is the update form, which reads none [C12]:
                x <- x - gamma (y-bar/b1 + lambda x). Where v has overflowed, it needs :func:`moves_of` here.
            exchange: messages.
            step: scalars of the step.
            params_copy: as in :meth:`adam`.
            live_bits: in the update form, a bit for every live coordinate (ceil(D/8),) uint8; None: all are live.
        """
        dim = exchange.layout.dim
        check_params(params, params_copy, step, dim)
        if preconditioner is not None:
            self._check_preconditioner(preconditioner, dim, params.device)
            if live_bits is not None:
                raise ValueError("live_bits are for the update form: with a preconditioner its marks say what is dead")
        else:
            self.check_extensions(compress="update")
            if live_bits is not None:
                check_tensor("live_bits", live_bits, (-(-dim // 8),), U8, params.device)
        self._check_fit(params, dim, "params", exchange, step)
        return params, preconditioner, exchange, step, params_copy, live_bits

    @kernel
    def decode(self, exchange: Exchange, preconditioner: Tensor | None, values: Gradient) -> Arguments:
        """m-bar in floats, ``values`` (D,) <- S_j Q_j, and 0 where ``preconditioner``, if given, is 0 or marked."""
        if preconditioner is not None:
            self._check_preconditioner(preconditioner, exchange.layout.dim, exchange.live.device)
        check_gradient(values, exchange.layout.dim, FLOATS, exchange.live.device)
        return exchange, preconditioner, values

    def _check_fit(self, tensor: Tensor, dim: int, name: str, exchange: Exchange, step: StepScalars) -> None:
        self.check_extensions(scale_block=exchange.layout.scale_block)
        if tensor.shape[0] != dim:
            raise ValueError(f"{name} must have shape {(dim,)}, got {tuple(tensor.shape)}")
        if not tensor.device == exchange.live.device == step.device:
            raise ValueError(
                f"{name}, the messages and the scalars must be on one device, got {tensor.device}, "
                f"{exchange.live.device} and {step.device}"
            )

    def _check_preconditioner(self, preconditioner: Tensor, dim: int, device: torch.device) -> None:
        check_tensor("preconditioner", preconditioner, (dim,), tuple(FROZEN_DTYPES.values()), device)
        if preconditioner.dtype != F32:
            self.check_extensions(frozen_dtype="bfloat16")

    @staticmethod
    def _check_scales(name: str, scales: Tensor, n: int) -> None:
        if scales.shape[0] != n:
            raise ValueError(f"{name} must have shape {(n,)}, as the layout has scales, got {tuple(scales.shape)}")
