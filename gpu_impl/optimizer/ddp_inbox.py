"""What DDP has brought for one parcel in a backward pass, and what to restore if the step turns out to be skipped."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_impl.optimizer.collectives import Pending
from gpu_impl.optimizer.parcel import Parcel
from gpu_impl.optimizer.run import Run
from gpu_impl.optimizer.steps import set_scalars

WITNESSED = 1024
"""Elements that are compared to find out whether a gradient was changed after it was delivered."""


class Kept:
    """What the compression of a parcel overwrites.

    Attributes:
        by_kernel: of each bucket, whether the kernel itself puts the old u into the gradient.
    """

    def __init__(self, parcel: Parcel) -> None:
        self.parcel, buckets = parcel, [bucket for _, bucket in parcel.buckets]
        self.by_kernel = [not (bucket.flat.is_narrow or bucket.paused) and bucket.carried is None for bucket in buckets]
        pairs = zip(buckets, self.by_kernel, strict=True)
        self.u = [None if by_kernel else bucket.momentum.clone() for bucket, by_kernel in pairs]
        self.scales, self.ignored = parcel.u_scales.clone(), parcel.ignored.clone()
        self.others = [(bucket.carried, bucket.is_first) for bucket in buckets]

    def restore(self) -> None:
        """Undo the compression, to the bit."""
        self.parcel.u_scales.copy_(self.scales)
        self.parcel.ignored.copy_(self.ignored)
        for k, (_, bucket) in enumerate(self.parcel.buckets):
            bucket.carried, bucket.is_first = self.others[k]
            u = self.u[k]
            if u is None:
                self.parcel.gradients.copy_one(k, bucket.momentum)
            else:
                bucket.momentum.copy_(u)


class Inbox:
    """What has arrived for one parcel in this backward pass, and what to restore if the step is skipped.

    Attributes:
        outlets: where DDP brings the gradients and wants the result, in the order of the parcel's parameters; None
            where it brings nothing.
        is_used: whether DDP brings anything at all.
    """

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self.places = {id(param): k for k, param in enumerate(parcel.params)}
        self._by_size = sorted(range(len(parcel.params)), key=lambda k: -parcel.params[k].numel())
        self.kept: Kept | None = None
        self.pending = Pending()
        self._is_first = True
        self.open()

    def open(self) -> set[int]:
        """Begin a backward pass; the numbers of the parameters that take no part, for they need no gradient now."""
        parcel = self.parcel
        parcel.adopt()
        off = {k for k, param in enumerate(parcel.params) if not param.requires_grad}
        self._off = off
        self.outlets: list[Tensor | None] = [None] * len(parcel.params)
        self.kept, self.pending = None, Pending()
        self.missing = len(parcel.params) - len(off)
        self.is_used = self.missing > 0
        if self.is_used:
            self.largest = next(k for k in self._by_size if parcel.params[k].requires_grad)
        else:
            parcel.norm.zero_()
        return {parcel.numbers[k] for k in off}

    def take(self, param: Tensor, grad: Tensor) -> bool:
        """Take a gradient in; whether the parcel is complete.

        Told to find unused parameters, DDP brings zeros for one that was turned off after it was made: it has none.
        """
        k = self.places[id(param)]
        if k in self._off:
            return False
        if self.outlets[k] is not None:
            raise RuntimeError("a gradient came twice: an earlier backward pass ended in the middle")
        if self._is_first and not _is_that_of(param, grad):
            raise RuntimeError(
                "the memory format of a parameter was changed between DistributedDataParallel(model) and "
                "optimizer.attach(): change it before the model is wrapped"
            )
        self.outlets[k] = grad
        self.missing -= 1
        return self.is_complete

    @property
    def is_complete(self) -> bool:
        """Whether all gradients of the parcel are here."""
        return self.missing == 0

    def begin(self, run: Run) -> None:
        """All gradients are here: start the exchange."""
        parcel = self.parcel
        parcel.take(self.outlets)
        if not parcel.is_frozen:
            self.pending = parcel.begin_average(None)
            return
        self.kept = Kept(parcel)
        set_scalars(run, parcel, 1.0)
        parcel.compress(run.settings.scale, self.kept.by_kernel)
        self.pending = parcel.begin_messages()

    def share(self, run: Run) -> None:
        """The second half of the exchange."""
        parcel = self.parcel
        if not parcel.is_frozen:
            parcel.finish_average()
            return
        parcel.serve(run.settings.scale)
        self.pending = parcel.begin_replies()

    def deliver(self) -> None:
        """Give DDP the averaged gradient or m-bar."""
        self._is_first = False
        if self.parcel.is_frozen:
            self.pending.wait()
            self.parcel.decode()
            self.parcel.gradients.hand_out(self.outlets)
        else:
            self.parcel.hand_out_means(self.outlets)
        outlet = self.outlets[self.largest]
        assert outlet is not None
        self.witness = outlet.reshape(-1)[:WITNESSED].clone()

    def undo(self) -> None:
        """The step is skipped: the state is as it was, and p.grad is NaN, on all workers."""
        self._is_first = False
        if self.kept is not None:
            self.kept.restore()
        for outlet in self.outlets:
            if outlet is not None:
                outlet.fill_(torch.nan)

    def is_untouched(self) -> bool:
        """Whether a gradient still is what was delivered: clipping would scale all of them."""
        grad = self.parcel.params[self.largest].grad
        return grad is None or torch.equal(grad.reshape(-1)[:WITNESSED], self.witness)


def _is_that_of(param: Tensor, grad: Tensor) -> bool:
    """Whether what DDP brings is this worker's gradient of ``param``, element by element, as far as can be seen."""
    own = param.grad
    return own is None or own.dtype != grad.dtype or torch.allclose(own, grad, rtol=0, atol=0, equal_nan=True)
