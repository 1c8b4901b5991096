"""Can these numbers be those of a run? What is damaged is refused before it is loaded, for training would hide it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gpu_impl.optimizer.flat_params import local
from gpu_impl.optimizer.names import OF


def check_counts(facts: Mapping[str, Any]) -> None:
    """Look at the facts of a parameter group, which have the right types.

    Raises:
        ValueError: one has a value that no run gives it; the message names it.
    """
    steps, frozen_at, phase = facts["steps"], facts["frozen_at"], facts["phase"]
    is_possible = {
        "n_workers": facts["n_workers"] >= 1,
        "steps": steps >= 0,
        "skipped_steps": facts["skipped_steps"] >= 0,
        "bytes_sent": facts["bytes_sent"] >= 0,
        "bucket_elements": facts["bucket_elements"] >= 0,  # 0: not cut yet
        "n_shards": facts["n_shards"] >= 1,
        "frozen_at": {"warm-up": frozen_at == 0, "frozen": frozen_at == steps > 0}.get(phase, 0 < frozen_at < steps),
    }
    for name, is_good in is_possible.items():
        if not is_good:
            raise ValueError(f"the state is damaged: {name} is {facts[name]!r} after {steps} steps, phase {phase!r}")


def is_number(value: Any) -> bool:
    """Whether it is a number >= 0, or a tensor of one number."""
    return (isinstance(value, int) and value >= 0) or (isinstance(value, Tensor) and value.numel() == 1)


def numbers_in(facts: Mapping[str, Any], name: str) -> list[Any]:
    """A list that a fact holds as JSON.

    Raises:
        ValueError: it holds none.
    """
    try:
        found = json.loads(facts[name])
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise ValueError(f"the state is damaged: {name} is {facts[name][:80]!r}")
    return found


def check_state(number: int, state: Mapping[str, Any], steps: int) -> None:
    """Look at the state of one parameter of a run of ``steps`` steps.

    Raises:
        ValueError: it has no step, a negative variance or norm, or a number that is not finite.
    """
    if not all(isinstance(name, str) for name in state):
        raise ValueError(f"the state is damaged: parameter {number} has names that are no strings")
    step = state.get("step")
    for name, value in state.items():
        if (name == "frozen" or name.startswith(f"ignored{OF}")) and not is_number(value):
            raise ValueError(f"the state is damaged: {name} of parameter {number} is {str(value)[:80]!r}")
    if state.get("frozen") not in (0, 1) or not isinstance(step, Tensor) or step.numel() != 1:
        raise ValueError(f"the state is damaged: parameter {number} has no step, or does not say if it is frozen")
    if not (0 <= float(step) <= steps and float(step).is_integer()):
        raise ValueError(f"the state is damaged: parameter {number} has taken {float(step):g} steps of {steps}")
    if not isinstance(state.get("variance_norms", step), Tensor):
        raise ValueError(f"the state is damaged: variance_norms of parameter {number} are no tensor")
    for name, value in state.items():
        if not isinstance(value, Tensor) or name in ("step", "master"):  # a model's values are its own affair
            continue
        values = local(value)
        if name == "variance_norms":
            is_good = values.dim() == 1 and bool(((values >= 0) & torch.isfinite(values)).all())
        elif name in ("exp_avg_sq", "fresh_variance") or not values.is_floating_point():
            is_good = bool((values >= 0).all())  # v may have overflowed; NaN is not >= 0
        else:
            is_good = bool(torch.isfinite(values).all())
        if not is_good:
            raise ValueError(f"the state is damaged: {name} of parameter {number} has values that no run gives it")
