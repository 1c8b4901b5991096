"""1-bit Adam inside ``DistributedDataParallel``: a communication hook that owns the momentum, and the optimizer to it.

    model = DistributedDataParallel(network)
    optimizer = HookedOneBitAdam(network.parameters(), lr=1e-3, freeze_step=1000)
    optimizer.attach(model)                 # instead of model.register_comm_hook(...)
    ...
    model(inputs).backward()                # the workers exchange momenta while it runs; p.grad is m-bar
    optimizer.step()                        # x <- x - lr (P p.grad + weight_decay x)

The numbers are those of :class:`gpu_impl.OneBitAdam` on the same buckets, to the bit; only the time of the exchange
differs: a parcel is compressed and sent as soon as DDP has delivered all its gradients. The buckets of the state are
the optimizer's own. DDP's only bring gradients in and take m-bar out, so it may rebuild them when it likes.

Compression begins before it is known that every worker's gradient is finite [C8]. So the kernel puts the old u where
the gradient was, which nobody needs any more, and it is put back if the step turns out to be skipped. Gradients of 16
bits have no room for it: there u is copied first, four bytes of memory an element.
"""

# No "from __future__ import annotations" here: DDP compares the hook's annotations with the classes themselves.
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.distributed import GradBucket  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.algorithms.join import JoinHook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from gpu_impl.optimizer.agreement import agree, facts_of, meet
from gpu_impl.optimizer.base import left_by_the_compiler
from gpu_impl.optimizer.ddp import PREPARED
from gpu_impl.optimizer.ddp_inbox import Inbox
from gpu_impl.optimizer.numbers import Decision
from gpu_impl.optimizer.one_at_a_time import STEP
from gpu_impl.optimizer.one_bit_adam import OneBitAdamArguments
from gpu_impl.optimizer.state import ParamState
from gpu_impl.optimizer.steps import adam_on_average, count_step, leave_out, set_scalars

AFTER_AN_ERROR = (
    "torch's DistributedDataParallel can't be used after an error in its backward pass: delete it, make a new one and "
    "a new optimizer, attach it and load a checkpoint"
)


class HookedOneBitAdam(OneBitAdamArguments):
    """1-bit Adam whose workers exchange inside DDP's backward pass, by a communication hook.

    The arguments are those of :class:`gpu_impl.OneBitAdam`, and so are state, checkpoints and statistics: a run can
    change from one to the other at a checkpoint. Gradients can't be clipped or loss-scaled, for they are compressed
    before anybody could: ``max_grad_norm``, ``clip_grad_norm_`` and ``GradScaler`` are refused.

    Raises:
        ValueError, TypeError: as OneBitAdam, and for ``max_grad_norm`` and ``node_group``.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        if self.run.node_group is not None:
            raise ValueError(
                "node_group: the hook exchanges with all of DDP's workers; for nodes use OneBitAdam with "
                "gpu_impl.leave_gradients_local(ddp)"
            )
        if self.run.settings.max_grad_norm is not None:
            raise ValueError(
                "max_grad_norm: the hook compresses a gradient before the norm of the whole is known; to clip, use "
                "OneBitAdam with gpu_impl.leave_gradients_local(ddp)"
            )

    def _begin(self, *arguments: Any, **keywords: Any) -> None:
        super()._begin(*arguments, **keywords)
        self._all_inboxes: list[Inbox] = []
        self._inboxes: list[Inbox] = []  # those that DDP brings something for
        self._off: set[int] = set()  # numbers of the parameters that it brings nothing for
        self._home: dict[int, Inbox] = {}  # by id of the parameter
        self._futures: list[tuple[Future[Tensor], Tensor]] = []
        self._has_failed = False  # whether the last backward pass was refused
        self._is_applicable: bool | None = None  # None: no backward pass since the last step
        self._delivered: set[int] | None = None  # ids of the parameters of DDP's module; None: it is not attached
        self._n_params = 0  # of the optimizer, when it was attached

    def attach(self, ddp: DistributedDataParallel) -> None:
        """Register the hook; once, before the first backward pass, on all workers.

        Raises:
            TypeError: it is no DistributedDataParallel.
            ValueError: DDP reduces other parameters than this optimizer's, or over another process group; it has a
                hook of ours already, or mixes precisions by one of its own.
            RuntimeError: an earlier backward pass or step ended in the middle.
        """
        with self.alone("attach()"):
            self.run.check_whole()
            self._attach(ddp)

    def _attach(self, ddp: DistributedDataParallel) -> None:
        if not isinstance(ddp, DistributedDataParallel):
            raise TypeError(f"attach takes a DistributedDataParallel module, got {type(ddp).__name__}")
        ours = {id(p) for group in self.param_groups for p in group["params"] if p.requires_grad}
        ignored = ddp.parameters_to_ignore
        theirs = {id(p) for name, p in ddp.module.named_parameters() if p.requires_grad and name not in ignored}
        if ours != theirs:
            raise ValueError(
                "the optimizer must have all parameters that DDP reduces and no others, for the hook sees them all: "
                f"{len(theirs - ours)} of DDP's are missing, {len(ours - theirs)} are not DDP's"
            )
        if ddp.mixed_precision is not None:
            raise ValueError(
                "the hook can't be used with DistributedDataParallel(mixed_precision=...), which has its own"
            )
        if ddp in PREPARED:
            raise ValueError("this model has been attached, or prepared by gpu_impl.leave_gradients_local, before")
        if self.run.process_group not in (None, ddp.process_group):
            raise ValueError("process_group must be that of DistributedDataParallel, or None")
        self.run.process_group = ddp.process_group
        self._delivered, self._n_params = {id(p) for p in ddp.module.parameters()}, self._count()
        self.take_over()
        ddp.register_comm_hook(None, self._on_bucket)
        PREPARED.add(ddp)

    # --- during the backward pass ---

    @left_by_the_compiler
    @torch.no_grad()
    def _on_bucket(self, _: object, bucket: GradBucket) -> Future[Tensor]:
        """DDP has reduced nothing and brings some gradients of this worker; it wants back what all workers share."""
        with self.run.one_at_a_time.during(STEP):
            if not self._futures:
                if self._count() != self._n_params:
                    self._refuse_strangers()
                try:
                    self._open_inboxes()
                except (RuntimeError, ValueError) as error:
                    self._has_failed = True
                    raise RuntimeError(f"{error}. {AFTER_AN_ERROR}") from error
                self._has_failed = False
            return self._take(bucket)

    def _take(self, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        future: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._futures.append((future, buffer))
        with self.run:
            for param, grad in zip(bucket.parameters(), bucket.gradients(), strict=True):
                inbox = self._home.get(id(param))
                # DDP lays a gradient out in memory as its parameter is; gradients() reads it row by row
                laid_out = grad.as_strided(param.shape, param.stride(), grad.storage_offset())
                if inbox is not None and inbox.take(param, laid_out):  # None: an empty parameter
                    inbox.begin(self.run)
            if bucket.is_last():
                self._finish_exchange()
        return future

    def _open_inboxes(self) -> None:
        run = self.run
        self._refuse_early()
        self._prepare()
        if not self._agreed:
            meet(run, "backward() of HookedOneBitAdam")
            agree(run.collectives, facts_of(run))
            self._agreed = True
        if [inbox.parcel for inbox in self._all_inboxes] != run.parcels:
            self._all_inboxes = [Inbox(parcel) for parcel in run.parcels]
            self._home = {key: inbox for inbox in self._all_inboxes for key in inbox.places}
        self._off = set().union(*(inbox.open() for inbox in self._all_inboxes))
        self._inboxes = [inbox for inbox in self._all_inboxes if inbox.is_used]
        leave_out([inbox.parcel for inbox in self._inboxes if inbox.parcel.is_frozen], frozenset(self._off))
        run.bytes_before = run.collectives.bytes_sent
        run.collectives.where = f" of step {run.calls + 1}"

    def _finish_exchange(self) -> None:
        """All gradients are here: decide about the step, end the exchange, hand out the results."""
        if not all(inbox.is_complete for inbox in self._inboxes):
            raise RuntimeError(
                "DDP has not delivered all gradients of this optimizer, as when a parameter was turned on after DDP "
                "was made: make a new DDP module and a new optimizer, attach it and load a checkpoint"
            )
        decision = self._numbers.decide(self.run, self._off, None, None)
        self.run.calls += 1
        for inbox in self._inboxes:
            inbox.pending.wait()
        self._is_applicable = decision.is_applied
        for inbox in self._inboxes:
            if self._is_applicable:
                inbox.share(self.run)
            else:
                inbox.undo()
        if self._is_applicable:
            for inbox in self._inboxes:
                inbox.deliver()
        for future, buffer in self._futures:
            future.set_result(buffer)
        self._futures = []

    # --- after it ---

    @left_by_the_compiler
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Apply what the backward pass has exchanged.

        Raises:
            RuntimeError: there was no backward pass; a gradient, a learning rate or another setting was changed since;
                or a GradScaler is used.
        """
        if closure is not None:
            raise RuntimeError(
                "a closure can't be used with the hook, whose exchange is part of backward(): use OneBitAdam, "
                "with Lightning too, which gives one"
            )
        with self.run.one_at_a_time.during(STEP):
            self._refuse_step()
            is_applicable, self._is_applicable = self._is_applicable, None
            with self.run:
                self._refuse_loss_scale()
                if is_applicable:
                    self._refuse_changes()
                    self._apply()

    def take_part(self) -> None:
        raise RuntimeError("Join can't be used with the hook: a backward pass must run on all workers")

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Not here.

        Raises:
            RuntimeError: always; OneBitAdam can.
        """
        raise RuntimeError("Join can't be used with the hook: a backward pass must run on all workers; use OneBitAdam")

    def _count(self) -> int:
        return sum(len(group["params"]) for group in self.param_groups)

    def _refuse_strangers(self) -> None:
        params = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        if strange := [p for p in params if id(p) not in (self._delivered or ())]:
            raise RuntimeError(
                f"DistributedDataParallel does not hold all of the optimizer's parameters: {len(strange)} are missing, "
                f"such as one of shape {tuple(strange[0].shape)}. Nothing has been exchanged. DDP can't be used after "
                "an error in its backward pass: delete it, and attach a new one of a module that has all of them"
            )

    def _refuse_loss_scale(self) -> None:
        if self._loss_scale() != (None, None):
            raise RuntimeError(
                "GradScaler can't be used with the hook, which compresses scaled gradients of changing scale: train in "
                "bfloat16 without it, or use OneBitAdam with gpu_impl.leave_gradients_local(ddp)"
            )

    def _refuse_step(self) -> None:
        """Nothing is lost yet where backward() was forgotten."""
        self.run.check_whole()
        if self._delivered is None:
            raise RuntimeError("step() before attach(): call optimizer.attach(ddp), before the first backward pass")
        if self._has_failed:
            raise RuntimeError(f"the last backward() was refused, so there is nothing to apply. {AFTER_AN_ERROR}")
        if self._futures:
            raise RuntimeError(
                "backward() is under way, or DDP brought only some of the gradients: if a parameter took no part in "
                f"the loss, say DistributedDataParallel(..., find_unused_parameters=True). {AFTER_AN_ERROR}"
            )
        if self._is_applicable is None:
            raise RuntimeError(
                "step() without gradients: call the DistributedDataParallel module that is attached, and backward(), "
                "outside of no_sync(), and after a load anew, for that drops what was exchanged; if a parameter may "
                "take no part in the loss, make DDP with find_unused_parameters=True. After an error in backward(): "
                f"{AFTER_AN_ERROR}"
            )
        self._refuse_late_settings()

    def _refuse_late_settings(self) -> None:
        """Nothing is lost yet: put back what was there, and step() goes on."""
        self.run.see(self.param_groups)
        changed = self._numbers.first_change(self.run)
        if changed:
            raise RuntimeError(
                f"{changed} was changed between backward() and step(), but the workers have compared it in backward() "
                "and exchanged momenta that depend on it: change it before backward() or after step()"
            )

    def _refuse_changes(self) -> None:
        if not all(inbox.is_untouched() for inbox in self._inboxes):
            raise RuntimeError(
                "a gradient was changed between backward() and step(), where it is a shared momentum already: call "
                "zero_grad() after step(); to clip, "
                "or to use a GradScaler, which unscales it, take OneBitAdam (max_grad_norm) and "
                "gpu_impl.leave_gradients_local(ddp)"
            )

    def _apply(self) -> None:
        run = self.run
        decision = Decision(1.0, frozenset(self._off))
        for parcel in [inbox.parcel for inbox in self._inboxes]:
            parcel.adopt()  # a parameter may have got new memory since backward()
            if not parcel.is_frozen:
                adam_on_average(run, parcel, decision)
                continue
            set_scalars(run, parcel, 1.0)
            parcel.apply()
        count_step(run)
        for parcel in run.parcels:
            parcel.gradients.let_go()

    # --- between the two ---

    def alone(self, what: str) -> AbstractContextManager[None]:
        if self._futures:
            raise RuntimeError(
                f"{what} can't begin, for backward() is under way, or ended in the middle: what it has exchanged is "
                f"not applied. Wait for step(); after an error: {AFTER_AN_ERROR}"
            )
        return super().alone(what)

    def _refuse_early(self) -> None:
        self.run.check_whole()
        if self._is_applicable is not None:
            raise RuntimeError(
                "backward() has exchanged what step() must apply before anything else: of several backward passes in a "
                "step, put all but the last into no_sync(); a step() that was refused can be called again"
            )

    def check_readable(self) -> None:
        super().check_readable()
        self._refuse_early()

    def _load(self, groups: list[Any], states: dict[int, ParamState]) -> None:
        super()._load(groups, states)
        self._is_applicable = None
