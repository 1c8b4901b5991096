"""Does a trainer count the processes that there are? If not, each trains on all rows, and nothing else would tell."""

from __future__ import annotations

from torch import distributed as dist

from gpu_impl.optimizer.collectives import started_processes


def check_processes(trainer: str, counted: int, advice: str) -> None:
    """Compare a trainer's number of processes with that of the process group, or of ``torchrun`` where there is none.

    Args:
        trainer: its name, for the message.
        counted: its number.
        advice: what to add to a program that runs without a GPU.

    Raises:
        RuntimeError: they differ.
    """
    started = dist.get_world_size() if dist.is_initialized() else started_processes()
    if counted != started:
        raise RuntimeError(
            f"{trainer} counts {counted} process{'es' * (counted != 1)} and torchrun has started {started}, so several "
            f"workers would train on the same data: without a GPU {advice}; with one, give each process its own"
        )
