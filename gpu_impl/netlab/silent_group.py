"""A process group that sends nothing: what training costs without a network, with the same code and the same sizes.

Its collectives return at once, and are written down. What they leave in the tensors is what N workers would get that
all have the same.
"""

# Torch's stubs give each of these methods several signatures, of which its own code calls one.
# pyright: reportIncompatibleMethodOverride=false, reportCallIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch import distributed as dist
from torch.futures import Future

from gpu_impl.netlab.collective import Collective

NAME = "silent"


class Done(dist.Work):
    """A collective that is over, with its result."""

    def __init__(self, result: list[Tensor]) -> None:
        super().__init__()
        self._future: Future[list[Tensor]] = Future()
        self._future.set_result(result)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Future[list[Tensor]]:
        return self._future


class SilentGroup(dist.ProcessGroup):
    """As many workers as there are, each for itself; torch calls the methods below by these names.

    Attributes:
        calls: the collectives so far that train; torch broadcasts and waits while it sets up.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.calls: list[Collective] = []

    def getBackendName(self) -> str:
        """As torch shows it."""
        return NAME

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Done:
        """The values stay as they are."""
        self.calls += [Collective("all-reduce", tensor.nbytes) for tensor in tensors]
        return Done(tensors)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Done:
        """The same."""
        return Done(tensors)

    def barrier(self, opts: Any = None) -> Done:
        """Waits for nobody."""
        return Done([])

    def allgather(self, outputs: Sequence[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Done:
        """Everybody's values are this worker's."""
        self.calls.append(Collective("all-gather", inputs[0].nbytes * self.size()))
        for output in outputs[0]:
            output.copy_(inputs[0])
        return Done(outputs[0])

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Done:
        """The same, in one tensor."""
        self.calls.append(Collective("all-gather", output.nbytes))
        output.view(self.size(), -1).copy_(input.view(1, -1).expand(self.size(), -1))
        return Done([output])

    def all_to_all_single(self, output: Tensor, input: Tensor, *_: Any) -> Done:
        """What it sends, it gets."""
        self.calls.append(Collective("all-to-all", input.nbytes))
        output.copy_(input)
        return Done([output])

    def _allgather_base(self, *arguments: Any) -> Done:  # torch below 2.13 calls them so
        return self.all_gather_single(*arguments)

    def alltoall_base(self, *arguments: Any) -> Done:
        """As above."""
        return self.all_to_all_single(*arguments)


def _make(store: dist.Store, rank: int, size: int, timeout: Any) -> SilentGroup:
    return SilentGroup(rank, size)


dist.Backend.register_backend(NAME, _make, devices=["cpu"])
