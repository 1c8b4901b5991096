"""A run in progress on disk: every worker's part, complete in one rename, for as many workers as wrote it.

The folder must be one that all workers see. A comparison that changed its number of workers half-way would be none, so
that is refused; ``gpu_impl.load_checkpoint`` can resize a run that is no comparison.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist


def save(folder: Path, step: int, own: dict[str, Any]) -> None:
    """Write what this worker needs to go on after ``step``; all workers call it. Older checkpoints go."""
    part, whole = folder / "part", folder / f"step-{step:09d}"
    if dist.get_rank() == 0:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    dist.barrier()
    torch.save({**own, "n_workers": dist.get_world_size()}, part / f"{dist.get_rank()}.pt")
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(whole, ignore_errors=True)
        part.rename(whole)
        for old in folder.glob("step-*"):
            if old != whole:
                shutil.rmtree(old)
    dist.barrier()


def load(folder: Path, device: torch.device) -> dict[str, Any] | None:
    """What this worker saved last, or None.

    Raises:
        ValueError: it was saved by another number of workers.
    """
    steps = sorted(folder.glob("step-*"))
    if not steps:
        return None
    rank, n = dist.get_rank(), dist.get_world_size()
    written = len(list(steps[-1].glob("*.pt")))
    if written != n:
        raise ValueError(f"{steps[-1]} is of {written} workers, not {n}: go on with {written}, or give another --out")
    return torch.load(steps[-1] / f"{rank}.pt", map_location=device, weights_only=True)


def remove(folder: Path) -> None:
    """When the run has finished; all workers call it."""
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
