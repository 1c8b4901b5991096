"""Were the gradients clipped before ``step()``, each worker's by its own norm? Then their mean is biased.

Nothing says so afterwards. But clipping writes to the gradients after autograd has, and leaves the norms of all workers
that were clipped equal, up to rounding. Both, in two steps one after another, do not happen by chance.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from torch import Tensor
from torch.distributed.tensor import DTensor

EQUAL = 1e-5
"""Relative difference of two norms that were clipped to the same: clipping rounds in float32."""

ADVICE = (
    "the gradients were clipped between backward() and step(), each worker's by its own norm, which biases their mean: "
    "leave that out (with Hugging Face's Trainer by max_grad_norm=0, with Lightning by gradient_clip_val=None) and "
    "give the optimizer max_grad_norm, which clips all workers by one factor"
)


class ClippingWatch:
    """Watches one parameter, the largest; clipping writes to the gradients of all."""

    def __init__(self) -> None:
        self._watched: weakref.ref[Tensor] | None = None
        self._version = -1
        self._in_a_row = 0

    def watch(self, params: Iterable[Tensor]) -> None:
        """Note when autograd writes to the gradient of one of these, which all need one."""
        param = max(params, key=Tensor.numel, default=None)
        if param is None or isinstance(param, DTensor) or (self._watched is not None and self._watched() is param):
            return
        self._watched, watch = weakref.ref(param), weakref.ref(self)

        def note(watched: Tensor) -> None:
            one = watch()
            if one is not None and watched.grad is not None:
                one._version = watched.grad._version

        param.register_post_accumulate_grad_hook(note)

    @property
    def was_written(self) -> bool:
        """Whether somebody wrote to the gradient after autograd."""
        param = None if self._watched is None else self._watched()
        return (
            param is not None and param.grad is not None and self._version >= 0 and param.grad._version != self._version
        )

    def check(self, norms: list[float]) -> None:
        """Look at the norms of all workers before a step is taken.

        Raises:
            RuntimeError: the gradients were clipped.
        """
        if len(norms) < 2 or not self.was_written:
            self._in_a_row = 0
            return
        second, largest = sorted(norms)[-2:]
        self._in_a_row = self._in_a_row + 1 if 0 < largest - second <= EQUAL * largest else 0
        if self._in_a_row > 1:
            raise RuntimeError(ADVICE)
