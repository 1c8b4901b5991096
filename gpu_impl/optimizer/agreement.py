"""Do all workers run the same thing? Asked before the first step, after a load, and when a setting changes on one.

Replicas that begin apart, or move by different learning rates, stay apart for good and nothing else would tell.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from gpu_impl.optimizer.collectives import ASKS, Collectives
from gpu_impl.optimizer.flat_params import local, slowest_first
from gpu_impl.optimizer.run import Run


class WorkersDisagreeError(RuntimeError):
    """The workers have different settings, shapes or parameters; the message names the first difference."""


def agree(collectives: Collectives, facts: Mapping[str, Any]) -> None:
    """Compare ``facts`` over all workers; the first that differs is reported on all of them alike.

    Raises:
        WorkersDisagreeError: some differ.
    """
    tables = collectives.objects(dict(facts))
    names = list(dict.fromkeys(name for table in tables for name in table))
    for name in names:
        values = [table.get(name, "nothing") for table in tables]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise WorkersDisagreeError(
                f"the workers must agree on {name}: rank 0 has {values[0]!r}, rank {other} has {values[other]!r}"
                + ADVICE.get(name, "")
            )


def meet(run: Run, occasion: str) -> None:
    """Wait for all workers before something that is no step: those that begin a step instead are told.

    Raises:
        WorkersDisagreeError: another worker is about to do something else.
    """
    run.collectives.where = f" of {occasion}"
    if run.collectives.n_workers > 1:
        counted = run.collectives.bytes_sent
        run.collectives.table(torch.tensor([0.0, ASKS, 0.0], dtype=torch.float64, device=run.device))
        run.collectives.bytes_sent = counted  # of steps
        same_occasion(run.collectives, occasion)


def tell_failure(run: Run, error: Exception) -> None:
    """This worker can't begin a step: tell those that do, who would wait for it until the group's timeout.

    Where they do not listen nobody is told: on a GPU after the first compressed step, and between shards of a model.
    """
    with suppress(RuntimeError, ValueError):  # there may be no group; and it is the error that is news here
        if not run.shards and (run.device.type == "cpu" or not run.is_settled):
            meet(run, f"{FAILED}{error}")


def same_occasion(collectives: Collectives, occasion: str) -> None:
    """Compare what the workers are about to do, after one of them has asked.

    Raises:
        WorkersDisagreeError: not the same, or one of them can't.
    """
    told = collectives.objects(occasion)
    for rank, one in enumerate(told):
        if one.startswith(FAILED):
            raise WorkersDisagreeError(f"rank {rank} could not take the step: {one.removeprefix(FAILED)}")
    other = next((rank for rank, one in enumerate(told) if one != told[0]), None)
    if other is not None:
        raise WorkersDisagreeError(
            f"rank 0 called {told[0]} and rank {other} called {told[other]}: all workers must call the same, in the "
            "same order"
        )


STEP, FAILED = "step()", "a step that failed: "

PARAMETER_VALUES = "the values of the parameters (a checksum)"
NUMBER = "which of a process's optimizers this is"
SHARED_STATE = "variance and momentum (a checksum)"
NORMS_OF_V = "norms of the variance (a checksum)"

ADVICE = {
    NUMBER: "; all workers must make the optimizers of a process group, and step them, in the same order",
    PARAMETER_VALUES: "; before the first step, and where you change them, send rank 0's to all, with "
    "torch.distributed.broadcast(p.data, src=0) for every p, or load the same checkpoint everywhere",
}


def checksum(tensors: Iterable[Tensor]) -> int:
    """CRC-32 of the bytes of ``tensors``, one after another."""
    total = 0
    for tensor in tensors:
        whole = tensor.detach().contiguous()
        flat = whole.as_strided((whole.numel(),), (1,))  # of at most one element any stride is contiguous, 0 too
        for part in flat.split(2**24):  # what has to cross from a device at once
            total = zlib.crc32(part.cpu().view(torch.uint8).numpy().data, total)
    return total


def _common_values(run: Run) -> list[Tensor]:
    """The values of all parameters that the workers share: where they last met, for an algorithm in which they part."""
    shared: dict[int, Tensor] = {}
    for _, bucket in run.pairs():
        common = bucket.common_D()
        if common is not None:
            shared |= {id(param): bucket.flat.view_of(common, k) for k, param in enumerate(bucket.flat.params)}
    return [shared.get(id(param), local(param)) for group in run.groups for param in group["params"]]


def facts_of(run: Run) -> dict[str, Any]:
    """What the workers of a run must agree on, in the order in which it is told."""
    facts: dict[str, Any] = {NUMBER: run.number, "the optimizer": run.names.optimizer, **vars(run.settings)}
    facts["the number of workers of a node"] = run.collectives.n_workers // run.collectives.size
    joined = {id(param) for content in run.contents for param in content.params}
    facts["the number of parameter groups"] = len(run.groups)
    for k, group in enumerate(run.groups):
        where = f" of group {k}" if len(run.groups) > 1 else ""
        facts[f"lr{where}"] = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        facts[f"betas{where}"] = tuple(group["betas"])
        for name in ("eps", "weight_decay"):
            facts[name + where] = group[name]
        facts[f"non_freeze{where}"] = group.get("non_freeze", False)
        facts[f"the number of parameters{where}"] = len(group["params"])
        for j, name in enumerate(group.get("param_names", ())):
            facts[f"the name of parameter {j}{where}"] = name
        for j, param in enumerate(group["params"]):
            values = local(param)
            facts[f"the shape of parameter {j}{where}"] = tuple(values.shape)
            facts[f"the dtype of parameter {j}{where}"] = str(values.dtype)
            facts[f"requires_grad of parameter {j}{where}"] = id(param) in joined
            if id(param) in joined:  # in a buffer its elements lie as in its own memory
                facts[f"the memory format of parameter {j}{where}"] = slowest_first(values)
    facts["the number of applied steps"] = run.steps
    facts["the phase"] = str(run.phase)
    facts["which parameters lie in one buffer"] = [content.row(0) for content in run.contents]
    # "auto" may find others elsewhere
    facts["the kernels"] = sorted({bucket.backend.name for _, bucket in run.pairs()})
    facts[PARAMETER_VALUES] = checksum(_common_values(run))
    if run.steps:
        shared = [(bucket.variance, bucket.momentum_D()) for _, bucket in run.pairs()]
        facts[SHARED_STATE] = checksum(tensor for pair in shared for tensor in pair)
        facts[NORMS_OF_V] = checksum(run.freeze_rule.norms)
    return facts
