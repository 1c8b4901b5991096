"""0/1 Adam for training: Algorithm 1 of Lu et al. 2022 (ICLR 2023, arXiv 2202.06009), as docs/family.md means it.

The variance is refreshed only in the steps of T_v, the workers meet only in the steps of T_u, and they meet with one
bit a number, from the first step on. x is where they last met, x_i where worker i stands, as its model does:

    t in T_v    v <- beta2 v + (1-beta2) g-bar^2                       g-bar in full precision
    worker i    m_i <- beta1 m_i + (1-beta1) g_i      u_i <- u_i + gamma m_i      x_i <- x_i - gamma (P m_i + lambda x)
    t in T_u    u-bar, errors <- compressed average of u_i
                m_i <- u-bar / Gamma      x_i, x <- x - P u-bar - Gamma lambda x      u_i <- 0
                Gamma: the sum of gamma over the steps since the last meeting      P = 1 / (sqrt(v) + eps)

Coordinates whose v is 0 are left out until a refresh brings them to life [C6]; small v are raised to a floor inside P,
never in the state [C7]. Errors are in units of u. The state of a parameter has ``exp_avg``, u-bar / Gamma of the last
meeting, and beside 1-bit Adam's names

    momentum_of_3, accumulated_of_3    m_i and u_i of worker 3
    walked_of_3                        x - x_i
    rate                               Gamma so far
    master                             x, in float32, for parameters of 32 bits too

Where Gamma is 0, as in the first step of some schedules, a meeting tells nothing of the momenta: each worker keeps its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.optim.optimizer import ParamsT

from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.marks import floor_of, is_marked, live_in
from gpu_impl.kernels.state import F32, F64
from gpu_impl.kernels.torch_ import decode, preconditioner_of
from gpu_impl.optimizer.bucket import Bucket, Group
from gpu_impl.optimizer.buffer_bucket import BufferBucket, average_of, gradient_of
from gpu_impl.optimizer.names import ZERO_ONE_ADAM, Names
from gpu_impl.optimizer.numbers import Decision
from gpu_impl.optimizer.parcel import Parcel
from gpu_impl.optimizer.settings import DEFAULT_BUCKET_ELEMENTS, DEFAULT_VARIANCE_FLOOR, Settings, check_integer
from gpu_impl.optimizer.stepping import SteppingOptimizer
from gpu_impl.optimizer.steps import adam_step, averaged, count_step, exchanged, factor_of, leave_out, set_scalars


@dataclass(frozen=True)
class ZeroOneSettings(Settings):
    """What holds for a whole run of :class:`ZeroOneAdam`, and the two policies."""

    variance_doubling: int | None = 16
    local_doubling: int = 32678
    local_limit: int = 16

    def __post_init__(self) -> None:
        check_integer("freeze_step", self.freeze_step, 1)
        super().__post_init__()
        check_integer("local_doubling", self.local_doubling, 1)
        check_integer("local_limit", self.local_limit, 1)
        if self.variance_doubling is not None:
            check_integer("variance_doubling", self.variance_doubling, 1, " or None")

    def refreshes(self, t: int) -> bool:
        """Whether step t is in T_v: the interval is 1 for kappa refreshes, then 2 for kappa, and so on until T_w."""
        if t > int(self.freeze_step):
            return False
        if self.variance_doubling is None:
            return True
        kappa = self.variance_doubling
        doublings = ((t - 1) // kappa + 1).bit_length() - 1  # kappa (2^b - 1) steps pass before the b-th doubling
        return (t - 1 - kappa * (2**doublings - 1)) % 2**doublings == 0

    def meets(self, t: int) -> bool:
        """Whether step t is in T_u: all are until T_w; then the interval doubles, up to the limit."""
        local_steps = t - int(self.freeze_step)
        if local_steps <= 0:
            return True
        doublings = min(local_steps // self.local_doubling, self.local_limit.bit_length())  # else 2^b may be huge
        return local_steps % min(self.local_limit, 2**doublings) == 0


class ZeroOneBucket(BufferBucket):
    """0/1 Adam in one flat buffer; ``buffer`` is u_i. One that does not freeze is plain Adam.

    Attributes:
        own: m_i (D,).
        met, walked: x and x - x_i (D,), while the workers have parted.
        is_parted: whether they have.
        is_home: whether the model holds x all the same, for a while.
        rate, last_rate: Gamma so far, and that of the last meeting, for each parameter (n,) float64.
        loaded: after a load u-bar / Gamma of the last meeting (D,), whose message is gone.
    """

    names: ClassVar[Names] = ZERO_ONE_ADAM

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        device, n = self.momentum.device, len(self.flat.params)
        self.rate, self.last_rate = (torch.zeros(n, dtype=F64, device=device) for _ in range(2))
        self.met, self.walked, self.own = flat_buffer(0), flat_buffer(0), flat_buffer(0)
        self.is_parted = self.is_home = False
        self.loaded: Tensor | None = None
        self._floor: Tensor | None = None
        if self.freezes:
            self.own = flat_buffer(self.flat.dim, F32, device)
            self.begin_exchange()

    # --- a step ---

    def refresh(self, group: Group, mean: Tensor) -> None:
        """V <- beta2 v + (1-beta2) g-bar^2 with the average (D,); what is live may change by that."""
        beta2 = group["betas"][1]
        self.variance.copy_(beta2 * self.variance + (1 - beta2) * (mean * mean))
        self._floor = None
        live = live_in(self.variance)
        if not torch.equal(live, ~is_marked(self.momentum)):
            self.mark(live)

    def accumulate(self, group: Group, grad: Tensor) -> None:
        """M_i and u_i along this worker's gradient (D,)."""
        beta1, gamma = group["betas"][0], float(group["lr"])
        self.note_ignored(grad)
        self.own.copy_(beta1 * self.own + (1 - beta1) * grad)
        self.buffer.copy_(self.buffer + gamma * self.own)
        self.rate += gamma * (~self._is_paused()).to(F64)

    def close(self) -> None:
        """U_i is what is averaged: 0 where nothing is sent."""
        self.buffer.masked_fill_(is_marked(self.momentum), 0.0)

    def walk(self, group: Group, variance_floor: float) -> None:
        """A step in which nobody is met: x_i <- x_i - gamma (P m_i + lambda x)."""
        if not self.is_parted:
            if not self.met.shape[0]:
                self.met, self.walked = (flat_buffer(self.flat.dim, F32, self.own.device) for _ in range(2))
            self.met.copy_(self.x())
            self.walked.zero_()
            self.is_parted = True
        step = self.preconditioner(group, variance_floor) * self.own + group["weight_decay"] * self.met
        walked = self.walked + float(group["lr"]) * step
        self.walked.copy_(torch.where(is_marked(self.momentum), 0.0, walked))
        self.flat.put(self.met - self.walked)

    def meet(self, group: Group, variance_floor: float) -> None:
        """U-bar is there: m_i, x_i and x follow from it."""
        self.take_average()
        x, total = self.x_met(), self.spread(self.rate)
        decayed = total * (group["weight_decay"] * x)
        moved = x - (self.preconditioner(group, variance_floor) * self.buffer + decayed)
        moved = torch.where(is_marked(self.momentum), x, moved)
        self.own.copy_(torch.where(total > 0, self.buffer / total, self.own))
        self.flat.put(moved)
        self.buffer.zero_()
        self.loaded = None
        paused = self._is_paused()
        self.last_rate = torch.where(paused, 0.0, self.rate)
        self.rate = torch.where(paused, self.rate, 0.0)
        self.is_parted = self.is_parted and bool(self.paused)  # a parameter that pauses stays where it is
        if self.is_parted:
            self.met.copy_(moved)
            self.walked.zero_()

    def preconditioner(self, group: Group, variance_floor: float) -> Tensor:
        """P (D,) with the floor [C7]; 0 where nothing moves [C6]."""
        if self._floor is None:
            self._floor = floor_of(self.variance, variance_floor)
        found = preconditioner_of(torch.maximum(self.variance, self._floor), 1.0, group["eps"])
        return torch.where(live_in(self.variance), found, 0.0)

    def freeze(self, group: Group, variance_floor: float, variance_correction: float, *, loaded: bool = False) -> None:
        self.frozen_with, self.is_frozen = (group["eps"], variance_correction), True

    # --- where the workers are ---

    def settle(self) -> None:
        """Where somebody has given the model other values than this worker stood at, they are x from now on."""
        if not self.is_parted or self.is_home:
            return
        same = (self.met - self.walked).to(self.flat.weights.dtype) == self.flat.weights
        self.met.copy_(torch.where(same, self.met, self.flat.weights.float()))
        self.walked.masked_fill_(~same, 0.0)

    def go_home(self) -> None:
        """Let the model hold x, for a while."""
        common = self.common_D()
        if common is not None:
            self.flat.put(common)
            self.is_home = True

    def go_back(self) -> None:
        """Let the model hold x_i again."""
        if self.is_home:
            self.flat.put(self.met - self.walked)
            self.is_home = False

    def x_met(self) -> Tensor:
        """The x of the last meeting (D,); of a parameter that pauses, where it stands."""
        return self.met if self.is_parted else self.x()

    def common_D(self) -> Tensor | None:
        if not self.is_parted:
            return None
        self.settle()
        common = self.met.clone()
        for k, kept in self.paused.items():
            if "master" in kept:
                common[self.flat.slots[k]] = kept["master"]
        return common

    def _is_paused(self) -> Tensor:
        return torch.tensor([k in self.paused for k in range(len(self.flat.params))], device=self.rate.device)

    def pause(self, absent: set[int]) -> None:
        if absent != set(self.paused):
            super().pause(absent)
            self._floor = None
            self.settle()

    # --- what it knows ---

    def momentum_D(self) -> Tensor:
        if not self.freezes:
            return self.momentum + 0.0
        if self.loaded is not None:
            return self.loaded.clone()
        total, sent = self.spread(self.last_rate), decode(self.exchange.shared, self.layout)
        return torch.where(is_marked(self.momentum) | (total == 0), 0.0, sent / total)

    def parts_of(self, k: int) -> dict[str, tuple[Tensor, float]]:
        slot = self.flat.slots[k]
        own = {"momentum": (self.own[slot], 0.0), "accumulated": (self.buffer[slot], 0.0)}
        if self.is_parted:
            own |= {"walked": (self.walked[slot], 0.0), "master": (self.met[slot], 0.0)}
        return {**super().parts_of(k), **own}

    def flats(self) -> dict[str, Tensor]:
        self.settle()
        nothing = torch.zeros_like(self.variance)
        more = {"momentum": self.own, "accumulated": self.buffer} if self.freezes else {}
        more |= {"walked": self.walked, "master": self.met} if self.is_parted else {"master": self.x()}
        found = {name: more.get(name, nothing).clone() for name in ("momentum", "accumulated", "walked", "master")}
        return {**super().flats(), **found}

    def numbers(self) -> dict[str, Tensor]:
        return {"rate": self.rate}

    def load(
        self,
        found: dict[str, Tensor],
        numbers: dict[str, Tensor],
        *,
        is_frozen: bool,
        is_first: bool,
        frozen_with: tuple[float, float],
    ) -> None:
        del is_first
        self.paused, self.is_frozen, self.frozen_with = {}, is_frozen, frozen_with
        self.is_home = self.is_parted = False
        self.variance.copy_(found["exp_avg_sq"])
        if self.flat.is_narrow:
            self.flat.master.copy_(found["master"])
        if not self.freezes:
            self.momentum.copy_(found["exp_avg"])
            return
        self._floor, self.loaded = None, found["exp_avg"]
        self.set_errors(found, live_in(self.variance))
        self.own.copy_(found["momentum"])
        self.buffer.copy_(found["accumulated"])
        self.rate.copy_(numbers["rate"])
        self.is_parted = bool(found["walked"].any())
        if self.is_parted:
            self.met, self.walked = found["master"], found["walked"]
            self.flat.put(self.met - self.walked)


class ZeroOneAdam(SteppingOptimizer):
    """Adam that skips rounds, and sends one bit a number in those that it takes, from the first step on.

    As :class:`gpu_impl.OneBitAdam` it averages gradients over the workers itself. Between two meetings the model of
    each worker is at a point of its own; :meth:`at_last_meeting` puts it where all are the same.

    Args:
        params: parameters, named parameters or parameter groups, float32, bfloat16 or float16. A group may have
            ``non_freeze=True``: it is trained by Adam with full gradients in every step.
        lr, betas, eps, weight_decay: as in :class:`gpu_impl.OneBitAdam`; there is no bias correction, as published, and
            the decay takes x of the last meeting.
        freeze_step: T_w >= 1; no refresh of v after it, and no interval above 1 between meetings before it.
        variance_doubling: kappa, refreshes after which their interval doubles; None: v is refreshed in every step.
        local_doubling: steps after T_w in which the interval between meetings doubles. The published number is for
            pre-training of BERT; in runs of a few thousand steps nothing happens with it.
        local_limit: the longest interval between meetings; 1: the workers meet in every step.
        scale, variance_floor, max_grad_norm, process_group, backend, scale_block, bucket_elements: as in
            :class:`gpu_impl.OneBitAdam`.

    Raises:
        ValueError, TypeError: an argument is not of this kind; the message names it.
    """

    bucket: ClassVar[type[Bucket]] = ZeroOneBucket

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        freeze_step: int,
        variance_doubling: int | None = 16,
        local_doubling: int = 32678,
        local_limit: int = 16,
        scale: str = "l2",
        variance_floor: float = DEFAULT_VARIANCE_FLOOR,
        max_grad_norm: float | None = None,
        process_group: dist.ProcessGroup | None = None,
        backend: str = "auto",
        scale_block: int | None = None,
        bucket_elements: int = DEFAULT_BUCKET_ELEMENTS,
    ) -> None:
        settings = ZeroOneSettings(
            freeze_step,
            scale,
            variance_floor,
            bias_correction=False,
            max_grad_norm=max_grad_norm,
            lr_warmup_steps=0,
            bucket_elements=bucket_elements,
            scale_block=scale_block,
            variance_doubling=variance_doubling,
            local_doubling=local_doubling,
            local_limit=local_limit,
        )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, settings, backend, process_group)

    @contextmanager
    def at_last_meeting(self) -> Iterator[None]:
        """Within it the model is where the workers last met, the same on all: to evaluate it, or to save it."""
        buckets = [(parcel, bucket) for parcel in self.run.parcels for _, bucket in _buckets_of(parcel)]
        try:
            for parcel, bucket in buckets:
                parcel.adopt()
                bucket.go_home()
                parcel.publish()
            yield
        finally:
            for parcel, bucket in buckets:
                bucket.go_back()
                parcel.publish()

    def take_step(self, decision: Decision, unscale: Tensor | None) -> None:
        if not decision.is_applied:
            return
        run, settings = self.run, self.run.settings
        assert isinstance(settings, ZeroOneSettings)
        ours, t = [parcel for parcel in run.parcels if parcel.freezes], run.steps + 1
        factor, floor = float(decision.factor), settings.variance_floor
        own = float(factor_of(factor, unscale))
        adam_step(run, [parcel for parcel in run.parcels if not parcel.freezes], decision, unscale)
        for parcel in ours:
            for _, bucket in _buckets_of(parcel):
                bucket.settle()
        leave_out(ours, decision.absent)
        for parcel in averaged(ours, unscale) if settings.refreshes(t) else ():
            for k, (group, bucket) in enumerate(_buckets_of(parcel)):
                bucket.refresh(group, average_of(parcel, k, factor))

        def accumulate(parcel: Parcel) -> None:
            for k, (group, bucket) in enumerate(_buckets_of(parcel)):
                bucket.accumulate(group, gradient_of(parcel, k, own))

        def close(parcel: Parcel) -> None:
            accumulate(parcel)
            set_scalars(run, parcel, 1.0)
            for _, bucket in _buckets_of(parcel):
                bucket.close()

        if settings.meets(t):
            for parcel in exchanged(run, ours, close):
                parcel.decode()
                for group, bucket in _buckets_of(parcel):
                    bucket.meet(group, floor)
                parcel.publish()
        else:
            for parcel in ours:
                accumulate(parcel)
                for group, bucket in _buckets_of(parcel):
                    bucket.walk(group, floor)
                parcel.publish()
        count_step(run)


def _buckets_of(parcel: Parcel) -> Iterable[tuple[Group, ZeroOneBucket]]:
    for group, bucket in parcel.buckets:
        assert isinstance(bucket, ZeroOneBucket)
        yield group, bucket
