"""Hybrid sharding: FSDP2 shards the model inside a node, 1-bit Adam compresses what goes between the nodes.

    torchrun --nproc-per-node 4 -m gpu_impl.examples.hybrid_sharding             # 2 "nodes" of 2 processes

The mesh has two dimensions. ``fully_shard`` gets the sharding one alone: it gathers parameters and averages gradients
over the fast links of a node. What remains of a gradient on a process is its own shard, averaged over the node; these
are exchanged, one bit a number, between the processes that hold the same shard on other nodes: the ``replicate``
dimension.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gpu_impl import OneBitAdam
from gpu_impl.examples.tasks import TASKS, CharTransformer, join
from onebit_files import write_atomically


def main(
    steps: Annotated[int, typer.Option(min=1)] = 150,
    freeze_step: Annotated[int, typer.Option(min=1, help="T_w, the last warm-up step.")] = 50,
    shard: Annotated[int, typer.Option(min=1, help="Processes that share one copy of the model: those of a node.")] = 2,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write losses and bytes to this file.")] = None,
) -> None:
    """Train a character transformer that is sharded inside and replicated between nodes."""
    device = join()
    if dist.get_world_size() % shard:
        raise SystemExit(f"--shard must divide the number of processes, {dist.get_world_size()}; got {shard}")
    mesh = init_device_mesh(device.type, (dist.get_world_size() // shard, shard), mesh_dim_names=("replicate", "shard"))

    task = TASKS["char"]
    model = task.model(0).to(device)
    assert isinstance(model, CharTransformer)
    dim = sum(param.numel() for param in model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    optimizer = OneBitAdam(
        model.parameters(), lr=task.lr, freeze_step=freeze_step, process_group=mesh["replicate"].get_group()
    )

    is_first = dist.get_rank() == 0
    if is_first and mesh.size(0) == 1:
        Console(stderr=True).print(f"{shard} processes are one node: nothing is exchanged; start twice as many or more")
    losses = [task.evaluate(model)]
    for t in track(range(1, steps + 1), "training", disable=not is_first, transient=True):
        optimizer.zero_grad()
        task.loss(model, task.batch(0, t, dist.get_rank())).backward()
        optimizer.step()
    losses.append(task.evaluate(model))
    facts = {
        "mesh": list(mesh.shape),
        "loss": losses,
        "bytes_last_step": optimizer.bytes_last_step,
        "bytes_uncompressed": 2 * (mesh.size(0) - 1) * 4 * dim // shard // mesh.size(0),
        "phase": optimizer.phase,
    }
    if is_first:
        Console().print(
            "{mesh[0]} nodes of {mesh[1]}: loss {loss[0]:.3f} -> {loss[1]:.3f}; a process sent {bytes_last_step:,} "
            "bytes to other nodes in the last step, {bytes_uncompressed:,} without compression".format(**facts)
        )
        if json_file:
            write_atomically(json_file, json.dumps(facts))
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
