"""A run that begins with the m and v of another Adam: torch's Adam or AdamW, or DeepSpeed's converted state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gpu_impl.optimizer.base import OneBitOptimizer
from gpu_impl.optimizer.flat_params import local
from gpu_impl.optimizer.names import ONE_BIT_ADAM
from gpu_impl.optimizer.run import Phase
from gpu_impl.optimizer.settings import in_short
from gpu_impl.optimizer.state import ERRORS, IGNORED, SERVER, WORKER, all_params
from gpu_impl.optimizer.state_fits import check_names


def warm_start(optimizer: OneBitOptimizer, adam_state_dict: Mapping[str, Any]) -> None:
    """Take over ``exp_avg``, ``exp_avg_sq`` and ``step`` of every parameter; the run is in its warm-up then.

    All workers call it with the same state, before the first step. lr, betas and so on stay those of ``optimizer``.
    If the steps that were taken reach ``freeze_step``, the next step is the last of the warm-up.

    Args:
        optimizer: has taken no step.
        adam_state_dict: ``torch.optim.Adam(W).state_dict()`` of the same parameters in the same order.

    Raises:
        ValueError: the state is of another kind or of other parameters, or no state that Adam can be in.
        RuntimeError: ``optimizer`` has taken a step.
    """
    if not isinstance(optimizer, OneBitOptimizer):
        raise ValueError(
            f"warm_start(optimizer, adam_state_dict) takes a OneBitAdam first, got {type(optimizer).__name__}"
        )
    run = optimizer.run
    if run.names is not ONE_BIT_ADAM:
        raise ValueError(f"warm_start is for OneBitAdam, and this is a {run.names.optimizer}: it has more than m and v")
    if run.calls:
        raise RuntimeError("warm_start is for an optimizer that has taken no step yet")
    run.groups = optimizer.param_groups
    if isinstance(adam_state_dict, Optimizer):
        raise ValueError("warm_start takes a state_dict, got an optimizer: pass its state_dict()")
    groups, states = _parts_of(adam_state_dict)
    if [len(group["params"]) for group in groups] != [len(group["params"]) for group in run.groups]:
        raise ValueError("the state has other parameter groups than this optimizer")
    for saved, group in zip(groups, run.groups, strict=True):
        check_names(saved.get("param_names"), group.get("param_names"))
    rank, size, params = run.collectives.rank, run.collectives.size, all_params(run)
    made, steps = {}, None
    for number, key in enumerate(key for group in groups for key in group["params"]):
        param = params[number]
        if not param.requires_grad:
            continue
        if key not in states:
            raise ValueError(
                f"the state has nothing for parameter {number}: Adam has never had a gradient for it; if it is never "
                "used, say requires_grad_(False)"
            )
        taken = check_adam(number, states[key])
        if taken != (steps := taken if steps is None else steps):
            raise ValueError(
                f"parameter {number} has taken {taken} steps and those before it {steps}: 1-bit Adam has one count"
            )
        made[number] = param_state(param, states[key], rank)
    packed = optimizer.state_dict()
    facts = start_facts(steps or 0, size, bias_correction=run.settings.bias_correction)
    ours = [{**group, "onebit": facts} for group in packed["param_groups"]]
    optimizer.load_state_dict({"state": made, "param_groups": ours})


def _parts_of(state_dict: Any) -> tuple[list[Any], Mapping[Any, Any]]:
    """The groups and the states of a state_dict of Adam or AdamW.

    Raises:
        ValueError: it is another optimizer's, or has a setting that 1-bit Adam does not have.
    """
    has = state_dict if isinstance(state_dict, Mapping) else {}
    groups, states = has.get("param_groups"), has.get("state")
    if not isinstance(groups, list) or not isinstance(states, Mapping):
        raise ValueError("this is not the state_dict of an optimizer: it has no param_groups and state")
    for group in groups:
        if not isinstance(group, Mapping) or not {"params", "betas", "eps", "amsgrad"} <= set(group):
            raise ValueError("this is not the state_dict of torch.optim.Adam or AdamW: it has other settings")
        for name in ("amsgrad", "maximize"):
            if group.get(name):
                raise ValueError(f"the state was made with {name}=True, which 1-bit Adam does not have")
    return groups, states


MOST_STEPS = 2**53
"""A float64 counts no further."""


def check_adam(number: int, state: Any) -> int:
    """Whether this is Adam's state of a parameter; its steps.

    Raises:
        ValueError: it is not, or holds values that Adam can't have.
    """
    if not isinstance(state, Mapping) or not {"step", "exp_avg", "exp_avg_sq"} <= set(state):
        raise ValueError(f"this is not a state of Adam: parameter {number} has no step, exp_avg and exp_avg_sq")
    step = state["step"]
    steps = step.item() if isinstance(step, Tensor) and step.numel() == 1 and step.layout is torch.strided else step
    if (
        isinstance(steps, bool)
        or not isinstance(steps, int | float)
        or not 1 <= steps <= MOST_STEPS
        or steps != int(steps)
    ):
        raise ValueError(f"the state is damaged: parameter {number} has taken {in_short(steps)} steps")
    for name in ("exp_avg", "exp_avg_sq"):
        value = state[name]
        if not isinstance(value, Tensor) or value.layout is not torch.strided or not value.is_floating_point():
            raise ValueError(f"the state is damaged: {name} of parameter {number} is no tensor of floats")
        if not bool(torch.isfinite(local(value)).all()):
            raise ValueError(f"the state is damaged: {name} of parameter {number} is not finite")
    if bool((local(state["exp_avg_sq"]) < 0).any()):
        raise ValueError(f"the state is damaged: exp_avg_sq of parameter {number} is below 0")
    return int(steps)


def param_state(param: Tensor, state: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Adam's state of one parameter, which was checked, in our form: nothing is compressed yet."""
    zeros = torch.zeros_like(param.detach(), dtype=torch.float32)
    made = {
        "step": torch.tensor(float(state["step"]), dtype=torch.float32),
        "exp_avg": state["exp_avg"].to(torch.float32),
    }
    made |= {"exp_avg_sq": state["exp_avg_sq"].to(torch.float32)}
    made |= {f"{WORKER}{rank}": zeros.clone(), f"{SERVER}{rank}": zeros.clone()}
    made |= {f"{IGNORED}{rank}": torch.tensor(0), "frozen": 0}
    if local(param).dtype != torch.float32:
        made["master"] = state.get("master", param.detach().to(torch.float32))
    return made


def start_facts(steps: int, n_workers: int, *, bias_correction: bool) -> dict[str, Any]:
    """The facts of a run in its warm-up."""
    return {
        "format": ONE_BIT_ADAM.format,
        "n_workers": n_workers,
        "phase": str(Phase.WARM_UP),
        "frozen_at": 0,
        "steps": steps,
        "skipped_steps": 0,
        "bytes_sent": 0,
        "bias_correction": bias_correction,
        "compress": "momentum",
        "frozen_dtype": "float32",
        "bucket_elements": 0,
        "n_shards": 1,
        "layout": "[]",
        **{f"{ERRORS}{rank}": steps for rank in range(n_workers)},
    }
