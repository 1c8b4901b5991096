"""Sharded parameters (DTensor, as FSDP2 makes them): which ranks hold the rest of the model.

The compressed exchange runs between the ranks that hold the same shard, ``process_group``. A norm is a sum over all
shards, and a step is skipped on all of them or on none, so these numbers are also summed over the parameters' own mesh.
"""

from __future__ import annotations

from typing import Any

from torch import distributed as dist
from torch.distributed.tensor import DTensor, Shard

from gpu_impl.optimizer.collectives import Collectives


def shard_of(param_groups: list[dict[str, Any]]) -> list[str]:
    """Which shard of the model this rank holds, as ["1/4"], by the dimensions of the mesh; [] for plain tensors."""
    first = next((param for group in param_groups for param in group["params"]), None)
    if not isinstance(first, DTensor):
        return []
    mesh = first.device_mesh
    return [f"{at}/{of}" for at, of in zip(mesh.get_coordinate() or (), mesh.shape, strict=False)]


def shard_groups(
    param_groups: list[dict[str, Any]],
    process_group: dist.ProcessGroup | None,
    node_group: dist.ProcessGroup | None = None,
) -> list[Collectives]:
    """One group for each dimension of the mesh that the parameters are sharded over; none if they are plain tensors.

    Raises:
        ValueError: the parameters lie on different meshes, are replicated over their own mesh (their gradients are
            averaged there already), no ``process_group`` says who holds the same shard, or there is a ``node_group``.
    """
    params = [param for group in param_groups for param in group["params"]]
    sharded = [param for param in params if isinstance(param, DTensor)]
    if not sharded:
        return []
    if len(sharded) < len(params):
        raise ValueError("sharded and plain parameters can't share an optimizer: shard all of the model, or none of it")
    if node_group is not None:
        raise ValueError(
            "the shards of a model are one node's, and FSDP2 averages over them: sharded parameters take no node_group"
        )
    mesh = sharded[0].device_mesh
    if any(param.device_mesh != mesh for param in sharded):
        raise ValueError("the parameters lie on different device meshes: give each mesh its own optimizer")
    if any(not isinstance(placement, Shard) for param in sharded for placement in param.placements):
        raise ValueError(
            "a parameter is replicated over a dimension of its own mesh, where its gradient is averaged already: give "
            'fully_shard the sharding dimension alone, mesh["shard"], and process_group=mesh["replicate"].get_group()'
        )
    if process_group is None:
        raise ValueError(
            "sharded parameters need process_group, the ranks that hold the same shard: "
            'mesh["replicate"].get_group() of a two-dimensional mesh; on a mesh of one dimension no two ranks hold the '
            "same, FSDP2 averages the gradients itself and nothing is left to compress: use torch.optim.AdamW there"
        )
    groups = [Collectives(mesh.get_group(dimension)) for dimension in range(mesh.ndim)]
    return [group for group in groups if group.size > 1]
