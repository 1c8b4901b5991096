"""Workers in nodes [C15]: full precision inside a node, what is compressed between nodes.

M nodes of n workers: worker r of a node is in two groups, that of its node and that of the workers r of all nodes. The
workers of a node hold the same state, to the bit, and together they are one worker of 1-bit Adam. What a node sends to
the others is cut into n parts, and its worker r carries part r:

    between nodes   worker r exchanges part r with the workers r of the other nodes
    inside          the workers of a node give one another the parts that they have got
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from gpu_impl.optimizer.collectives import ASKS, Collectives, Pending, told

OCCASION = "an optimizer with node_group for the first time"


class Nodes(Collectives):
    """The nodes, as :class:`Collectives` has workers: ``rank`` is this node's number, ``size`` is M.

    Args:
        process_group: the workers that have this worker's place in their nodes, by the numbers of the nodes.
        node_group: the workers of this node, by their places.

    ``bytes_sent`` counts what goes between nodes; ``inside.bytes_sent`` the rest. Errors as in :class:`Collectives`.
    """

    def __init__(self, process_group: dist.ProcessGroup | None, node_group: dist.ProcessGroup) -> None:
        super().__init__(process_group)
        self._inside = Collectives(node_group)
        self._is_checked = False

    @property
    def inside(self) -> Collectives:
        """The workers of this node."""
        return self._inside

    @property
    def n_workers(self) -> int:
        """N = M n."""
        return self.size * self.inside.size

    def all_reduce(self, values: Tensor) -> Pending:
        """``values``, which are a node's, <- their sum over the nodes."""
        parts = values.view(-1).tensor_split(self.inside.size)
        pending = super().all_reduce(parts[self.inside.rank])
        return _Then(pending, lambda: self._share(parts))

    def _share(self, parts: tuple[Tensor, ...]) -> None:
        """Part r <- that of worker r of this node."""
        for place, part in enumerate(parts):
            if self.size > 1 and part.numel():
                told("broadcast" + self.where, dist.broadcast, part, group=self.inside.group, group_src=place)

    def all_to_all(self, received: Tensor, rows: Tensor) -> Pending:
        """Row j of a node's ``rows`` (M, ...) goes to node j; row i of ``received`` comes from node i."""
        own = self._parts_of(rows)[self.inside.rank].contiguous()
        got = torch.empty_like(own)
        return _Then(super().all_to_all(got, own), lambda: self._assemble(got, received))

    def all_gather(self, gathered: Tensor, row: Tensor) -> Pending:
        """Row i of ``gathered`` (M, ...) <- node i's ``row``."""
        own = self._parts_of(row.view(1, -1))[self.inside.rank, 0]
        got = own.new_empty(self.size, own.shape[0])
        return _Then(super().all_gather(got, own), lambda: self._assemble(got, gathered))

    def _parts_of(self, rows: Tensor) -> Tensor:
        """Of each row (k, length) the part of every worker of the node (n, k, width); the last may end in zeros."""
        n, length = self.inside.size, rows.shape[1]
        width = -(-length // n)
        return torch.nn.functional.pad(rows, (0, n * width - length)).view(-1, n, width).transpose(0, 1)

    def _assemble(self, part: Tensor, rows: Tensor) -> None:
        """``rows`` (k, length) <- the parts (k, width) that the workers of this node have got."""
        parts = part.new_empty(self.inside.size, *part.shape)
        self.inside.all_gather(parts, part.view(-1)).wait()
        rows.copy_(parts.transpose(0, 1).reshape(rows.shape[0], -1)[:, : rows.shape[1]])

    def table(self, values: Tensor) -> Tensor:
        """Every worker's ``values`` (k,), as (N, k), node by node; errors as in :meth:`objects`."""
        if not self._is_checked:
            self._find_workers_without_nodes(values)
        self._check()
        of_node = self.inside.table(values).view(-1)
        gathered = of_node.new_empty(self.size, of_node.shape[0])
        super().all_gather(gathered, of_node).wait()
        return gathered.view(self.n_workers, -1)

    def objects(self, value: Any) -> list[Any]:
        """Every worker's ``value``, node by node; errors as in :class:`Collectives`.

        Raises:
            ValueError: the groups are not those of nodes.
        """
        self._check()
        return [one for node in super().objects(self.inside.objects(value)) for one in node]

    def _find_workers_without_nodes(self, values: Tensor) -> None:
        """Begin as a worker without ``node_group`` does, so that both are told, and neither waits for the other."""
        counted, own = self.bytes_sent, values.new_tensor([0.0, ASKS, 0.0])
        super().all_gather(own.new_empty(self.size, own.shape[0]), own).wait()
        self.bytes_sent = counted
        occasions = super().objects(OCCASION)
        if any(self.inside.objects(len(set(occasions)) > 1)):
            raise ValueError("node_group is given on some workers only: give it on all, or on none")

    def _check(self) -> None:
        """Before anything else is sent, once: a worker is wherever it is said to be, on all workers or none."""
        if self._is_checked:
            return
        peers = super().objects((self.inside.rank, self.inside.size))
        neighbours = self.inside.objects((self.rank, self.size))
        is_wrong = len(set(peers)) > 1 or len(set(neighbours)) > 1
        for _ in range(2):  # so that those hear of it too whose own groups fit
            is_wrong = any(super().objects(any(self.inside.objects(is_wrong))))
        if is_wrong:
            raise ValueError(
                "process_group must be the workers that have the same place in all nodes, and node_group those of a "
                'node: mesh["between"].get_group() and mesh["inside"].get_group() of a two-dimensional mesh'
            )
        self._is_checked = True


class _Then(Pending):
    """A collective under way, and what is to be done once it is over."""

    def __init__(self, pending: Pending, then: Callable[[], None]) -> None:
        super().__init__(pending.work, pending.what)
        self._then = then

    def wait(self) -> None:
        super().wait()
        self._then()
