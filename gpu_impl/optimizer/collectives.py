"""The collectives of 1-bit Adam: what a step hands to ``torch.distributed``, counted, its errors explained.

One class for the group of workers that average gradients. Without an initialised process group, or in a group of one,
there is one worker and nothing is sent.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch import distributed as dist

from gpu_impl.optimizer import rounds

ALL_REDUCE_PASSES = 2
"""A bandwidth-optimal all-reduce sends every byte twice, but for the N-th part that stays at home."""

ASKS = -1.0
"""In a table, in place of a checksum: this worker wants to compare more than that."""


class CollectiveFailedError(RuntimeError):
    """A collective failed: another worker died or stopped, or the network did. All workers must be restarted."""


@atexit.register
def _end_gloo() -> None:
    """End the threads of gloo while Python is still there.

    They let go of a collective's tensors a moment after its ``wait()`` has returned. A program that ended in that
    moment was aborted ("terminate called without an active exception", pytorch issue 190489), with all its work done.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    backends = str(dist.get_backend_config()).split(",")  # "cpu:gloo" also where init_process_group() names none
    if all(backend.endswith("gloo") for backend in backends):
        dist.destroy_process_group()
        time.sleep(0.1)  # a group that DistributedDataParallel still holds lives on; there is nothing to wait for


class Pending:
    """A collective under way. :meth:`wait` before its output is read, or its input written."""

    def __init__(self, work: Any = None, what: str = "") -> None:
        self.work, self.what = work, what

    def wait(self) -> None:
        """Wait for the result: the host on the CPU, the current stream on a GPU.

        Raises:
            CollectiveFailedError: it did not come.
        """
        if self.work is not None:
            told(self.what, self.work.wait)


class Collectives:
    """The workers of one process group.

    Args:
        process_group: the group; None is the default group, or one worker where none is initialised.

    Attributes:
        rank: number of this worker in the group.
        size: N.
        where: told in errors, such as " of step 7".
        is_of_group: whether there was a process group when this was made.
        bytes_sent: bytes that this worker has handed over for others so far. Of an all-reduce, 2(N-1)/N of its buffer.

    Raises:
        ValueError: this process is not a member of the group.
        RuntimeError: there are several processes, by ``WORLD_SIZE``, and no group.
    """

    def __init__(self, process_group: dist.ProcessGroup | None = None) -> None:
        self.group = process_group
        self.rank, self.size = 0, 1
        self.where, self.bytes_sent = "", 0
        has_group = process_group is not None or (dist.is_available() and dist.is_initialized())
        started = started_processes()
        if not has_group and started > 1:
            raise RuntimeError(
                f"{started} processes were started and there is no process group, so each would train alone: call "
                "torch.distributed.init_process_group() before the first step"
            )
        if has_group:
            self.rank, self.size = dist.get_rank(process_group), dist.get_world_size(process_group)
        self.is_of_group = has_group
        self._is_on_gloo = has_group and rounds.is_on_gloo(process_group)
        if self.rank < 0:
            raise ValueError("this process is not in process_group: make the optimizer on the group's members only")

    @property
    def inside(self) -> Collectives | None:
        """The workers of this worker's node, who average in full precision first [C15]; None: each is a node."""
        return None

    @property
    def n_workers(self) -> int:
        """N, whether they are in nodes or not."""
        return self.size

    def all_reduce(self, values: Tensor) -> Pending:
        """``values`` <- their sum over the workers, the same bits on all."""
        if self.size == 1:
            return Pending()
        self.bytes_sent += ALL_REDUCE_PASSES * (self.size - 1) * _bytes(values) // self.size
        return _begin("all-reduce" + self.where, dist.all_reduce, values, group=self.group)

    def all_to_all(self, received: Tensor, rows: Tensor) -> Pending:
        """Row j of ``rows`` (N, ...) goes to worker j; row i of ``received`` comes from worker i."""
        if self.size == 1:
            received.copy_(rows)
            return Pending()
        self.bytes_sent += (self.size - 1) * _bytes(rows) // self.size
        what = "all-to-all" + self.where
        if self._is_on_gloo and rounds.pay(rows, self.size):
            each = rounds.all_to_all(received.view(self.size, -1), rows.view(self.size, -1), self.rank)
            return Pending(told(what, rounds.Rounds, self.group, each), what)
        return _begin(what, dist.all_to_all_single, received, rows, group=self.group)

    def all_gather(self, gathered: Tensor, row: Tensor) -> Pending:
        """Row i of ``gathered`` (N, ...) <- worker i's ``row``."""
        if self.size == 1:
            gathered.copy_(row.view_as(gathered))
            return Pending()
        self.bytes_sent += (self.size - 1) * _bytes(row)
        what = "all-gather" + self.where
        if self._is_on_gloo and rounds.pay(gathered, self.size):
            each = rounds.all_gather(gathered.view(self.size, -1), row.view(-1), self.rank)
            return Pending(told(what, rounds.Rounds, self.group, each), what)
        if self._is_on_gloo and row.is_cpu:  # to all at once, where gloo's own goes round a ring
            rows = row.view(1, -1).expand(self.size, -1).contiguous()
            return _begin(what, dist.all_to_all_single, gathered.view(self.size, -1), rows, group=self.group)
        return _begin(what, torch_all_gather, gathered.view(-1), row, group=self.group)

    def table(self, values: Tensor) -> Tensor:
        """Every worker's ``values`` (k,), as (N, k)."""
        gathered = values.new_empty(self.size, values.shape[0])
        self.all_gather(gathered, values).wait()
        return gathered

    def objects(self, value: Any) -> list[Any]:
        """Every worker's ``value``, which is pickled: for rare, small things; not counted."""
        values = [value] * self.size
        if self.size > 1:
            told("exchange" + self.where, dist.all_gather_object, values, value, group=self.group)
        return values


def started_processes() -> int:
    """How many processes ``torchrun`` has started, by ``WORLD_SIZE``; 1 without it.

    Raises:
        ValueError: it is no number.
    """
    value = os.environ.get("WORLD_SIZE") or "1"
    if not value.isdecimal():
        raise ValueError(f"the environment variable WORLD_SIZE is {value!r}: it must be a number, or not be set")
    return int(value)


# torch 2.13 renamed all_gather_into_tensor and warns of the old name
torch_all_gather: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def _begin(what: str, collective: Callable[..., Any], *tensors: Tensor, group: dist.ProcessGroup | None) -> Pending:
    return Pending(told(what, collective, *tensors, group=group, async_op=True), what)


def told(what: str, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """``call(...)``, with what a transport may raise turned into one sentence.

    Raises:
        CollectiveFailedError: from the original error.
    """
    try:
        return call(*arguments, **keywords)
    except (RuntimeError, ValueError) as error:  # DistBackendError and DistNetworkError are RuntimeErrors
        if not dist.is_initialized() or "process group" in str(error).lower():
            raise CollectiveFailedError(
                f"the {what} failed, for the process group was destroyed: call torch.distributed.init_process_group(), "
                "make the optimizer anew and load a checkpoint; destroy the group after the last step and save only"
            ) from error
        reason = (str(error).splitlines() or [""])[0]
        raise CollectiveFailedError(
            f"the {what} failed, so another worker has probably died or stopped: restart all workers from the last "
            f"checkpoint ({reason})"
        ) from error


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
