"""Some parameters as one flat buffer: where each lies, and how updates get back to the model.

A plain parameter's ``.data`` lies in the flat buffer, with a storage of its own, so an update needs no copy. The local
shard of a DTensor belongs to its framework (FSDP2): it is copied in before a step and out after it. Parameters of 16
bits have a float32 master copy, which the kernels update; the model sees it rounded. The kernels also look whether the
model still holds what they rounded, and go on from what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef

from gpu_impl.kernels.flat_buffer import flat_buffer

ALIGNMENT = 8
"""Elements. Every parameter starts at a multiple, 16 bytes or more, which matrix kernels want. What lies between is
padding: it never has a gradient, so it is dead [C6, L8]."""


class FlatParams:
    """Parameters of one dtype on one device.

    Args:
        params: the parameters, none of them empty.

    Attributes:
        params: the parameters.
        slots: the slice of the buffer that belongs to each.
        dim: D, length of the buffer, padding included.
        weights: the parameters (D,), of their dtype.
        master: float32 (D,): ``weights`` itself, or the master copy of 16-bit weights.
        homes: addresses of the parameters in ``weights``.
        on_leave: called when ``weights`` has become new memory.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)
        self.slots = slots_of(self.params)
        self.dim = self.slots[-1].stop
        first = local(self.params[0])
        self.weights = flat_buffer(self.dim, first.dtype, first.device)
        self.is_narrow = first.dtype != torch.float32
        self.master = flat_buffer(self.dim, torch.float32, first.device) if self.is_narrow else self.weights
        self.is_sharded = isinstance(self.params[0], DTensor)
        self._lent: list[StorageWeakRef | None] = [None] * len(self.params)
        self.on_leave: Callable[[], None] = lambda: None
        self._lay_out()
        self.adopt()
        if self.is_narrow:
            self.master.copy_(self.weights)

    def views_of(self, flat: Tensor) -> list[Tensor]:
        """A view of each parameter's slot, in its shape and order of elements."""
        return [self.view_of(flat, k) for k in range(len(self.params))]

    def view_of(self, flat: Tensor, k: int) -> Tensor:
        """The view of parameter k alone."""
        values = local(self.params[k])
        return flat[self.slots[k]].as_strided(values.shape, dense_strides(values))

    @property
    def numel(self) -> int:
        """Elements without padding."""
        return sum(local(param).numel() for param in self.params)

    @property
    def sizes(self) -> list[int]:
        """Elements of each slot with the padding behind it."""
        starts = [slot.start for slot in self.slots]
        return [end - start for start, end in pairwise([*starts, self.dim])]

    @property
    def params_copy(self) -> Tensor | None:
        """The kernels' argument of that name: the 16-bit weights, if there is a master copy."""
        return self.weights if self.is_narrow else None

    def adopt(self) -> None:
        """Take over the values of parameters whose ``.data`` points elsewhere; others are in ``weights`` already.

        Where somebody keeps the memory that such a parameter had, its values stay: ``weights`` becomes new memory.

        Raises:
            RuntimeError: a parameter changed its shape, dtype or device.
            ValueError: it was put into shared memory.
        """
        if not self.is_sharded:
            here = [param.data_ptr() for param in self.params]
            if here == self.homes:
                return
            of_moved = [lent for lent, at, home in zip(self._lent, here, self.homes, strict=True) if at != home]
            if any(lent is not None and not lent.expired() for lent in of_moved):
                self._leave()
        for k, param in enumerate(self.params):
            self._adopt(k, param)

    def _leave(self) -> None:
        """Go on in new memory."""
        kept, self.weights = self.weights, flat_buffer(self.dim, self.weights.dtype, self.weights.device)
        self.weights.copy_(kept)  # all of it: a parameter may be refused before it has been taken over
        self.master = self.master if self.is_narrow else self.weights
        self._lay_out()
        self.on_leave()

    def _lay_out(self) -> None:
        """Note where each parameter belongs in ``weights``."""
        self._views = self.views_of(self.weights)
        self.homes = [view.data_ptr() for view in self._views]

    def _adopt(self, k: int, param: Tensor) -> None:
        values, view = local(param), self._views[k]
        if values.shape != view.shape or values.dtype != view.dtype or values.device != view.device:
            raise RuntimeError(
                f"a parameter was {view.dtype} {tuple(view.shape)} on {view.device} when the optimizer took it "
                f"over and is {values.dtype} {tuple(values.shape)} on {values.device} now: move or convert a model "
                "before its first step, or make a new optimizer"
            )
        if values.data_ptr() == view.data_ptr():
            return
        refuse_shared(param)
        view.copy_(values)
        if not self.is_sharded:
            param.data = with_own_storage(self.weights[self.slots[k]]).as_strided(view.shape, view.stride())
            self._lent[k] = StorageWeakRef(param.untyped_storage())

    def master_D(self) -> Tensor:
        """The master copy (D,), a copy; what the model holds, where somebody has changed that."""
        self.adopt()
        return torch.where(self.master.to(self.weights.dtype) == self.weights, self.master, self.weights.float())

    def put(self, values: Tensor) -> None:
        """New values (D,) float32."""
        self.master.copy_(values)
        if self.is_narrow:
            self.weights.copy_(values)

    def publish(self) -> None:
        """Copy the weights back into the parameters that don't view them."""
        if self.is_sharded:
            shards = [local(param) for param in self.params]
            torch._foreach_copy_(shards, self._views)  # pyright: ignore[reportPrivateImportUsage]


def slowest_first(values: Tensor) -> str:
    """In which order the elements lie in a buffer: dimensions longer than 1, the slowest first."""
    strides = dense_strides(values)
    order = sorted((k for k, size in enumerate(values.shape) if size > 1), key=lambda k: -strides[k])
    return f"dimensions {', '.join(map(str, order))}, the slowest first" if order else "one element"


def dense_strides(values: Tensor) -> tuple[int, ...]:
    """Strides without gaps: its own where it has none, as in channels_last; else row by row, as DDP's are then."""
    strides = torch.empty_like(values, device="meta").stride()  # keeps strides that have no gaps
    return strides if strides == values.stride() else torch.empty(values.shape, device="meta").stride()


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds, without autograd."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor.detach()


def refuse_shared(param: Tensor) -> None:
    """Look whether other processes see this parameter, who would no longer once it lies in a flat buffer.

    Raises:
        ValueError: they do.
    """
    if not isinstance(param, DTensor) and param.device.type == "cpu" and param.is_shared():
        raise ValueError(
            "a parameter lies in shared memory, by share_memory() or as torch.multiprocessing has sent it, and the "
            "optimizer would move it into a buffer of its own: train a copy, as copy.deepcopy(model) makes it"
        )


def with_own_storage(flat: Tensor) -> Tensor:
    """The same memory as a tensor whose storage is exactly that long, and which keeps the whole alive.

    A parameter that is a plain view shares the storage of its bucket: saving a bias then writes the bucket, and
    safetensors refuses the model.
    """
    return torch.from_dlpack(flat)


def slots_of(params: Sequence[Tensor]) -> list[slice]:
    """Where each parameter lies in the flat buffer."""
    slots, start = [], 0
    for param in params:
        stop = start + local(param).numel()
        slots.append(slice(start, stop))
        start = ALIGNMENT * -(-stop // ALIGNMENT)
    return slots
