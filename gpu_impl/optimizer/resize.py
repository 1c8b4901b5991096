"""The state of a parameter on N workers, for N' of them [C11]: each new error is the mean of the old ones [L9, T9]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_impl.optimizer.names import OF
from gpu_impl.optimizer.state import IGNORED, SERVER, SERVER_ALL, WORKER, ParamState, of_workers


def resized(
    groups: list[Any], states: dict[int, ParamState], n_workers: int, rank: int
) -> tuple[list[Any], dict[int, ParamState]]:
    """A state that holds the errors of all N workers, for one of ``n_workers``; any other as it is."""
    n_old = groups[0]["onebit"]["n_workers"]
    has_all = all(f"{WORKER}{old}" in state for state in states.values() for old in range(n_old))
    if n_old == n_workers or not has_all:
        return groups, states
    merged = {number: state_for(merged_state([state] * n_old), rank) for number, state in states.items()}
    return of_workers(groups, n_workers, [rank]), merged


def merged_state(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of one parameter on all ranks as one: means of what workers have of their own, all of delta-bar."""
    shared = {name: value for name, value in states[0].items() if OF not in name}
    own = {name.rpartition(OF)[0] + OF for name in states[0] if OF in name} - {SERVER, IGNORED}
    means = {name: mean_of([state[f"{name}{rank}"] for rank, state in enumerate(states)]) for name in sorted(own)}
    server = states[0].get(SERVER_ALL)
    if server is None:
        server = sum((state[f"{SERVER}{rank}"] for rank, state in enumerate(states)), torch.zeros_like(means[WORKER]))
    ignored = sum(int(state[f"{IGNORED}{rank}"]) for rank, state in enumerate(states))
    return {**shared, "means": means, "server": server, "ignored": ignored}


def mean_of(errors: Sequence[Tensor]) -> Tensor:
    """Their mean, summed in order in float32."""
    total = torch.zeros_like(errors[0])
    for error in errors:
        total += error
    return total / torch.full((), float(len(errors)), dtype=torch.float32, device=total.device)  # () keeps any shape


def state_for(merged: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The state of one parameter on a new rank."""
    shared = {name: value for name, value in merged.items() if name not in ("means", "server", "ignored")}
    own = {f"{name}{rank}": mean.clone() for name, mean in merged["means"].items()}
    own[SERVER_ALL] = merged["server"].clone()
    return {**shared, **own, f"{IGNORED}{rank}": torch.tensor(merged["ignored"] if rank == 0 else 0)}
