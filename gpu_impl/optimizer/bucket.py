"""One flat buffer of parameters, its state, and the kernels in the order in which a step calls them.

A bucket is one instance of the algorithm of docs/algorithm.md: it has its own scale, its own server chunks and its own
mean of v for the variance floor. A model in one bucket is the algorithm to the letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.layout import Layout
from gpu_impl.kernels.marks import has_overflown, is_marked, live_bits_of, live_counts, moves_of
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import F32, F64, Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import GRADIENT_FACTOR, StepScalars
from gpu_impl.kernels.torch_ import decode, error_of
from gpu_impl.optimizer.flat_params import FlatParams
from gpu_impl.optimizer.names import ONE_BIT_ADAM, Names
from gpu_impl.optimizer.variance_of import variance_of

Group = dict[str, Any]
"""A parameter group: lr, betas, eps, weight_decay."""


PIECE = 2**16
"""Elements of v that are widened at once for a norm: they stay in the cache."""


Paused = dict[str, Tensor]
"""What a parameter without gradient keeps while it is left out, by its names in :meth:`Bucket.dense`."""


@dataclass(frozen=True)
class Small:
    """What is so small that buckets have it side by side: see :class:`WorkerState` and :class:`StepScalars`."""

    u_scale: Tensor
    ignored: Tensor
    scalars: StepScalars


class Bucket:
    """State of one flat buffer, and the calls of the kernels in a step.

    Args:
        flat: the parameters.
        rank: of this worker, whose server has chunk ``rank``.
        exchange: messages.
        backend: kernels.
        small: zeros.
        freezes: whether this bucket is compressed after the freeze; else it stays with Adam.
        began: applied steps of the run when the bucket was made.
        frozen_dtype: of P after the freeze [C14].
        in_updates: the update form [C12]: from the freeze on m-bar is y-bar = P m-bar, and errors are in its units.

    Attributes:
        momentum: Adam's m during the warm-up; after the freeze u, what this worker compressed last (D,).
        variance: v; after the freeze P, with dead coordinates marked (D,), of ``frozen_dtype``.
        worker: u with its scale; after the freeze.
        server: what this worker's server compressed last; after the freeze.
        live_bits: in the update form, what of x moves after the freeze; None: all of it.
        moves: in the update form, what ``apply`` reads in place of P if v has overflowed somewhere; else None.
        is_frozen: variance holds P.
        is_first: u still is Adam's momentum: nothing has been compressed yet.
        frozen_with: eps and 1 - beta2^T_w, by which P was made.
        carried: m-bar (D,) in floats after a load, a pause or a change of the number of workers, until the next applied
            step; then u and w hold the errors themselves, and their scales are 0 [C11].
        paused: parameters without gradient, by their number in the bucket.
    """

    names: ClassVar[Names] = ONE_BIT_ADAM
    skips_itself: ClassVar[bool] = True
    """Whether its kernels leave a step out by themselves, where the scalars say so, so that the host need not know."""

    def __init__(
        self,
        flat: FlatParams,
        rank: int,
        exchange: Exchange,
        backend: Backend,
        small: Small,
        *,
        freezes: bool = True,
        began: int = 0,
        in_updates: bool = False,
        frozen_dtype: torch.dtype = F32,
    ) -> None:
        self.flat, self.rank, self.exchange, self.backend = flat, rank, exchange, backend
        self.layout: Layout = exchange.layout
        self.freezes, self.began, self.in_updates, self.frozen_dtype = freezes, began, in_updates, frozen_dtype
        self.live_bits: Tensor | None = None
        self.moves: Tensor | None = None
        device = flat.weights.device
        self.momentum = flat_buffer(flat.dim, F32, device)
        self.variance = flat_buffer(flat.dim, F32, device)
        self.worker = WorkerState(self.momentum, small.u_scale, small.ignored)
        w = flat_buffer(self.layout.part_dim(rank), F32, device)
        self.server = ServerState(w, torch.zeros(self.layout.n_blocks, dtype=torch.float32, device=device), rank)
        self.scalars = small.scalars
        self.is_frozen = self.is_first = False
        self.frozen_with = (0.0, 1.0)
        self.carried: Tensor | None = None
        self.paused: dict[int, Paused] = {}

    # --- the parts of a step ---

    def saved(self, absent: set[int]) -> list[tuple[Tensor, Tensor]]:
        """What parameters without gradient keep in a step of Adam: where it is, and a copy."""
        return [
            (flat[self.flat.slots[k]], flat[self.flat.slots[k]].clone())
            for k in sorted(absent)
            for flat in (self.momentum, self.variance, self.flat.master, self.flat.weights)
        ]

    def adam_call(self, group: Group, mean: Gradient) -> dict[str, Any]:
        """Arguments of a step of Adam along ``mean`` (D,)."""
        return {
            "params": self.flat.master,
            "momentum": self.momentum,
            "variance": self.variance,
            "grad": mean,
            "step": self.scalars,
            "beta1": group["betas"][0],
            "beta2": group["betas"][1],
            "eps": group["eps"],
            "params_copy": self.flat.params_copy,
        }

    def freeze(self, group: Group, variance_floor: float, variance_correction: float, *, loaded: bool = False) -> None:
        """v becomes P, m (or P m [C12]) becomes u; dead coordinates are marked [C6, C7]. What is ``loaded`` is u."""
        self.frozen_with = (group["eps"], variance_correction)
        rounded = None
        if self.frozen_dtype != F32:
            rounded = flat_buffer(self.flat.dim, self.frozen_dtype, self.variance.device)
        self.backend.freeze(
            self.momentum,
            self.variance,
            self.exchange.live,
            layout=self.layout,
            eps=group["eps"],
            variance_floor=variance_floor,
            variance_correction=variance_correction,
            update=self.in_updates and not loaded,
            rounded=rounded,
        )
        self.variance = self.variance if rounded is None else rounded
        self._find_live()
        self.server.w.copy_(self.backend.server_start(self.variance[self.layout.part(self.rank)]))
        self.is_frozen = self.is_first = True

    def _find_live(self) -> None:
        """Note what moves, where ``apply`` reads no P."""
        if self.in_updates:
            self.moves = moves_of(self.variance) if has_overflown(self.variance) else None
            self.live_bits = live_bits_of(self.variance) if self.moves is None else None

    def compress_call(self, group: Group, grad: Gradient, scale: str, keep_old: bool) -> dict[str, Any]:
        """Arguments of this worker's compression."""
        return {
            "grad": grad,
            "worker": self.worker,
            "exchange": self.exchange,
            "step": self.scalars,
            "beta1": group["betas"][0],
            "scale": scale,
            "first": self.is_first,
            "keep_old": keep_old,
            "preconditioner": self.variance if self.in_updates else None,
        }

    def server_call(self, scale: str) -> dict[str, Any]:
        """Arguments of this worker's server."""
        return {"server": self.server, "exchange": self.exchange, "step": self.scalars, "scale": scale}

    def apply_call(self) -> dict[str, Any]:
        """Arguments of the parameters' move."""
        return {
            "params": self.flat.master,
            "preconditioner": self.moves if self.in_updates else self.variance,
            "exchange": self.exchange,
            "step": self.scalars,
            "params_copy": self.flat.params_copy,
            "live_bits": self.live_bits,
        }

    def decode_call(self, values: Gradient, n_live: int) -> dict[str, Any]:
        """Arguments for m-bar in floats; P need not be read where every coordinate is live."""
        marks = self.variance if n_live < self.flat.dim else None
        return {"exchange": self.exchange, "preconditioner": marks, "values": values}

    # --- m-bar in floats, for what one magnitude a chunk can't say ---

    def take_carried(self, group: Group, grad: Tensor) -> None:
        """Form u = (1-beta1) g + beta1 m-bar + delta here, in the order of the reference, and let g (D,) be 0.

        The kernel reads m-bar as one magnitude a chunk, which it is not. With g, m-bar and the scales all 0 it
        compresses the u that it finds. Not for a step that will be skipped.
        """
        if self.carried is None:
            return
        beta1, dead = group["betas"][0], is_marked(self.momentum)
        g = grad.float() * self.scalars.values[GRADIENT_FACTOR]
        u = (1 - beta1) * (g * self.variance.float() if self.in_updates else g) + beta1 * self.carried
        self.momentum.copy_(torch.where(dead, -0.0, u + self.momentum))
        grad.masked_fill_(~dead, 0)  # what arrives at dead coordinates is still counted
        self.carried = None

    def carry(self, momentum: Tensor, worker_error: Tensor, server_error: Tensor) -> None:
        """Continue from m-bar (D,) and the errors in floats; ``server_error`` (D,) at least of our own chunk."""
        dead, part = self.variance == 0, self.layout.part(self.rank)
        self.carried = torch.where(dead, 0.0, momentum)
        self.momentum.copy_(torch.where(dead, -0.0, worker_error + 0.0))  # a live value is never -0.0
        self.server.w.copy_(torch.where(dead[part], -0.0, server_error[part] + 0.0))
        self.worker.u_scale.zero_()
        self.server.w_scale.zero_()
        self.exchange.shared.zero_()
        self.is_first = False

    def to_floats(self) -> None:
        """Have m-bar and the errors in floats."""
        if self.carried is None:
            self.carry(self.momentum_D(), self.worker_error_D(), self._whole(self.server_error_C()))

    def _whole(self, part: Tensor) -> Tensor:
        """Our chunk (d,) as (D,), zero elsewhere."""
        whole = torch.zeros_like(self.momentum)
        whole[self.layout.part(self.rank)] = part
        return whole

    def pause(self, absent: set[int]) -> None:
        """Leave these parameters, and no others, out of the compression: no worker has a gradient for them."""
        if absent == set(self.paused):
            return
        self.to_floats()
        for k in set(self.paused) ^ absent:
            parts = self.parts_of(k)
            if k in absent:
                self.paused[k] = {name: view.clone() for name, (view, _) in parts.items()}
                for view, mark in parts.values():
                    view.fill_(mark)
            else:
                kept = self.paused.pop(k)
                for name, values in kept.items():
                    parts[name][0].copy_(values)
        self.exchange.live.copy_(live_counts(self.momentum, self.layout))
        self._find_live()

    def parts_of(self, k: int) -> dict[str, tuple[Tensor, float]]:
        """Where the state of a parameter lies, by its names in :meth:`dense`, and what is there while it pauses."""
        assert self.carried is not None
        slot = self.flat.slots[k]
        return {
            "exp_avg": (self.carried[slot], 0.0),
            "worker_error": (self.momentum[slot], -0.0),
            "server_error": (self.server.w[self._in_part(slot)], -0.0),
            "exp_avg_sq": (self.variance[slot], -0.0),
        }

    def _in_part(self, slot: slice) -> slice:
        """Where our chunk has elements of a slot."""
        part = self.layout.part(self.rank)
        first = max(slot.start, part.start)
        return slice(first - part.start, max(first, min(slot.stop, part.stop)) - part.start)

    # --- what it knows ---

    def momentum_D(self) -> Tensor:
        """m-bar (D,), a copy, 0 where nothing is sent."""
        if self.carried is not None:
            return self.carried.clone()
        if self.is_frozen and not self.is_first:
            return torch.where(self.variance == 0, 0.0, decode(self.exchange.shared, self.layout))
        return self.momentum + 0.0  # the mark is -0.0

    def worker_error_D(self) -> Tensor:
        """This worker's delta_i (D,)."""
        if self.is_frozen and not self.is_first:
            return error_of(self.momentum, self.worker.u_scale, self.layout)
        return torch.zeros_like(self.momentum)

    def server_error_C(self) -> Tensor:
        """This worker's chunk of delta-bar (d,)."""
        if self.is_frozen and not self.is_first:
            return error_of(self.server.w, self.server.w_scale, self.layout)
        return torch.zeros_like(self.server.w)

    def dense(self) -> dict[str, Tensor]:
        """The state (D,) each, in floats, of paused parameters too, under the names of :attr:`names`."""
        found = self.flats()
        starts = {"server_error": self.layout.part(self.rank).start}
        for k, kept in self.paused.items():
            slot = self.flat.slots[k]
            for name, values in kept.items():
                first = max(slot.start, starts.get(name, 0))
                found[name][first : first + values.shape[0]] = values.float() + (0.0 if name != "exp_avg_sq" else -0.0)
        return self.finished(found)

    def flats(self) -> dict[str, Tensor]:
        """What :meth:`dense` gives, but for paused parameters: copies."""
        return {
            "exp_avg": self.momentum_D(),
            "exp_avg_sq": self.variance.to(F32, copy=True),
            "worker_error": self.worker_error_D(),
            "server_error": self._whole(self.server_error_C()),
        }

    def finished(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same with v in place of P, and with the master copy of 16-bit parameters."""
        if self.is_frozen:
            found["exp_avg_sq"] = variance_of(found["exp_avg_sq"], *self.frozen_with, self.frozen_dtype)
        if self.flat.is_narrow:
            found["master"] = self.flat.master_D()
        return found

    def load(
        self, found: dict[str, Tensor], *, is_frozen: bool, is_first: bool, frozen_with: tuple[float, float]
    ) -> None:
        """Continue from what :meth:`dense` gave; of ``server_error`` our own chunk is taken."""
        self.carried, self.paused, self.is_frozen, self.is_first = None, {}, False, False
        self.momentum.copy_(found["exp_avg"])
        if self.variance.dtype != F32:
            self.variance = flat_buffer(self.flat.dim, F32, self.momentum.device)
        self.variance.copy_(found["exp_avg_sq"])
        for tensor in (self.worker.u_scale, self.server.w_scale, self.server.w, self.exchange.shared):
            tensor.zero_()
        if is_frozen:
            eps, correction = frozen_with
            self.freeze({"eps": eps}, 0.0, correction, loaded=True)
            if not is_first:
                self.carry(found["exp_avg"], found["worker_error"], found["server_error"])
        if "master" in found:
            self.flat.master.copy_(found["master"])

    @property
    def dead(self) -> int:
        """Dead coordinates after the freeze, padding not counted."""
        paused = sum(int((~self.is_dead(kept["exp_avg_sq"])).sum()) for kept in self.paused.values())
        padding = self.flat.dim - self.flat.numel
        return int(self.is_dead(self.variance).sum()) - paused - padding

    def is_dead(self, variance: Tensor) -> Tensor:
        """Where nothing moves, for ``variance`` as this bucket has it after the freeze."""
        return is_marked(variance)

    def common_D(self) -> Tensor | None:
        """The parameters (D,) that all workers share, where this worker stands elsewhere; None: it does not."""
        return None

    def variance_norms(self) -> Tensor:
        """||v||_1 of each parameter (n,) in float64, during the warm-up; what overflowed is left out."""
        sizes = self.flat.sizes  # v of the padding behind a slot is 0
        counts = [-(-size // PIECE) for size in sizes]  # torch widens all of a tensor before it sums it
        parts = zip(sizes, counts, strict=True)
        pieces = self.variance.split([n for size, k in parts for n in [PIECE] * (k - 1) + [size - PIECE * (k - 1)]])
        of_pieces = torch.stack(torch._foreach_norm(pieces, 1, dtype=F64))  # pyright: ignore[reportPrivateImportUsage]
        for k in torch.isinf(of_pieces).nonzero().flatten().tolist():
            of_pieces[k] = torch.where(torch.isfinite(pieces[k]), pieces[k], 0.0).sum(dtype=F64)
        return torch.segment_reduce(of_pieces, "sum", lengths=torch.tensor(counts, device=of_pieces.device))
