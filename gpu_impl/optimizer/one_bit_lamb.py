"""1-bit LAMB for training: Algorithm 1 of Li et al. 2021 (HiPC 2022, arXiv 2104.06069), as docs/family.md means it.

A layer is a parameter. w = P m + lambda x is its update, c its trust ratio, s its scale:

    warm-up      m, v as in Adam      c = ||x|| / ||w||, in a range      x <- x - gamma c w
                 c-bar <- 0.9 c-bar + 0.1 c
    freeze       v' = v      s = (mean of RMS(m) over the layers) / RMS(m), 1 where that is 0
    compressed   m-bar <- (compressed average of s (beta1 m-bar + (1-beta1) g)) / s
                 g' = (m-bar - beta1 m-bar before) / (1-beta1)      v' <- beta2 v' + (1-beta2) g'^2
                 r <- max (sqrt(v) + eps) / (sqrt(v') + eps), cut to [0.5, 4], then to within 10 % of the last r
                 x <- x - gamma c-bar r w

Errors are in units of s m. Beside 1-bit Adam's names the state of a parameter has ``fresh_variance`` (v'),
``trust_mean`` (c-bar), ``last_ratio`` (r) and ``layer_scale`` (s). All workers take rank 0's c, for another processor
may round a sum in another way; r is a maximum, which has no order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Never

import torch
from torch import Tensor
from torch import distributed as dist
from torch.optim.optimizer import ParamsT

from gpu_impl.kernels.state import F32, F64
from gpu_impl.optimizer.bucket import Bucket, Group
from gpu_impl.optimizer.lamb_bucket import LambBucket
from gpu_impl.optimizer.numbers import Decision, over_shards
from gpu_impl.optimizer.parcel import Parcel
from gpu_impl.optimizer.run import Run
from gpu_impl.optimizer.settings import (
    DEFAULT_BUCKET_ELEMENTS,
    DEFAULT_VARIANCE_FLOOR,
    Settings,
    check_number,
    refuse_more,
)
from gpu_impl.optimizer.state import ParamState
from gpu_impl.optimizer.stepping import SteppingOptimizer
from gpu_impl.optimizer.steps import averaged, count_step, exchanged, factor_of, leave_out, places_of, set_scalars


@dataclass(frozen=True)
class LambSettings(Settings):
    """What holds for a whole run of :class:`OneBitLamb`."""

    min_trust: float = 0.01
    max_trust: float = 10.0
    trust_decay: float = 0.9
    min_ratio: float = 0.5
    max_ratio: float = 4.0
    ratio_change: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("trust_decay", "ratio_change"):
            check_number(name, getattr(self, name))
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} must be below 1, got {getattr(self, name)!r}")
        for what in ("trust", "ratio"):
            low, high = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            check_number(f"min_{what}", low)
            check_number(f"max_{what}", high)
            if high < low:
                raise ValueError(f"max_{what} must be at least min_{what}, {low!r}, got {high!r}")


class OneBitLamb(SteppingOptimizer):
    """LAMB that sends one bit a coordinate once its variance is frozen; a layer is a parameter.

    As :class:`gpu_impl.OneBitAdam` it averages gradients over the workers itself.

    Args:
        params: parameters, named parameters or parameter groups, float32, bfloat16 or float16. A group may have
            ``non_freeze=True``: it stays with LAMB and full gradients.
        lr, betas, eps, weight_decay: as in :class:`gpu_impl.OneBitAdam`; the decay is part of the update whose norm
            enters the trust ratio.
        freeze_step, scale, variance_floor, bias_correction, max_grad_norm, process_group, backend, lr_warmup_steps,
        scale_block, bucket_elements: as in :class:`gpu_impl.OneBitAdam`.
        min_trust, max_trust: the range of c.
        trust_decay: decay of c-bar, in [0, 1). As published c-bar begins at 0.
        min_ratio, max_ratio, ratio_change: the range of r, and its largest relative change in a step.

    Raises:
        ValueError, TypeError: an argument is not of this kind; the message names it.
    """

    bucket: ClassVar[type[Bucket]] = LambBucket

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
        scale_block: int | None = None,
        min_trust: float = 0.01,
        max_trust: float = 10.0,
        trust_decay: float = 0.9,
        min_ratio: float = 0.5,
        max_ratio: float = 4.0,
        ratio_change: float = 0.1,
        **more: Never,
    ) -> None:
        refuse_more(self, more)
        settings = LambSettings(
            freeze_step,
            scale,
            variance_floor,
            bias_correction,
            max_grad_norm,
            lr_warmup_steps,
            bucket_elements,
            scale_block=scale_block,
            min_trust=min_trust,
            max_trust=max_trust,
            trust_decay=trust_decay,
            min_ratio=min_ratio,
            max_ratio=max_ratio,
            ratio_change=ratio_change,
        )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, settings, backend, process_group)

    def check_state_dict(self, state_dict: dict[str, Any]) -> tuple[list[Any], dict[int, ParamState]]:
        groups, states = super().check_state_dict(state_dict)
        settings = self.run.settings
        assert isinstance(settings, LambSettings)
        # r begins at 1 and moves into its range step by step; c-bar is a mean of numbers in the range of c, and each
        # step rounds it four times in float32
        rounding = 4 * 2.0**-24 / (1 - settings.trust_decay)
        ranges = {
            "last_ratio": (min(settings.min_ratio, 1.0), max(settings.max_ratio, 1.0), "min_ratio and max_ratio"),
            "trust_mean": (0.0, settings.max_trust * (1 + rounding), "max_trust"),
        }
        for number, state in states.items():
            for name, (least, most, whose) in ranges.items():
                value = float(state[name])
                least_32, most_32 = torch.tensor([least, most], dtype=F32).tolist()
                if not least_32 <= value <= most_32:
                    raise ValueError(
                        f"{name} of parameter {number} is {value:g} in the state, beyond {whose} of this optimizer: "
                        "the state is damaged, or of a run with another range, which must be given here too"
                    )
        return groups, states

    def take_step(self, decision: Decision, unscale: Tensor | None) -> None:
        if not decision.is_applied:
            return
        run = self.run
        frozen = [parcel for parcel in run.parcels if parcel.is_frozen]
        others = [parcel for parcel in run.parcels if not parcel.is_frozen]
        _lamb_step(run, others, decision, unscale)
        leave_out(frozen, decision.absent)
        _compressed_step(run, frozen, float(factor_of(decision.factor, unscale)), decision.absent)
        was_warm_up = not run.is_frozen
        count_step(run)
        if was_warm_up and run.is_frozen:
            _set_layer_scales(run)


Buckets = Iterable[tuple[list[int], Group, LambBucket]]


def _buckets_of(parcels: Iterable[Parcel]) -> Buckets:
    """Every bucket with its group and with the numbers of its parameters in the run."""
    for parcel in parcels:
        for numbers, group, bucket in parcel.numbered_buckets():
            assert isinstance(bucket, LambBucket)
            yield numbers, group, bucket


def _lamb_step(run: Run, parcels: list[Parcel], decision: Decision, unscale: Tensor | None) -> None:
    """A step of LAMB along the mean of all workers' gradients, for all parameters but those that are absent."""
    if not parcels:
        return
    factor, squares_n2 = float(decision.factor), _table(run, 2)
    kept: list[tuple[Tensor, Tensor]] = []
    for parcel in averaged(parcels, unscale):
        set_scalars(run, parcel, factor)
        places, means = places_of(parcel, decision.absent), parcel.means()
        kept += [pair for _, _, bucket in _buckets_of([parcel]) for pair in bucket.saved(places.get(id(bucket), set()))]
        pairs = zip(_buckets_of([parcel]), means, strict=True)
        key = [parcel.has_average, *((tuple(group["betas"]), group["eps"]) for group, _ in parcel.buckets)]
        parcel.run("lamb_moments", key, lambda pairs=pairs: [one.moments_call(g, mean) for (_, g, one), mean in pairs])
        for numbers, _, bucket in _buckets_of([parcel]):
            squares_n2[numbers] = bucket.squares.to(run.device)
    squares_n2 = over_shards(run, run.collectives.table(squares_n2.flatten())[0]).view(-1, 2)
    trust_n = torch.tensor([_trust(run, x, r) for x, r in squares_n2.tolist()], dtype=F32)
    decay = run.settings.trust_decay  # pyright: ignore[reportAttributeAccessIssue] - LambSettings
    taking_part = _numbers_in(run, frozen=False, absent=decision.absent)
    mean_n = run.numbers("trust_mean")
    mean_n[taking_part] = (decay * mean_n.to(F32) + (1 - decay) * trust_n.to(run.device)).to(F64)[taking_part]
    for parcel in parcels:
        _move(parcel, trust_n)
    for target, values in kept:
        target.copy_(values)
    for parcel in parcels:
        parcel.publish()


def _compressed_step(run: Run, parcels: list[Parcel], factor: float, absent: frozenset[int]) -> None:
    """Average s m by one bit a number, refresh v' and r, and move."""
    if not parcels:
        return
    ratio_n, scale_n = _table(run, 1).view(-1), run.numbers("layer_scale")

    def form(parcel: Parcel) -> None:
        set_scalars(run, parcel, 1.0)
        ours = list(_buckets_of([parcel]))
        for numbers, _, bucket in ours:
            bucket.scale.copy_(scale_n[numbers])
        key = [factor, *((group["betas"][0], bucket.where()) for _, group, bucket in ours)]
        grads = parcel.gradients
        parcel.run(
            "lamb_form", key, lambda: [one.form_call(g, grads.of(k), factor) for k, (_, g, one) in enumerate(ours)]
        )

    for parcel in exchanged(run, parcels, form):
        parcel.decode()
        ours = list(_buckets_of([parcel]))
        key = [(tuple(group["betas"]), bucket.where()) for _, group, bucket in ours]
        parcel.run("lamb_refresh", key, lambda ours=ours: [bucket.refresh_call(group) for _, group, bucket in ours])
        for numbers, _, bucket in ours:
            ratio_n[numbers] = bucket.largest.to(run.device)
    for shards in run.shards:
        ratio_n = shards.table(ratio_n).amax(dim=0)
    settings: Any = run.settings
    last_n = run.numbers("last_ratio").to(F32)
    least_n, most_n = last_n * (1 - settings.ratio_change), last_n * (1 + settings.ratio_change)
    ratio_n = ratio_n.clamp(settings.min_ratio, settings.max_ratio).clamp(least_n.double(), most_n.double())
    taking_part = _numbers_in(run, frozen=True, absent=absent)
    run.numbers("last_ratio")[taking_part] = ratio_n.to(F32).to(F64)[taking_part]
    trust_n = run.numbers("trust_mean").to(F32) * run.numbers("last_ratio").to(F32)
    for parcel in parcels:
        _move(parcel, trust_n)
        parcel.publish()


def _move(parcel: Parcel, trust_n: Tensor) -> None:
    """The second pass: every parameter moves along its update, times its number of ``trust_n`` (n,)."""
    ours = list(_buckets_of([parcel]))
    for numbers, _, bucket in ours:
        bucket.trust.copy_(trust_n[numbers])
    key = [(group["eps"], bucket.where()) for _, group, bucket in ours]
    parcel.run("lamb_move", key, lambda: [bucket.move_call(group) for _, group, bucket in ours])


def _set_layer_scales(run: Run) -> None:
    """The scale s of every layer, right after the freeze: one magnitude then stands for all layers."""
    parcels = [parcel for parcel in run.parcels if parcel.is_frozen]
    sums_n2 = _table(run, 2)
    for numbers, _, bucket in _buckets_of(parcels):
        squares = bucket.layers.reduce(bucket.mean_momentum.double().square(), "sum")
        sizes = torch.tensor([bucket.flat.view_of(bucket.flat.master, k).numel() for k in range(len(numbers))])
        sums_n2[numbers] = torch.stack([squares, sizes.to(squares)], dim=1).to(run.device)
    sums_n2 = over_shards(run, run.collectives.table(sums_n2.flatten())[0]).view(-1, 2)
    rms = [math.sqrt(square) / size**0.5 if size else 0.0 for square, size in sums_n2.tolist()]
    frozen = _numbers_in(run, frozen=True)
    sized = [number for number in frozen if sums_n2[number, 1] > 0]
    common = sum(rms[number] for number in sized) / max(1, len(sized))
    scales = [common / rms[number] if rms[number] > 0 else 1.0 for number in sized]
    run.numbers("layer_scale")[sized] = torch.tensor(scales, dtype=F32).to(run.device, F64)


def _numbers_in(run: Run, *, frozen: bool, absent: frozenset[int] = frozenset()) -> list[int]:
    """The parameters that are compressed in this step, or those that are not; without those that are absent."""
    some = [content for content in run.contents if (run.is_frozen and content.kind.freezes) == frozen]
    return sorted({number for content in some for number in content.numbers} - absent)


def _table(run: Run, columns: int) -> Tensor:
    """Zeros, a row for every parameter of the run (n, columns) float64."""
    n = sum(len(group["params"]) for group in run.groups)
    return torch.zeros(n, columns, dtype=F64, device=run.device)


def _trust(run: Run, x_square: float, w_square: float) -> float:
    """The trust ratio c from the squares of ||x|| and ||w||: 1 where one of them is 0."""
    settings: Any = run.settings
    ratio = math.sqrt(x_square) / math.sqrt(w_square) if x_square > 0 and w_square > 0 else 1.0
    return min(max(ratio, settings.min_trust), settings.max_trust)
