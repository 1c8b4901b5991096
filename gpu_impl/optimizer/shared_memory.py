"""Parameters that lie in one memory, or in themselves: an update of one would have to be one of the other.

Every parameter gets a place of its own in a flat buffer. Two that shared memory would come apart there, each with its
own value, where ``torch.optim`` updates one through the other.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from gpu_impl.optimizer.flat_params import local


def check_memory(params: Iterable[Tensor]) -> None:
    """Whether every element of every parameter has an address of its own.

    Raises:
        ValueError: two parameters share memory, or are one; or one is expanded, or overlaps itself.
    """
    taken: list[tuple[int, int, int, Tensor]] = []
    numbers: dict[int, int] = {}
    for number, param in enumerate(params):
        if (first := numbers.setdefault(id(param), number)) != number:
            raise ValueError(
                f"parameters {first} and {number} are one, given twice, as tied weights are in "
                "[*encoder.parameters(), *decoder.parameters()]: give each once, as in dict.fromkeys(params)"
            )
        values = local(param)
        if values.is_meta or not values.numel():
            continue
        if _overlaps_itself(values):
            raise ValueError(
                f"parameter {number} is expanded, or overlaps itself: its elements share memory, so give a .clone()"
            )
        begin = values.data_ptr()
        length = 1 + sum(stride * (size - 1) for stride, size in zip(values.stride(), values.shape, strict=True))
        taken.append((begin, begin + length * values.element_size(), number, values))
    taken.sort(key=lambda one: one[:3])
    for k, (_, end, number, values) in enumerate(taken):
        for begin, _, other, more in taken[k + 1 :]:
            if begin >= end:
                break
            if values.device == more.device and _share(values, more):
                first, second = sorted((number, other))
                raise ValueError(
                    f"parameters {first} and {second} share memory but are two: make them one, as in "
                    "a.weight = b.weight, or give one of them a .clone()"
                )


def _overlaps_itself(values: Tensor) -> bool:
    """Whether two elements have one address; none have where each stride steps over all that is inside."""
    inside = 0
    for stride, size in sorted(zip(values.stride(), values.shape, strict=True)):
        if size > 1 and stride <= inside:
            return stride == 0 or len(_addresses(values, values.data_ptr()).unique()) < values.numel()
        inside += stride * (size - 1)
    return False


def _share(one: Tensor, other: Tensor) -> bool:
    """Whether an address is in both; interleaved slices of one tensor have none."""
    first = min(one.data_ptr(), other.data_ptr())
    return bool(torch.isin(_addresses(one, first), _addresses(other, first)).any())


def _addresses(tensor: Tensor, first: int) -> Tensor:
    """The address of every element, in bytes from ``first``, on the CPU."""
    found = torch.zeros(1, dtype=torch.int64)
    for stride, size in zip(tensor.stride(), tensor.shape, strict=True):
        found = (found[:, None] + stride * torch.arange(size)[None, :]).view(-1)
    return found * tensor.element_size() + (tensor.data_ptr() - first)
