"""A bucket that forms what is averaged in floats, by an algorithm's own operations; the exchange is 1-bit Adam's.

The kernel ``compress`` forms u = (1-beta1) g + beta1 m-bar + delta. With beta1 = 0 that is u = g + delta, where g may
be any buffer: so whatever is averaged by one bit a number goes through the same kernels, messages and servers.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.layers import Layers
from gpu_impl.kernels.marks import is_marked, live_counts
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import F32
from gpu_impl.kernels.torch_ import error_of
from gpu_impl.optimizer.bucket import Bucket, Group
from gpu_impl.optimizer.parcel import Parcel


class BufferBucket(Bucket):
    """See the module's docstring. ``variance`` holds v, never P; dead is where v is 0 [C6].

    Attributes:
        layers: the parameters.
        buffer: what is to be averaged; once the replies are there, the average (D,).
    """

    skips_itself: ClassVar[bool] = False

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.buffer = flat_buffer(0)
        self.layers = Layers.of(self.flat.sizes, self.momentum.device)

    # --- the exchange ---

    def begin_exchange(self) -> None:
        """From now on this bucket exchanges: errors are 0, and nothing is live yet."""
        if not self.exchanges:
            self.buffer = flat_buffer(self.flat.dim, F32, self.momentum.device)
        self.buffer.zero_()
        self.momentum.fill_(-0.0)
        self.server.w.fill_(-0.0)
        self._in_floats()

    @property
    def exchanges(self) -> bool:
        """Whether :meth:`begin_exchange` has been called."""
        return self.buffer.shape[0] > 0

    def mark(self, live: Tensor) -> None:
        """Let just these coordinates (D,) be sent. A dead one has no error, so one that comes to life begins with 0."""
        error, server_error = self.worker_error_D(), self.server_error_C()
        part = self.layout.part(self.rank)
        self.momentum.copy_(torch.where(live, error + 0.0, -0.0))  # a live value is never -0.0
        self.server.w.copy_(torch.where(live[part], server_error + 0.0, -0.0))
        self._in_floats()
        self.exchange.live.copy_(live_counts(self.momentum, self.layout))

    def _in_floats(self) -> None:
        """u and w are the errors themselves."""
        self.worker.u_scale.zero_()
        self.server.w_scale.zero_()

    def set_errors(self, found: dict[str, Tensor], live: Tensor) -> None:
        """Continue from the errors of a state."""
        self.begin_exchange()
        self.momentum.copy_(found["worker_error"])
        self.server.w.copy_(found["server_error"][self.layout.part(self.rank)])
        self.mark(live)

    def compress_call(self, group: Group, grad: Gradient, scale: str, keep_old: bool) -> dict[str, Any]:
        call = super().compress_call(group, grad, scale, keep_old)
        return {**call, "grad": self.buffer, "beta1": 0.0, "first": False, "preconditioner": None}

    def decode_call(self, values: Gradient, n_live: int) -> dict[str, Any]:
        return {"exchange": self.exchange, "preconditioner": None, "values": self.buffer}

    # --- parameters ---

    def x(self) -> Tensor:
        """The parameters in float32 (D,), as the model holds them."""
        return self.flat.master_D() if self.flat.is_narrow else self.flat.master

    def spread(self, values: Tensor) -> Tensor:
        """(D,) float32: for each element the number of its parameter, of (n,)."""
        return self.layers.spread(values.to(F32))

    # --- what it knows ---

    def worker_error_D(self) -> Tensor:
        if self.exchanges:
            return error_of(self.momentum, self.worker.u_scale, self.layout)
        return torch.zeros_like(self.momentum)

    def server_error_C(self) -> Tensor:
        if self.exchanges:
            return error_of(self.server.w, self.server.w_scale, self.layout)
        return torch.zeros_like(self.server.w)

    def is_dead(self, variance: Tensor) -> Tensor:
        return variance == 0

    def to_floats(self) -> None:
        self.mark(~is_marked(self.momentum))

    def parts_of(self, k: int) -> dict[str, tuple[Tensor, float]]:
        slot = self.flat.slots[k]
        return {
            "worker_error": (self.momentum[slot], -0.0),
            "server_error": (self.server.w[self._in_part(slot)], -0.0),
            "exp_avg_sq": (self.variance[slot], 0.0),
        }

    def finished(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.flat.is_narrow:
            found.setdefault("master", self.x())
        return found


def gradient_of(parcel: Parcel, k: int, factor: float) -> Tensor:
    """This worker's gradient of bucket k (D,) float32, times ``factor``."""
    return parcel.gradients.flat_of(k).float() * factor


def average_of(parcel: Parcel, k: int, factor: float) -> Tensor:
    """The workers' average for bucket k (D,) float32, times ``factor``, once it is there."""
    mean = parcel.means()[k]
    return mean.float() * factor if isinstance(mean, Tensor) else gradient_of(parcel, k, factor)
