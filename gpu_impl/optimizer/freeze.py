"""After a warm-up step: was it the last? Then the variance is frozen, on all workers in the same step."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import torch
from torch import Tensor

from gpu_impl.optimizer.bucket import Group
from gpu_impl.optimizer.freeze_rule import PUBLISHED_RATIO, TOLERANCE, window_of
from gpu_impl.optimizer.numbers import over_shards
from gpu_impl.optimizer.run import Phase, Run

logger = logging.getLogger("onebit")


def freeze_if_due(run: Run) -> None:
    """Freeze the variance if the step that was just applied is T_w."""
    rule, t = run.freeze_rule, run.steps
    if rule.needs_norms:
        window = window_of(run.groups)
        rule.note(norms_of(run), window)
        due = rule.is_due(t, window, correction_of(run, window))
    else:
        due = t >= int(rule.freeze_step)
    if not due:
        return
    rule.norms = []
    for parcel in run.parcels:
        parcel.end_warm_up()
    freezing = [(group, bucket) for group, bucket in run.pairs() if bucket.freezes]
    for group, bucket in freezing:
        bucket.freeze(group, run.settings.variance_floor, variance_correction(run, group, bucket.began))
    for content in run.contents:
        if content.kind.freezes:
            made_with = float(content.group["eps"]), variance_correction(run, content.group, content.kind.began)
            content.kind = replace(content.kind, frozen_with=made_with)
    run.phase, run.frozen_at = Phase.FROZEN, t
    sizes = [(bucket.dead, bucket.flat.numel) for _, bucket in freezing]
    dead, total = (sum(column) for column in zip(*sizes, strict=True)) if sizes else (0, 0)
    level = logging.WARNING if total and dead == total else logging.INFO  # nothing would ever move again
    logger.log(level, "variance frozen after step %d; %d of %d coordinates have zero variance", t, dead, total)


def variance_correction(run: Run, group: Group, began: int) -> float:
    """1 - beta2^t for parameters that joined after ``began`` steps; 1 without bias correction [C5]."""
    return 1 - group["betas"][1] ** (run.steps - began) if run.settings.bias_correction else 1.0


def norms_of(run: Run) -> Tensor:
    """||v||_1 of every parameter (n,) float64 on the host, over all shards; 0 of one that does not freeze.

    Rank 0's, for another processor may round a sum in another way, and all must decide alike.
    """
    norms_n = torch.zeros(sum(len(group["params"]) for group in run.groups), dtype=torch.float64, device=run.device)
    for parcel in run.parcels:
        found = [bucket.variance_norms().to(run.device) for _, bucket in parcel.buckets if bucket.freezes]
        if found:
            norms_n[parcel.numbers] = torch.cat(found)
    return over_shards(run, run.collectives.table(norms_n)[0]).cpu()


def correction_of(run: Run, window: int) -> Tensor:
    """(1 - beta2^(t-Delta)) / (1 - beta2^t) of every parameter (n,) float64, t counted since it joined."""
    correction_n = torch.ones(sum(len(group["params"]) for group in run.groups), dtype=torch.float64)
    for content in run.contents:
        beta2, t = content.group["betas"][1], run.steps - content.kind.began
        if t > window:
            correction_n[content.numbers] = (1 - beta2 ** (t - window)) / (1 - beta2**t)
    return correction_n


def freeze_diagnosis(run: Run) -> str:
    """Whether the variance is frozen, and if not, when it will be or what still moves, in one sentence."""
    step = f"step {run.steps:,}"
    if run.frozen_at:
        return f"frozen at step {run.frozen_at:,}"
    if not run.freeze_rule.needs_norms:
        last = int(run.freeze_rule.freeze_step)
        if last <= run.steps:  # from a checkpoint of another program, or with a smaller freeze_step
            told = f"freeze_step={last:,} is over, so the next step ends the warm-up"
            return f"{step}: what was loaded is not frozen; {told}"
        return f"{step}: the warm-up ends after step {last:,}"
    if any(group["betas"][1] >= 1 for group in run.groups):
        return f"{step}: beta2 has a value that is not allowed, which the next step refuses"
    return _what_it_waits_for(run, step)


def _what_it_waits_for(run: Run, step: str) -> str:
    """Why the rule has not ended the warm-up."""
    rule, window = run.freeze_rule, window_of(run.groups)
    if rule.is_too_early(window):
        was_zero = run.steps >= len(rule.norms) > window  # what was loaded is filled up with zeros
        why = f"v was 0 {window:,} steps ago" if was_zero else f"norms are compared over {window:,} steps"
        return f"{step}: too early to tell, {why}"
    correction_n = correction_of(run, window)
    if rule.is_due(max(run.steps, rule.lr_warmup_steps), window, correction_n):
        told = "is not over" if run.steps < rule.lr_warmup_steps else "is over, so the next step may end the warm-up"
        return f"{step}: v has settled; lr_warmup_steps={rule.lr_warmup_steps:,} {told}"
    advice = "a smaller beta2 has a shorter window, an integer as freeze_step needs no rule"
    if rule.freeze_step == "paper":
        before, after = rule.totals()
        return (
            f"{step}: v still falls: its norm is {after / before:.2f} of what it was {window:,} steps ago, and "
            f"{PUBLISHED_RATIO} would end the warm-up; {advice}"
        )
    moved_n = rule.changes(correction_n)
    restless, worst = int((moved_n.abs() > TOLERANCE).sum()), int(moved_n.abs().argmax())
    watched = sum(len(content.numbers) for content in run.contents if content.kind.freezes)
    most = float(moved_n[worst])
    how_far = f"by {most:+.1%}" if math.isfinite(most) else "which was 0 then"
    return (
        f"{step}: v has not settled: over the last {window:,} steps {restless} of {watched} parameters moved by more "
        f"than {TOLERANCE:.0%}, {_name_of(run, worst)} most, {how_far}; {advice}"
    )


def _name_of(run: Run, number: int) -> str:
    """The name of a parameter, where the optimizer was given names."""
    names = [name for group in run.groups for name in group.get("param_names", [""] * len(group["params"]))]
    return names[number] or f"parameter {number}"
