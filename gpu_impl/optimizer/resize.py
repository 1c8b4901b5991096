"""The state of a parameter on N workers, for N' of them [C11]: each new error is the mean of the old ones [L9, T9]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_impl.optimizer.names import OF, names_of
from gpu_impl.optimizer.state import IGNORED, SERVER, SERVER_ALL, WORKER, ParamState, of_workers
from gpu_impl.optimizer.state_values import is_number


def resized(
    groups: list[Any], states: dict[int, ParamState], n_workers: int, rank: int
) -> tuple[list[Any], dict[int, ParamState]]:
    """A state that holds the errors of all N workers, for one of ``n_workers``; any other as it is."""
    n_old = groups[0]["onebit"]["n_workers"]
    has_all = all(f"{WORKER}{old}" in state for state in states.values() for old in range(n_old))
    if n_old == n_workers or not has_all:
        return groups, states
    check_parts(groups[0]["onebit"], [states] * n_old)
    merged = {number: state_for(merged_state([state] * n_old), rank) for number, state in states.items()}
    return of_workers(groups, n_workers, [rank]), merged


def check_parts(facts: Mapping[str, Any], states_of_ranks: Sequence[Any]) -> None:
    """Whether the states of all ranks, in order, have what is merged; what it holds is looked at when it is loaded.

    Raises:
        ValueError: one is damaged, or of other parameters than rank 0's.
    """
    names, first = names_of(facts["format"]), states_of_ranks[0]
    for rank, states in enumerate(states_of_ranks):
        if states.keys() != first.keys():
            raise ValueError(f"the states of ranks 0 and {rank} are of other parameters")
        own = [f"{name}{OF}{rank}" for name in names.own]
        for number, state in states.items():
            if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
                raise ValueError(f"the state is damaged: what rank {rank} has of parameter {number} is no state")
            shape = getattr(first[number].get(names.shared[0]), "shape", None)
            server = SERVER_ALL if SERVER_ALL in first[number] else f"{SERVER}{rank}"
            for name in (*names.shared, *own, server):
                value = state.get(name)
                if not isinstance(value, Tensor) or value.shape != shape:
                    what = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else "not there"
                    raise ValueError(f"the state is damaged: {name} of parameter {number} on rank {rank} is {what}")
            if not is_number(ignored := state.get(f"{IGNORED}{rank}")):
                raise ValueError(f"the state is damaged: {IGNORED}{rank} of parameter {number} is {ignored!r}")


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


def mean_of(parts: Sequence[Tensor]) -> Tensor:
    """Their mean, summed in order in float64: in float32 the sum of two large momenta may overflow."""
    total = torch.zeros_like(parts[0], dtype=torch.float64)
    for part in parts:
        total += part
    return (total / len(parts)).to(parts[0].dtype)


def state_for(merged: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The state of one parameter on a new rank."""
    shared = {name: value for name, value in merged.items() if name not in ("means", "server", "ignored")}
    own = {f"{name}{rank}": mean.clone() for name, mean in merged["means"].items()}
    own[SERVER_ALL] = merged["server"].clone()
    return {**shared, **own, f"{IGNORED}{rank}": torch.tensor(merged["ignored"] if rank == 0 else 0)}
