"""The all-to-all and the all-gather of a step on gloo, in rounds: at any time one flow a link and direction.

    all-to-all    in round k = 1 ... N-1 worker r sends to worker r + k and receives from worker r - k (mod N)
    all-gather    in each round worker r sends to r + 1 what it has received last, and receives from r - 1

gloo's own all-to-all sends to all others at once, and flows that meet at a receiver are not shared out evenly. It takes
1.6 times as long as the bytes need, rounds 1.05 times (docs/netlab.md). Short messages all go at once, for every round
costs what a message takes to arrive. gloo sends when the receiver has said that it waits; here that is said of all
rounds before the first, so that a round takes one trip over the link and not two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, finalize

from torch import Tensor
from torch import distributed as dist

SHORTEST = 2**15
"""Bytes of a message from which on rounds are no slower (four and eight workers, 100 Mbit/s to 10 Gbit/s)."""
THREAD = "onebit-rounds"
TAG = 0x1B17
"""Of our messages in the first round, one more in each: a program may have others of its own in the same group."""


class Round(NamedTuple):
    """One message each way: ``sent`` goes to worker ``to``, ``received`` comes from worker ``source``."""

    to: int
    sent: Tensor
    source: int
    received: Tensor


def all_to_all(received: Tensor, rows: Tensor, rank: int) -> list[Round]:
    """Row j of ``rows`` (N, ...) goes to worker j, row i of ``received`` comes from worker i; one's own is copied."""
    n = rows.shape[0]
    received[rank].copy_(rows[rank])
    pairs = [((rank + k) % n, (rank - k) % n) for k in range(1, n)]
    return [Round(to, rows[to], source, received[source]) for to, source in pairs]


def all_gather(gathered: Tensor, row: Tensor, rank: int) -> list[Round]:
    """Row i of ``gathered`` (N, ...) <- worker i's ``row``, round a ring: so each row enters a node once."""
    n = gathered.shape[0]
    gathered[rank].copy_(row)
    before, after = (rank - 1) % n, (rank + 1) % n
    return [Round(after, gathered[(rank - k + 1) % n], before, gathered[(rank - k) % n]) for k in range(1, n)]


class Rounds:
    """A collective under way: its rounds are carried out beside the program, after those that were begun before it.

    Args:
        group: the workers, N; None is the default group.
        rounds: one after another.

    Raises:
        RuntimeError: there is no default group.
    """

    def __init__(self, group: dist.ProcessGroup | None, rounds: Sequence[Round]) -> None:
        group = group or dist.group.WORLD
        if group is None:
            raise RuntimeError("the process group was destroyed")
        self._over: Future[None] = Future()
        _turns(group).put((group, rounds, self._over))

    def wait(self) -> None:
        """Wait until all has been sent and received; raises what the transport raises."""
        self._over.result()


def is_on_gloo(group: dist.ProcessGroup | None) -> bool:
    """Whether what is in the memory of processors goes over gloo in this group; None is the default one."""
    return "cpu:gloo" in str(dist.get_backend_config(group)).split(",")


def pay(rows: Tensor, n_workers: int) -> bool:
    """Whether rounds pay for these, one a worker."""
    return rows.is_cpu and are_long(rows.nbytes, n_workers)


def are_long(size: int, n_workers: int) -> bool:
    """Whether messages, one a worker and ``size`` bytes together, are long enough for rounds."""
    return size >= n_workers * SHORTEST


Turn = tuple[dist.ProcessGroup, Sequence[Round], "Future[None]"]
_of_group: WeakKeyDictionary[dist.ProcessGroup, SimpleQueue[Turn | None]] = WeakKeyDictionary()


def _turns(group: dist.ProcessGroup) -> SimpleQueue[Turn | None]:
    """What the thread of this group has to do. It ends with the group, or with the process, whatever it waits for."""
    if group not in _of_group:
        _of_group[group] = turns = SimpleQueue()
        finalize(group, turns.put, None).atexit = False
        Thread(target=_take_turns, args=(turns,), name=THREAD, daemon=True).start()
    return _of_group[group]


def _take_turns(turns: SimpleQueue[Turn | None]) -> None:
    while (turn := turns.get()) is not None:
        over, error = turn[-1], _carried_out(*turn[:-1])
        del turn  # before anybody hears of it: the program may end then, and a group must not be taken apart here
        if error:
            over.set_exception(error)
        else:
            over.set_result(None)
        del over, error  # or they would live on until the next


def _carried_out(group: dist.ProcessGroup, rounds: Sequence[Round]) -> Exception | None:
    """What the transport raised, if it did."""
    try:
        arriving = [
            _begun(dist.irecv, one.received, group, TAG + k, group_src=one.source) for k, one in enumerate(rounds)
        ]
        for k, (one, arrives) in enumerate(zip(rounds, arriving, strict=True)):
            leaves = _begun(dist.isend, one.sent, group, TAG + k, group_dst=one.to)
            arrives.wait()
            leaves.wait()
    except Exception as error:
        return error.with_traceback(None)
    return None


def _begun(call: Callable[..., Any], tensor: Tensor, group: dist.ProcessGroup, tag: int, **peer: int) -> dist.Work:
    work = call(tensor, group=group, tag=tag, **peer)
    assert work is not None  # None: this process is not in the group
    return work
