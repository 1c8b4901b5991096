"""A step, from gradients that are gathered to parameters that have moved. The optimizer and the hook both call these.

    gather -> numbers: skip? clip? -> warm-up:      all-reduce -> Adam
                                      compression:  compress -> all-to-all -> server -> all-gather -> apply

With the communication of one parcel under way while the next is compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from gpu_impl.optimizer.bucket import Group
from gpu_impl.optimizer.freeze import freeze_if_due
from gpu_impl.optimizer.numbers import Decision
from gpu_impl.optimizer.parcel import Parcel
from gpu_impl.optimizer.run import Phase, Run


def gather(run: Run) -> set[int]:
    """Take in all gradients; the numbers of the parameters that have none here."""
    missing: set[int] = set()
    for parcel in run.parcels:
        found = parcel.gather()
        if found:
            missing.update(parcel.numbers[k] for k in found)
    return missing


def take_step(run: Run, decision: Decision, unscale: Tensor | None) -> None:
    """Average, and move the parameters; nothing is done if the host knows that the step is skipped."""
    if isinstance(decision.factor, Tensor):  # the run is settled
        compressed_step(run, run.parcels, decision.factor, unscale)
        run.applied += torch.isfinite(decision.factor)
        return
    if not decision.is_applied:
        return
    frozen = [parcel for parcel in run.parcels if parcel.is_frozen]
    others = [parcel for parcel in run.parcels if not parcel.is_frozen]
    if others:
        adam_step(run, others, decision, unscale)
    if frozen:
        leave_out(frozen, decision.absent)
        compressed_step(run, frozen, decision.factor, unscale)
    count_step(run)


def count_step(run: Run) -> None:
    """The step is applied: count it, and freeze if this was T_w."""
    if run.phase is Phase.FROZEN:
        run.phase = Phase.COMPRESSED
    run.applied += 1
    if run.phase is Phase.WARM_UP:
        freeze_if_due(run)


def adam_step(run: Run, parcels: Iterable[Parcel], decision: Decision, unscale: Tensor | None) -> None:
    """A step of Adam along the mean of all workers' gradients."""
    for parcel in averaged(parcels, unscale):
        adam_on_average(run, parcel, decision)


def averaged(parcels: Iterable[Parcel], unscale: Tensor | None) -> Iterator[Parcel]:
    """Average the gradients over the workers in full precision: each parcel as soon as that is done."""
    parcels = list(parcels)
    pending = [parcel.begin_average(unscale) for parcel in parcels]
    for parcel, sum_pending in zip(parcels, pending, strict=True):
        sum_pending.wait()
        parcel.finish_average()
        yield parcel


def adam_on_average(run: Run, parcel: Parcel, decision: Decision) -> None:
    """The second half of :func:`adam_step`, once the average is there."""
    set_scalars(run, parcel, decision.factor)
    parcel.adam(places_of(parcel, decision.absent))


def leave_out(parcels: Iterable[Parcel], absent: frozenset[int]) -> None:
    """Pause the parameters that no worker has a gradient for, and go on with those that have one again."""
    for parcel in parcels:
        places = places_of(parcel, absent)
        for _, bucket in parcel.buckets:
            if places or bucket.paused:
                bucket.pause(places.get(id(bucket), set()))


def places_of(parcel: Parcel, numbers: frozenset[int]) -> dict[int, set[int]]:
    """The parameters with these numbers by bucket, as places in it."""
    places: dict[int, set[int]] = {}
    if numbers:
        for number, (bucket, k) in zip(parcel.numbers, parcel.places, strict=True):
            if number in numbers:
                places.setdefault(id(bucket), set()).add(k)
    return places


def compressed_step(run: Run, parcels: Iterable[Parcel], factor: Tensor | float, unscale: Tensor | None) -> None:
    """Compress, exchange, apply."""
    own = factor_of(factor, unscale)
    for parcel in exchanged(run, parcels, lambda parcel: set_scalars(run, parcel, own)):
        parcel.apply()


def factor_of(factor: Tensor | float, unscale: Tensor | None) -> Tensor | float:
    """What this worker multiplies its gradient with."""
    return factor if unscale is None else factor * (float(unscale) if isinstance(factor, float) else unscale)


def exchanged(run: Run, parcels: Iterable[Parcel], prepare: Callable[[Parcel], None]) -> Iterator[Parcel]:
    """Average over the workers by one bit a number: each parcel as soon as its replies are there.

    While one parcel is on the wire the next one is prepared and compressed.
    """
    scale, sent, answered = run.settings.scale, [], []
    for parcel in parcels:
        prepare(parcel)
        parcel.compress(scale)
        sent.append((parcel, parcel.begin_messages()))
    for parcel, messages in sent:
        messages.wait()
        parcel.serve(scale)
        answered.append((parcel, parcel.begin_replies()))
    for parcel, replies in answered:
        replies.wait()
        yield parcel


def set_scalars(run: Run, parcel: Parcel, factor: Tensor | float) -> None:
    """The scalars of the step to come; bias corrections count from the step in which a bucket began [C5]."""
    bias_correction = run.settings.bias_correction

    def numbers() -> list[tuple[Tensor | float, ...]]:
        rows = []
        for group, bucket in parcel.buckets:
            corrections = corrections_of(group, run.applied + 1 - bucket.began) if bias_correction else (1.0, 1.0)
            rows.append((group["lr"], group["weight_decay"], *corrections, factor))
        return rows

    written = None
    if isinstance(factor, float):
        written = (run.values_changed, run.applied if bias_correction else 0, factor)
    parcel.set_scalars(written, numbers)


def corrections_of(group: Group, t: Tensor | int) -> tuple[Tensor | float, Tensor | float]:
    """1 - beta1^t and 1 - beta2^t."""
    beta1, beta2 = group["betas"]
    if isinstance(t, int):
        return 1 - beta1**t, 1 - beta2**t
    return 1 - torch.pow(beta1, t), 1 - torch.pow(beta2, t)
