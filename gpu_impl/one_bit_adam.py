"""1-bit Adam for training: a ``torch.optim.Optimizer`` whose workers exchange their gradients themselves.

Tang et al. 2021 (arXiv 2102.02888), with the conventions of docs/algorithm.md. docs/training.md says how to use it.
A step is, bucket by bucket, with the communication of one bucket under way while the next is compressed:

    gather gradients -> one number a worker: skip? clip? -> warm-up:      all-reduce -> Adam
                                                            compression:  compress -> all-to-all -> server
                                                                          -> all-gather -> apply
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.optim.optimizer import Optimizer, ParamsT

from gpu_impl.agreement import PARAMETER_VALUES, agree, checksum
from gpu_impl.bucket import Bucket, Group
from gpu_impl.collectives import Collectives
from gpu_impl.flat_params import FlatParams, local, partition
from gpu_impl.freeze_rule import FreezeRule
from gpu_impl.hyperparameters import check_group, check_settings
from gpu_impl.select import get_backend
from gpu_impl.sharding import shard_groups
from gpu_impl.step_scalars import N_SCALARS

logger = logging.getLogger("onebit")

WARM_UP, FROZEN, COMPRESSED = "warm-up", "frozen", "compressed"
"""Phases. Frozen: after step T_w, until the first compressed step has been applied."""

DEFAULT_VARIANCE_FLOOR = 1e-3
"""kappa [C7]; docs/algorithm.md says what it is for."""

DEFAULT_BUCKET_ELEMENTS = 2**24
"""Elements of a bucket: large enough for the network's bandwidth, small enough that several overlap."""


@dataclass(frozen=True)
class Stats:
    """How a run is doing; the numbers of this worker.

    Attributes:
        phase: "warm-up", "frozen" (the variance is; nothing has been compressed yet) or "compressed".
        step: applied steps t.
        skipped_steps: steps skipped because a gradient was not finite on some worker [C8].
        frozen_at: T_w, once the variance is frozen.
        bytes_sent: bytes that this worker has sent so far.
        bytes_last_step: of these, in the last step.
        worker_error_norm: norm of this worker's pending errors delta_i.
        server_error_norm: norm of the chunks of delta-bar that this worker serves.
        dead_coordinates: coordinates without variance at the freeze, which are never updated [C6]; padding not counted.
        ignored_gradients: how often a non-zero gradient of this worker arrived at one of them.
    """

    phase: str
    step: int
    skipped_steps: int
    frozen_at: int | None
    bytes_sent: int
    bytes_last_step: int
    worker_error_norm: float
    server_error_norm: float
    dead_coordinates: int
    ignored_gradients: int


class OneBitAdam(Optimizer):
    """Adam that sends one bit a coordinate once its variance is frozen.

    It averages gradients over the workers itself: use it on a bare model, without ``DistributedDataParallel``, or with
    one prepared by :func:`gpu_impl.leave_gradients_local`. All workers call :meth:`step` equally often.

    Args:
        params: parameters or parameter groups, float32, bfloat16 or float16; those that don't require a gradient at the
            first step are left alone.
        lr: gamma > 0; a schedule may change ``group["lr"]``, on all workers alike.
        betas: (beta1, beta2), each in [0, 1).
        eps: > 0, added to the root of the variance.
        weight_decay: lambda >= 0, decoupled as in AdamW.
        freeze_step: T_w >= 1, the last warm-up step, or "auto" [C10].
        scale: "l2" or "l1" [C1].
        variance_floor: kappa >= 0 [C7].
        bias_correction: off as published [C5].
        max_grad_norm: clip all workers by one factor, from the root mean square of their norms [C9].
        process_group: the workers that average; None is the default group, or one worker without a group.
        backend: kernels: "auto", "cpu", "triton" or "torch".
        lr_warmup_steps: "auto" does not freeze before this step.
        bucket_elements: elements of a flat buffer. Each has its own scale and chunks; 2**62 makes one of a whole model.

    Raises:
        ValueError, TypeError: an argument is not of this kind; the message names it.
    """

    _step_supports_amp_scaling = True  # GradScaler then always calls step(), so that no worker misses a collective

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        freeze_step: int | str,
        scale: str = "l2",
        variance_floor: float = DEFAULT_VARIANCE_FLOOR,
        bias_correction: bool = False,
        max_grad_norm: float | None = None,
        process_group: dist.ProcessGroup | None = None,
        backend: str = "auto",
        lr_warmup_steps: int = 0,
        bucket_elements: int = DEFAULT_BUCKET_ELEMENTS,
    ) -> None:
        self.settings: dict[str, Any] = {
            "freeze_step": freeze_step,
            "scale": scale,
            "variance_floor": variance_floor,
            "bias_correction": bias_correction,
            "max_grad_norm": max_grad_norm,
            "lr_warmup_steps": lr_warmup_steps,
            "bucket_elements": bucket_elements,
        }
        check_settings(self.settings)
        self.backend, self.process_group = backend, process_group
        self.phase, self.frozen_at = WARM_UP, None
        self._groups_buckets: list[list[Bucket]] = []  # one list for each parameter group
        self._left_out: list[Tensor] = []
        self._collectives: Collectives | None = None
        self._agreed = False
        self._broken = ""
        self._calls = 0  # steps asked for; those not applied were skipped
        self._applied = torch.zeros((), dtype=torch.float64)  # on the device: nobody waits for it
        self._bytes_before = 0
        self._freeze_rule = FreezeRule(freeze_step, lr_warmup_steps)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, at any time before the freeze; its m and v begin at 0.

        Raises:
            RuntimeError: the variance is frozen.
            ValueError, TypeError: a value or a parameter that can't be used.
        """
        if self.phase != WARM_UP:
            raise RuntimeError(
                f"a parameter group can't join after the freeze (step {self.frozen_at}), for it has no variance: add "
                "it during the warm-up, or begin a new run"
            )
        super().add_param_group(param_group)
        try:
            check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise
        self._agreed = False

    # --- a step ---

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Average the gradients over the workers and update the parameters. All workers must call it.

        Args:
            closure: computes the gradients anew and returns the loss.

        Raises:
            WorkersDisagreeError: settings, shapes or parameters differ between workers.
            CollectiveFailedError: another worker died; restart from a checkpoint.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.prepare()
        with self._whole_or_broken():
            self._step()
        return loss

    def prepare(self) -> None:
        """What the first step does before it starts: take the parameters over, compare the workers. Otherwise nothing.

        Raises:
            WorkersDisagreeError: settings, shapes or parameters differ between workers.
        """
        if self._broken:
            raise RuntimeError(self._broken)
        while len(self._groups_buckets) < len(self.param_groups):
            group = self.param_groups[len(self._groups_buckets)]
            self._groups_buckets.append(self._make_buckets(group))
        if not self._agreed:
            agree(self.collectives, self._facts())
            self._agreed = True

    def _step(self) -> None:
        unscale, found_inf = self._loss_scale()
        self._bytes_before = self.collectives.bytes_sent
        for _, bucket in self.pairs():
            bucket.gather()
        if any(param.grad is not None for param in self._left_out):
            raise RuntimeError("a parameter got a gradient that needed none at the first step: add it as a new group")
        factor = self._gradient_factor(unscale, found_inf)
        self._calls += 1
        if self._is_settled:
            self._compressed_step(factor, unscale)
            self._applied += torch.isfinite(factor)
        elif bool(torch.isfinite(factor)):
            if self.phase == WARM_UP:
                self._warm_up_step(factor, unscale)
            else:
                self._compressed_step(factor, unscale)
                self.phase = COMPRESSED
            self._applied += 1
            self._freeze_if_due()

    @property
    def _is_settled(self) -> bool:
        """Nothing hangs on whether a step is skipped but what the kernels decide themselves: the host need not know."""
        return self.phase == COMPRESSED and all(bucket.carried is None for _, bucket in self.pairs())

    def _gradient_factor(self, unscale: Tensor | None, found_inf: Tensor | None) -> Tensor:
        """What every worker multiplies its unscaled gradient with, () float64: NaN skips the step [C8], < 1 clips [C9].

        One small all-gather; so all workers decide alike.
        """
        device = self.device
        square = torch.zeros(1, dtype=torch.float64, device=device)
        for _, bucket in self.pairs():
            square += bucket.norm.to(device)
        if unscale is not None:
            square *= unscale * unscale
        if found_inf is not None:
            square += torch.where(found_inf > 0, float("nan"), 0.0)
        square = self._sum_over_shards(square)
        table = self.collectives.table(torch.cat([square, square.new_tensor([self._settings_checksum()])]))
        squares, settings = table.unbind(dim=1)
        if (device.type == "cpu" or not self._is_settled) and bool((settings != settings[0]).any()):
            agree(self.collectives, self._facts())  # raises, and says which
        factor = torch.where(torch.isfinite(squares).all(), 1.0, float("nan"))
        if self.settings["max_grad_norm"] is not None:
            norm = squares.mean().sqrt()
            factor = torch.where(norm > self.settings["max_grad_norm"], self.settings["max_grad_norm"] / norm, factor)
        return factor.double()

    def _warm_up_step(self, factor: Tensor, unscale: Tensor | None) -> None:
        pending = [bucket.begin_average(unscale) for _, bucket in self.pairs()]
        t = self.steps + 1
        for (group, bucket), sum_pending in zip(self.pairs(), pending, strict=True):
            sum_pending.wait()
            bucket.adam(group, self._scalars(group, bucket, factor, *self._corrections(group, t)))

    def _compressed_step(self, factor: Tensor, unscale: Tensor | None) -> None:
        scale, first = self.settings["scale"], self.phase == FROZEN
        own = factor if unscale is None else factor * unscale
        work = []
        for group, bucket in self.pairs():
            correction = 1.0
            if self.settings["bias_correction"]:
                correction = 1 - torch.pow(group["betas"][0], self._applied + 1)
            scalars = self._scalars(group, bucket, own, correction)
            bucket.take_carried(group, scalars)
            work.append((bucket, scalars, bucket.begin_compressed(group, scalars, scale, first=first)))
        replies = []
        for bucket, scalars, messages in work:
            messages.wait()
            replies.append((bucket, scalars, bucket.begin_server(scalars, scale)))
        for bucket, scalars, reply in replies:
            reply.wait()
            bucket.apply(scalars)

    def _freeze_if_due(self) -> None:
        if self.phase != WARM_UP:
            return
        t = self.steps
        norm = None
        if self._freeze_rule.needs_norm:
            norms = [bucket.variance_norm().to(self.device) for _, bucket in self.pairs()]
            norm = float(self._sum_over_shards(torch.stack(norms).sum(dim=0)))
        if not self._freeze_rule.is_due(t, norm, max(group["betas"][1] for group in self.param_groups)):
            return
        for group, bucket in self.pairs():
            correction = self._corrections(group, t)[1]
            bucket.freeze(group, self.settings["variance_floor"], correction)
        self.phase, self.frozen_at = FROZEN, t
        total = sum(bucket.flat.numel for _, bucket in self.pairs())
        logger.info("variance frozen after step %d; %d of %d coordinates are dead", t, self._dead(), total)

    # --- small parts ---

    @property
    def collectives(self) -> Collectives:
        """The workers; looked up when first needed, for the group may be initialised after the optimizer was made."""
        if self._collectives is None:
            self._collectives = Collectives(self.process_group)
        return self._collectives

    @property
    def device(self) -> torch.device:
        """Where the small numbers of a step live: with the first parameter."""
        return local(self.param_groups[0]["params"][0]).device

    @property
    def steps(self) -> int:
        """Applied steps t. Waits for the device."""
        return int(self._applied)

    def pairs(self) -> Iterator[tuple[Group, Bucket]]:
        """Every bucket with its parameter group."""
        for group, buckets in zip(self.param_groups, self._groups_buckets, strict=True):
            for bucket in buckets:
                yield group, bucket

    def _make_buckets(self, group: Group) -> list[Bucket]:
        params = [param for param in group["params"] if param.requires_grad and local(param).numel()]
        self._left_out += [param for param in group["params"] if not param.requires_grad]
        self._applied = self._applied.to(self.device)
        return [
            Bucket(FlatParams(part), self.collectives, get_backend(self.backend, local(part[0]).device))
            for part in partition(params, self.settings["bucket_elements"])
        ]

    def _corrections(self, group: Group, t: int) -> tuple[float, float]:
        """1 - beta1^t and 1 - beta2^t, or 1 without bias correction [C5]."""
        if not self.settings["bias_correction"]:
            return 1.0, 1.0
        return 1 - group["betas"][0] ** t, 1 - group["betas"][1] ** t

    @staticmethod
    def _scalars(
        group: Group, bucket: Bucket, factor: Tensor, momentum_correction: Any = 1.0, variance_correction: Any = 1.0
    ) -> Tensor:
        """The scalars of a step (5,) as the kernels read them, filled in without waiting for the device."""
        scalars = torch.empty(N_SCALARS, device=bucket.flat.weights.device)
        values = (group["lr"], group["weight_decay"], momentum_correction, variance_correction, factor)
        for slot, value in zip(scalars, values, strict=True):
            slot.copy_(value) if isinstance(value, Tensor) else slot.fill_(value)
        return scalars

    def _loss_scale(self) -> tuple[Tensor | None, Tensor | None]:
        """1/scale of this worker's gradients and whether they overflowed, as GradScaler leaves them here, or None."""
        grad_scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        unscale = None if grad_scale is None else grad_scale.to(self.device).double().reciprocal()
        return unscale, None if found_inf is None else found_inf.to(self.device)

    def _sum_over_shards(self, values: Tensor) -> Tensor:
        """The sum over the ranks that hold the other shards of a model; the values themselves if it is not sharded."""
        for shards in shard_groups(self.param_groups, self.process_group):
            values = shards.table(values).sum(dim=0)
        return values

    def _settings_checksum(self) -> int:
        """Of what a schedule may change, in a number that float64 holds. A learning rate on a GPU is not looked at."""
        on_gpu = [isinstance(group["lr"], Tensor) and group["lr"].device.type != "cpu" for group in self.param_groups]
        values = [
            (0.0 if away else float(group["lr"]), group["betas"], group["eps"], group["weight_decay"])
            for group, away in zip(self.param_groups, on_gpu, strict=True)
        ]
        return zlib.crc32(repr(values).encode())

    def _facts(self) -> dict[str, Any]:
        """What the workers must agree on."""
        facts: dict[str, Any] = {"backend": self.backend, **self.settings}
        facts["the number of parameter groups"] = len(self.param_groups)
        for k, group in enumerate(self.param_groups):
            where = f" of group {k}" if len(self.param_groups) > 1 else ""
            for name in ("lr", "betas", "eps", "weight_decay"):
                value = group[name]
                facts[f"{name}{where}"] = float(value) if isinstance(value, Tensor) else value
            facts[f"the number of parameters{where}"] = len(group["params"])
            for j, param in enumerate(group["params"]):
                values = local(param)
                facts[f"the shape of parameter {j}{where}"] = tuple(values.shape)
                facts[f"the dtype of parameter {j}{where}"] = str(values.dtype)
                facts[f"requires_grad of parameter {j}{where}"] = param.requires_grad
        facts["the phase"] = self.phase
        facts["the number of applied steps"] = self.steps
        facts[PARAMETER_VALUES] = checksum(local(p) for group in self.param_groups for p in group["params"])
        if self.steps:
            facts["the momentum, variance or shared message (a checksum)"] = checksum(
                tensor
                for _, bucket in self.pairs()
                for tensor in (bucket.variance, bucket.momentum if self.phase == WARM_UP else bucket.shared)
            )
        return facts

    def _dead(self) -> int:
        """Dead coordinates, padding not counted."""
        return sum(bucket.flat.numel - int(bucket.live.sum()) for _, bucket in self.pairs())

    @contextmanager
    def _whole_or_broken(self) -> Iterator[None]:
        """A step that ends in the middle leaves a state that must not be used or saved."""
        try:
            yield
        except BaseException as error:
            self._broken = (
                f"this optimizer stopped in the middle of a step ({type(error).__name__}): load a checkpoint before "
                "going on"
            )
            raise

    def stats(self) -> Stats:
        """How the run is doing, as this worker sees it. Waits for the device; sends nothing."""
        frozen, compressed = self.phase != WARM_UP, self.phase == COMPRESSED
        buckets = [bucket for _, bucket in self.pairs()] if self._groups_buckets else []
        worker = [bucket.worker_error_D().double().square().sum() for bucket in buckets if compressed]
        server = [bucket.server_error_C().double().square().sum() for bucket in buckets if frozen]
        return Stats(
            phase=self.phase,
            step=self.steps,
            skipped_steps=self._calls - self.steps,
            frozen_at=self.frozen_at,
            bytes_sent=self.collectives.bytes_sent,
            bytes_last_step=self.collectives.bytes_sent - self._bytes_before,
            worker_error_norm=sum(float(square) for square in worker) ** 0.5,
            server_error_norm=sum(float(square) for square in server) ** 0.5,
            dead_coordinates=self._dead() if frozen else 0,
            ignored_gradients=sum(int(bucket.ignored) for bucket in buckets),
        )
