"""Do all workers run the same thing? Asked before the first step, after a load, and when a setting changes on one.

Replicas that begin apart, or move by different learning rates, stay apart for good and nothing else would tell.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from gpu_impl.collectives import Collectives


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


PARAMETER_VALUES = "the values of the parameters (a checksum)"

ADVICE = {
    PARAMETER_VALUES: "; before the first step send rank 0's to all, with torch.distributed.broadcast(p.data, "
    "src=0) for every p, or load the same checkpoint everywhere"
}


def checksum(tensors: Iterable[Tensor]) -> int:
    """CRC-32 of the bytes of ``tensors``, one after another."""
    total = 0
    for tensor in tensors:
        flat = tensor.detach().contiguous().view(-1)
        for part in flat.split(2**24):  # what has to cross from a device at once
            total = zlib.crc32(part.cpu().view(torch.uint8).numpy().data, total)
    return total
