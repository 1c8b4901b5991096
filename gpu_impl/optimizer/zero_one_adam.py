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

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Never

import torch
from torch import Tensor
from torch import distributed as dist
from torch.optim.optimizer import ParamsT
from torch.utils.hooks import RemovableHandle

from gpu_impl.kernels.state import F64
from gpu_impl.optimizer.agreement import checksum
from gpu_impl.optimizer.before_forward import before_forward
from gpu_impl.optimizer.bucket import Bucket, Group
from gpu_impl.optimizer.buffer_bucket import average_of, gradient_of
from gpu_impl.optimizer.numbers import Decision
from gpu_impl.optimizer.one_at_a_time import READING
from gpu_impl.optimizer.parcel import Parcel
from gpu_impl.optimizer.settings import (
    DEFAULT_BUCKET_ELEMENTS,
    DEFAULT_VARIANCE_FLOOR,
    Settings,
    check_integer,
    refuse_more,
)
from gpu_impl.optimizer.state import ParamState, all_params
from gpu_impl.optimizer.stepping import SteppingOptimizer
from gpu_impl.optimizer.steps import adam_step, averaged, count_step, exchanged, factor_of, leave_out, set_scalars
from gpu_impl.optimizer.zero_one_bucket import ZeroOneBucket

logger = logging.getLogger("onebit")


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
    _hook: RemovableHandle | None = None  # called before the first forward pass after a load
    _is_home: bool = False  # inside at_last_meeting()

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
        **more: Never,
    ) -> None:
        refuse_more(self, more)
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

    def _load(self, groups: list[Any], states: dict[int, ParamState]) -> None:
        with self.run:
            self._is_home = False
            super()._load(groups, states)
            self._end_hook()
            self._note_written()
            if any(bucket.is_loaded for _, bucket in self._pairs()):
                self._hook = before_forward(self, all_params(self.run), ZeroOneAdam._return_to_loaded)

    @torch.no_grad()
    def _return_to_loaded(self) -> bool:
        """Before the first step after a load: let the model hold x_i of the state; whether it held anything else.

        A model that is loaded after the optimizer, as torch's ``set_state_dict`` does it, holds what another worker has
        saved, or x. This worker's gradients are those at x_i all the same.
        """
        moved = []
        for parcel in self.run.parcels:
            if any(bucket.is_loaded for _, bucket in _buckets_of(parcel)):
                parcel.adopt()
                moved += [bucket.return_to_loaded() for _, bucket in _buckets_of(parcel)]
                parcel.publish()
        return any(moved)

    def _end_hook(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _prepare(self) -> None:
        if self._is_home:
            raise RuntimeError(
                "step() was called inside at_last_meeting(), where the model is not where this worker stands: leave "
                "the block first, or load a checkpoint if it was interrupted"
            )
        super()._prepare()
        if self._return_to_loaded():
            logger.warning(
                "after a load between two meetings the parameters got other values, for which the gradients of this "
                "step are: the step itself begins at the values of the state"
            )
        self._refuse_changed()

    @contextmanager
    def at_last_meeting(self) -> Iterator[None]:
        """Within it the model is where the workers last met, the same on all: to evaluate it, save it, or change it.

        What is written to parameters there counts: all workers must write the same, which the next step compares.
        Between two meetings each worker then goes on from its own point, moved by as much.

        Raises:
            RuntimeError: parameters were changed outside of it, while the workers are parted.
        """
        if self._is_home:
            yield  # what holds this block goes back
            return
        with self.alone(READING):
            self._refuse_changed()
        self._is_home = True
        try:
            for parcel, bucket in self._pairs():
                parcel.adopt()
                bucket.go_home()
                parcel.publish()
            yield
        finally:
            with self.run:
                self._is_home = False
                for parcel, bucket in self._pairs():
                    bucket.take_written()
                    bucket.go_back()
                    parcel.publish()
                self._note_written()

    def _pairs(self) -> Iterator[tuple[Parcel, ZeroOneBucket]]:
        return ((parcel, bucket) for parcel in self.run.parcels for _, bucket in _buckets_of(parcel))

    def _refuse_changed(self) -> None:
        for _, bucket in self._pairs():
            bucket.refuse_changed()

    def _note_written(self) -> None:
        """Let the next step compare what this worker has written where all last met, in what it sends anyway."""
        written = [common for _, one in self._pairs() if one.is_written and (common := one.common_D()) is not None]
        self.run.written = checksum(written)

    def _packed(self) -> dict[str, Any]:
        try:
            self._refuse_changed()
        except RuntimeError as error:  # torch asks for a state when it loads another one, which is the way out
            logger.warning("the state holds where this worker stood after its last step, for %s", error)
        return super()._packed()

    def take_step(self, decision: Decision, unscale: Tensor | None) -> None:
        if not decision.is_applied:
            return
        run, settings = self.run, self.run.settings
        assert isinstance(settings, ZeroOneSettings)
        ours, t = [parcel for parcel in run.parcels if parcel.freezes], run.steps + 1
        factor, floor = float(decision.factor), settings.variance_floor
        own = float(factor_of(factor, unscale))
        adam_step(run, [parcel for parcel in run.parcels if not parcel.freezes], decision, unscale)
        for _, bucket in self._pairs():
            bucket.is_loaded = bucket.is_written = False
        run.written = 0
        self._end_hook()
        leave_out(ours, decision.absent)
        for parcel in averaged(ours, unscale) if settings.refreshes(t) else ():
            for k, (group, bucket) in enumerate(_buckets_of(parcel)):
                bucket.refresh(group, average_of(parcel, k, factor))

        ours_n = {number: content for content in run.contents if content.kind.freezes for number in content.numbers}
        present = sorted(ours_n.keys() - decision.absent)
        rate_n = run.numbers("rate")
        gammas = [float(ours_n[number].group["lr"]) for number in present]
        rate_n[present] += torch.tensor(gammas, dtype=F64, device=rate_n.device)

        def close(parcel: Parcel) -> None:
            set_scalars(run, parcel, 1.0)
            for k, (group, bucket) in enumerate(_buckets_of(parcel)):
                bucket.accumulate(group, gradient_of(parcel, k, own))

        if settings.meets(t):
            for parcel in exchanged(run, ours, close):
                parcel.decode()
                for numbers, group, bucket in parcel.numbered_buckets():
                    assert isinstance(bucket, ZeroOneBucket)
                    bucket.meet(group, floor, rate_n[numbers].to(bucket.momentum.device))
                parcel.publish()
            rate_n[present] = 0.0
        else:
            for parcel in ours:
                set_scalars(run, parcel, own)
                _walk(parcel, floor)
        count_step(run)


def _walk(parcel: Parcel, variance_floor: float) -> None:
    """A step in which nobody is met."""
    buckets = list(_buckets_of(parcel))
    for _, bucket in buckets:
        bucket.part(variance_floor)
    key = [(group["betas"][0], group["eps"], bucket.met.data_ptr()) for group, bucket in buckets]
    grads = parcel.gradients
    parcel.run("walk", key, lambda: [one.walk_call(group, grads.of(k)) for k, (group, one) in enumerate(buckets)])
    parcel.publish()


def _buckets_of(parcel: Parcel) -> Iterable[tuple[Group, ZeroOneBucket]]:
    for group, bucket in parcel.buckets:
        assert isinstance(bucket, ZeroOneBucket)
        yield group, bucket
