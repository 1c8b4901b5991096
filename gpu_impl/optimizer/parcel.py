"""Buckets that travel together: one message each way and one call of each kernel, however many they are.

A collective costs the same for a bias as for a megabyte, and so does a call. So the buckets of small parameter groups
share the rows of their messages, and a backend is given the calls for all of them at once. What each of them computes
is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from gpu_impl.kernels.arguments import FROZEN_DTYPES
from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.layout import Layout
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import F32, F64, I64, U8, Exchange
from gpu_impl.kernels.step_scalars import ScalarTable
from gpu_impl.optimizer.bucket import Bucket, Group, Small
from gpu_impl.optimizer.collectives import Collectives, Pending
from gpu_impl.optimizer.flat_params import FlatParams, local
from gpu_impl.optimizer.gradients import Gradients
from gpu_impl.optimizer.plan import Content
from gpu_impl.optimizer.settings import Settings


class Parcel:
    """Buckets of one dtype on one device.

    Args:
        contents: what goes in; each has elements on this rank.
        collectives: the workers.
        backend: kernels.
        settings: of the run.
        bucket_type: of the run.

    Attributes:
        buckets: with their groups.
        numbers: of the parameters, in the order of ``params``.
        gradients: this worker's.
        norm: sum of squares of this worker's gradients (1,) float64.
        scalars: of each bucket.
        u_scales: of each bucket's worker, one bucket after another.
        ignored: of each bucket's worker (n,).
        live: live coordinates of each bucket's chunks, or of their blocks, one bucket after another.
    """

    def __init__(
        self,
        contents: Sequence[Content],
        collectives: Collectives,
        backend: Backend,
        settings: Settings,
        bucket_type: type[Bucket],
    ) -> None:
        self.collectives, self.backend = collectives, backend
        here = [content.here() for content in contents]
        flats = [FlatParams(params) for params, _ in here]
        self.gradients = Gradients(flats, backend)
        device, n = flats[0].weights.device, collectives.size
        self.norm = torch.zeros(1, dtype=F64, device=device)
        self._norm_on_host = self.norm.numpy() if device.type == "cpu" else None
        self._n_workers = torch.full((1,), float(n), dtype=torch.float32, device=device)
        self._mean: Tensor | None = None
        self._mean_views: list[Tensor] = []
        self._prepared: dict[str, tuple[Any, Callable[[], None]]] = {}

        layouts = [Layout(flat.dim, n, settings.scale_block) for flat in flats]
        offsets = _offsets(layout.row_bytes for layout in layouts)
        scale_offsets = _offsets(layout.n_scales for layout in layouts)
        live_offsets = _offsets(layout.n_chunks * layout.n_blocks for layout in layouts)
        alone = n == 1  # then what is sent is what arrives
        self.message, self.shared = (_rows(n, offsets[-1], device) for _ in range(2))
        self.received = self.message if alone else _rows(n, offsets[-1], device)
        self.reply = self.shared[0] if alone else _rows(1, offsets[-1], device)[0]
        self.live = torch.zeros(live_offsets[-1], dtype=I64, device=device)
        self.scalars = ScalarTable(len(flats), device)
        self.u_scales = torch.zeros(scale_offsets[-1], dtype=torch.float32, device=device)
        self.ignored = torch.zeros(len(flats), dtype=I64, device=device)

        self.buckets: list[tuple[Group, Bucket]] = []
        for k, (content, flat, layout) in enumerate(zip(contents, flats, layouts, strict=True)):
            columns = slice(offsets[k], offsets[k + 1])
            rows = (self.message[:, columns], self.received[:, columns], self.reply[columns], self.shared[:, columns])
            u_scale = self.u_scales[scale_offsets[k] : scale_offsets[k + 1]]
            small = Small(u_scale, self.ignored[k : k + 1], self.scalars.rows[k])
            exchange = Exchange(layout, self.live[live_offsets[k] : live_offsets[k + 1]], *rows)
            kind = content.kind
            bucket = bucket_type(
                flat,
                collectives.rank,
                exchange,
                backend,
                small,
                freezes=kind.freezes,
                began=kind.began,
                in_updates=settings.compress == "update",
                frozen_dtype=FROZEN_DTYPES[settings.frozen_dtype],
            )
            self.buckets.append((content.group, bucket))
        self.numbers = [number for _, numbers in here for number in numbers]
        self.places = [(bucket, k) for _, bucket in self.buckets for k in range(len(bucket.flat.params))]
        self.params = [bucket.flat.params[k] for bucket, k in self.places]
        self._is_sharded = flats[0].is_sharded
        for flat in flats:
            flat.on_leave = self._prepared.clear  # the calls that are prepared have the old memory in them
        self._written: object = None

    @property
    def is_frozen(self) -> bool:
        """Whether a step of it is a compressed one."""
        return self.buckets[0][1].is_frozen

    @property
    def has_average(self) -> bool:
        """Whether the average lies in a buffer of its own; else the gradients are it."""
        return self._mean is not None

    @property
    def freezes(self) -> bool:
        """Whether it is compressed at all."""
        return self.buckets[0][1].freezes

    # --- what comes in ---

    def numbered_buckets(self) -> Iterator[tuple[list[int], Group, Bucket]]:
        """Every bucket with its group and with the numbers of its parameters in the run."""
        numbers = iter(self.numbers)
        for group, bucket in self.buckets:
            yield [next(numbers) for _ in bucket.flat.params], group, bucket

    def adopt(self) -> None:
        """Take in the parameters as they are now."""
        for _, bucket in self.buckets:
            bucket.flat.adopt()

    def gather(self) -> list[int]:
        """Take in the parameters as they are now, and this worker's gradients; ``norm`` <- their sum of squares.

        Returns:
            Places in ``params`` of those without a gradient; their gradient is 0.

        Raises:
            TypeError: a gradient is sparse.
        """
        self.adopt()
        found = [param.grad for param in self.params]
        missing = [k for k, grad in enumerate(found) if grad is None]
        self.take([None if grad is None else local(grad) for grad in found] if self._is_sharded else found)
        return missing

    def take(self, grads: Sequence[Tensor | None]) -> None:
        """Take in the gradients of all parameters; ``norm`` <- their sum of squares."""
        self.gradients.take(grads)
        self.run("gradient_norm", None, lambda: [{"grad": self.gradients.whole, "norm": self.norm}])

    def square(self) -> float:
        """The norm's square on the host."""
        return float(self.norm) if self._norm_on_host is None else float(self._norm_on_host[0])

    def set_scalars(self, written: object, numbers: Callable[[], list[tuple[Tensor | float, ...]]]) -> None:
        """The scalars of the step to come. On the CPU they are left as they are where ``written`` is what it was."""
        if self.norm.device.type == "cpu" and written is not None and written == self._written:
            return
        self.scalars.set(numbers())
        self._written = written

    # --- the parts of a step, for all buckets at once ---

    def run(self, kernel: str, key: object, calls: Callable[[], list[dict[str, Any]]]) -> None:
        """Make the calls of one kernel, which are the same ones as long as ``key`` is."""
        known = self._prepared.get(kernel)
        if known is None or known[0] != key:
            known = self._prepared[kernel] = key, self.backend.prepare(kernel, calls())
        known[1]()

    def adam(self, absent: Mapping[int, set[int]]) -> None:
        """A step of Adam along the mean; parameters that are absent, by bucket and place, stay as they are."""
        kept = [pair for _, bucket in self.buckets for pair in bucket.saved(absent.get(id(bucket), set()))]
        key = [self._mean is None, *((tuple(group["betas"]), group["eps"]) for group, _ in self.buckets)]
        self.run(
            "adam",
            key,
            lambda: [
                bucket.adam_call(group, mean) for (group, bucket), mean in zip(self.buckets, self.means(), strict=True)
            ],
        )
        for target, values in kept:
            target.copy_(values)
        self.publish()

    def compress(self, scale: str, keep_old: Sequence[bool] | None = None) -> None:
        """Compress this worker's momenta; ``keep_old``, by bucket: the old u takes the place of the gradient."""
        if self.collectives.inside is None:
            self.drop_mean()
        grads = self.means()
        keep_old = keep_old or [False] * len(self.buckets)
        key = [scale, *keep_old, *((group["betas"][0], bucket.is_first) for group, bucket in self.buckets)]
        carried: dict[int, Tensor] = {}
        for k, (group, bucket) in enumerate(self.buckets):
            if bucket.carried is not None:
                grad = grads[k]
                carried[k] = grad if isinstance(grad, Tensor) else self.gradients.flat_of(k)
                bucket.take_carried(group, carried[k])
        self.run(
            "compress",
            object() if carried else key,
            lambda: [
                bucket.compress_call(group, carried.get(k, grads[k]), scale, keep_old[k])
                for k, (group, bucket) in enumerate(self.buckets)
            ],
        )
        if carried:  # their gradients were copies
            del self._prepared["compress"]

    def serve(self, scale: str) -> None:
        """Average what the workers sent for this worker's chunks, and compress that."""
        self.run("server", scale, lambda: [bucket.server_call(scale) for _, bucket in self.buckets])
        for _, bucket in self.buckets:
            bucket.is_first = False

    def apply(self) -> None:
        """Move the parameters along what everyone received."""
        marks = [bucket.live_bits if bucket.moves is None else bucket.moves for _, bucket in self.buckets]
        key = tuple(None if mark is None else mark.data_ptr() for mark in marks)  # a pause makes new ones
        self.run("apply", key, lambda: [bucket.apply_call() for _, bucket in self.buckets])
        self.publish()

    def decode(self) -> None:
        """Write m-bar, 0 where dead, in the place of the gradients."""
        on_host = self.live.device.type == "cpu"
        live = [int(bucket.exchange.live.sum()) if on_host else 0 for _, bucket in self.buckets]
        places = enumerate(zip(self.buckets, live, strict=True))
        self.run("decode", live, lambda: [one.decode_call(self.gradients.of(k), n) for k, ((_, one), n) in places])

    def publish(self) -> None:
        """Copy new parameters to where their owner keeps them, if that is elsewhere."""
        if self._is_sharded:
            for _, bucket in self.buckets:
                bucket.flat.publish()

    # --- what travels ---

    def begin_average(self, unscale: Tensor | None) -> Pending:
        """Start to sum the workers' gradients, in float32, each multiplied by its own ``unscale`` first.

        Of nodes [C15], what is summed are their averages.
        """
        if self.collectives.n_workers == 1 and unscale is None:
            self.drop_mean()
            return Pending()
        mean = self._copy_to_mean(unscale)
        self._average_inside(mean)
        return self.collectives.all_reduce(mean)

    def average_in_node(self, unscale: Tensor | None) -> Tensor | None:
        """Average over the workers of this node, in float32, if there are nodes [C15]: the node compresses that.

        Returns:
            What the gradient to be compressed is still to be multiplied with.
        """
        if self.collectives.inside is None:
            return unscale
        self._average_inside(self._copy_to_mean(unscale))
        return None

    def _copy_to_mean(self, unscale: Tensor | None) -> Tensor:
        if self._mean is None:
            self._mean = flat_buffer(self.gradients.dim, F32, self.norm.device)
            self._mean_views = self.gradients.views_of(self._mean)
        self.gradients.copy_to(self._mean_views)
        return self._mean if unscale is None else self._mean.mul_(unscale)

    def _average_inside(self, values: Tensor) -> None:
        if (node := self.collectives.inside) is not None:
            node.all_reduce(values).wait()
            values.div_(torch.full_like(self._n_workers, float(node.size)))

    def drop_mean(self) -> None:
        """Give the average's memory back: a compressed step has none, but that of a node."""
        if self._mean is not None:
            self._mean, self._mean_views = None, []
            for kernel in ("adam", "lamb_moments", "compress"):
                self._prepared.pop(kernel, None)

    def end_warm_up(self) -> None:
        """Give the memory back that only the warm-up needs: the average, and a float32 v that a narrow P replaces."""
        self.drop_mean()
        self._prepared.clear()  # the calls that are prepared have it in them

    def finish_average(self) -> None:
        """The sum is there: make it the average."""
        if self._mean is not None and self.collectives.size > 1:
            self._mean.div_(self._n_workers)

    def means(self) -> list[Gradient]:
        """The average of each bucket, over all workers or a node's; without one, this worker's gradients."""
        if self._mean is None:
            return [self.gradients.of(k) for k in range(len(self.buckets))]
        parts = zip(self.buckets, self.gradients.starts, strict=True)
        return [self._mean[at : at + bucket.flat.dim] for (_, bucket), at in parts]

    def hand_out_means(self, targets: Sequence[Tensor | None]) -> None:
        """Copy the average to where the gradients came from."""
        if self._mean is not None:
            pairs = [(a, b) for a, b in zip(targets, self._mean_views, strict=True) if a is not None]
            torch._foreach_copy_([a for a, _ in pairs], [b for _, b in pairs])  # pyright: ignore[reportPrivateImportUsage]

    def begin_messages(self) -> Pending:
        """Everything is compressed: start to send chunk j of each bucket to worker j."""
        return Pending() if self.collectives.size == 1 else self.collectives.all_to_all(self.received, self.message)

    def begin_replies(self) -> Pending:
        """The servers have answered: start to send the answers to everyone."""
        return Pending() if self.collectives.size == 1 else self.collectives.all_gather(self.shared, self.reply)


def _offsets(lengths: Iterable[int]) -> list[int]:
    """Where each of them begins, and where the last one ends."""
    return [0, *accumulate(lengths)]


def _rows(n: int, row_bytes: int, device: torch.device) -> Tensor:
    """A message of zeros, (n, row_bytes) uint8."""
    return flat_buffer(n * row_bytes, U8, device).view(n, row_bytes)
