"""A run moved from N workers to N' [C11]: each new error is the mean of the old ones: Delta is conserved [L9, T9]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_impl.optimizer.resize import check_parts, merged_state, state_for
from gpu_impl.optimizer.state import WORKER, of_workers
from gpu_impl.optimizer.state_fits import check_facts


def resize_state_dicts(state_dicts: Sequence[dict[str, Any]], n_workers: int) -> list[dict[str, Any]]:
    """The state dicts of all N ranks, in any order, made into those of ``n_workers`` ranks, in order.

    Raises:
        ValueError: an argument is not of this kind, or they are not the states of all ranks of one run at one step, or
            one is damaged.
    """
    if not isinstance(n_workers, int) or isinstance(n_workers, bool) or n_workers < 1:
        raise ValueError(f"n_workers must be an integer >= 1, got {n_workers!r}")
    if not isinstance(state_dicts, list | tuple) or not state_dicts:
        got = "an empty one" if isinstance(state_dicts, list | tuple) else type(state_dicts).__name__
        raise ValueError(f"state_dicts must be a list of the state_dict of every rank, got {got}")
    for k, one in enumerate(state_dicts):
        if not isinstance(one, Mapping):
            raise ValueError(f"state_dicts must be a list of state_dicts: number {k} is {type(one).__name__}")
    all_facts = [check_facts(one.get("param_groups")) for one in state_dicts]
    ranked = sorted((rank_of(one), k) for k, one in enumerate(state_dicts))
    ranks = [rank for rank, _ in ranked]
    if ranks != list(range(all_facts[0]["n_workers"])):
        raise ValueError(f"the states of all ranks are needed, got those of ranks {ranks}")
    for name in ("format", "n_workers", "phase", "frozen_at", "steps", "skipped_steps", "bias_correction"):
        if any(facts[name] != all_facts[0][name] for facts in all_facts):
            raise ValueError(f"the states are not of one run at one step: they differ in {name}")
    owns = [state_dicts[k] for _, k in ranked]
    check_parts(all_facts[0], [own["state"] for own in owns])
    if n_workers == len(owns):
        return owns
    numbers = owns[0]["state"].keys()
    merged = {number: merged_state([own["state"][number] for own in owns]) for number in numbers}
    return [
        {
            **owns[0],
            "state": {n: state_for(state, rank) for n, state in merged.items()},
            "param_groups": of_workers(owns[0]["param_groups"], n_workers, [rank]),
        }
        for rank in range(n_workers)
    ]


def rank_of(state_dict: Mapping[str, Any]) -> int:
    """Whose state it is.

    Raises:
        ValueError: it does not say.
    """
    states = state_dict.get("state")
    for state in states.values() if isinstance(states, Mapping) else ():
        for key in state if isinstance(state, Mapping) else ():
            if isinstance(key, str) and key.startswith(WORKER) and key.removeprefix(WORKER).isdecimal():
                return int(key.removeprefix(WORKER))
    raise ValueError("the state is damaged: it does not say of which worker it is")
