"""Does a state fit these parameters, these settings and this worker? Asked before anything is changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor

from gpu_impl.kernels.state import F32
from gpu_impl.optimizer.flat_params import local, refuse_shared
from gpu_impl.optimizer.names import ALGORITHMS, names_of
from gpu_impl.optimizer.run import Phase, Run
from gpu_impl.optimizer.settings import check_group
from gpu_impl.optimizer.state import (
    ERRORS,
    FACTS,
    SERVER,
    SERVER_ALL,
    WORKER,
    all_params,
    placed,
)
from gpu_impl.optimizer.state_values import check_counts, check_state


def check_facts(groups: Any) -> dict[str, Any]:
    """The facts of the first parameter group, if ``groups`` are of a whole state of one of our optimizers.

    Raises:
        ValueError: they are not; one sentence says what is wrong.
    """
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) and "params" in group for group in groups):
        raise ValueError("this is not the state_dict of an optimizer: it has no list of param_groups")
    for group in groups:
        facts = group.get("onebit")
        known = {one for names in ALGORITHMS for one in (names.format, *names.earlier)}
        if not isinstance(facts, Mapping) or facts.get("format") not in known:
            raise ValueError(
                f"this is no state of gpu_impl's optimizers: format {ALGORITHMS[0].format!r} expected, or another of "
                "theirs; for a OneBitAdam gpu_impl.warm_start takes one of torch's Adam"
            )
        for name, kind in FACTS.items():
            if not isinstance(facts.get(name), kind) or (kind is int and isinstance(facts[name], bool)):
                raise ValueError(f"the state is damaged: {name} is {facts.get(name)!r}")
        if facts["phase"] not in list(Phase):
            raise ValueError(f"the state is damaged: phase is {facts['phase']!r}")
        check_counts(facts)
    if not groups:
        raise ValueError("this is not the state_dict of an optimizer: it has no parameter group")
    return dict(groups[0]["onebit"])


def check_groups(run: Run, groups: list[Any]) -> None:
    """Whether the parameter groups of a state fit those of ``run``.

    Raises:
        ValueError: they don't; one sentence says what does not fit.
    """
    check_algorithm(run, groups)
    saved_sizes, sizes = ([len(group["params"]) for group in some] for some in (groups, run.groups))
    if saved_sizes != sizes:
        raise ValueError(f"the state has groups of {saved_sizes} parameters, this optimizer has groups of {sizes}")
    for k, (saved, group) in enumerate(zip(groups, run.groups, strict=True)):
        check_names(saved.get("param_names"), group.get("param_names"))
        if saved.get("non_freeze", False) != group.get("non_freeze", False):
            raise ValueError(f"non_freeze of group {k} is {saved.get('non_freeze', False)} in the state and not here")
        try:
            check_group({**saved, "params": group["params"]})
        except KeyError as error:
            raise ValueError(f"the state is damaged: group {k} has no {error.args[0]}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state has a parameter group that can't be used: {error}") from None


def check_algorithm(run: Run, groups: list[Any]) -> None:
    """Whether a state, whose facts were checked, is one of this algorithm.

    Raises:
        ValueError: it is another one's.
    """
    found = groups[0]["onebit"]["format"]
    if found not in (run.names.format, *run.names.earlier):
        whose = names_of(found).optimizer
        raise ValueError(f"the state is one of {whose} and this is a {run.names.optimizer}: make a {whose}")


def check_names(saved: Any, ours: Any) -> None:
    """Whether names of parameters, where both sides have them, are the same in the same order.

    Raises:
        ValueError: they are not.
    """
    if not saved or not ours:
        return
    for number, (theirs, mine) in enumerate(zip(saved, ours, strict=False)):
        if theirs != mine:
            raise ValueError(
                f"parameter {number} is {theirs} in the state and {mine} here: give the parameters in the same order"
            )


def check(run: Run, groups: list[Any], states: Any) -> None:
    """Whether a state fits the parameters and the worker of ``run``; nothing is changed.

    Raises:
        ValueError: it doesn't; one sentence says what does not fit.
    """
    size, rank, params, facts = run.collectives.size, run.collectives.rank, all_params(run), groups[0]["onebit"]
    if facts["n_workers"] != size:
        raise ValueError(
            f"the state is of {facts['n_workers']} workers and there are {size} now: resize it with "
            "gpu_impl.resize_state_dicts, or use gpu_impl.load_checkpoint"
        )
    if facts.get(f"{ERRORS}{rank}") != facts["steps"]:
        held = [name for name, at in facts.items() if name.startswith(ERRORS) and at == facts["steps"]]
        whose = f", it is of rank {', '.join(name.removeprefix(ERRORS) for name in held)}" if held else ""
        raise ValueError(
            f"the state lacks the errors of rank {rank}{whose}: every worker must save and "
            "load its own, or all use gpu_impl.save_checkpoint and load_checkpoint; before full_state_dict=True call "
            "gpu_impl.gather_on_save(optimizer)"
        )
    _check_settings(run, facts)
    if not isinstance(states, Mapping):
        raise ValueError("the state is damaged: it has no states of parameters")
    for number in sorted(number for content in placed(run, groups, states) for number in content.numbers):
        state, param = states.get(number), params[number]
        if not isinstance(state, Mapping):
            raise ValueError(f"the state has nothing for parameter {number}: {_why_nothing(param)}")
        refuse_shared(param)
        check_state(number, state, facts["steps"])
        _check_numbers(run, number, state)
        for name in run.names.saved(rank).values():
            if name == "master" and not run.names.has_master(is_narrow=local(param).dtype != F32):
                continue
            value = state.get(SERVER_ALL if name.startswith(SERVER) and SERVER_ALL in state else name)
            if not isinstance(value, Tensor):
                raise ValueError(_missing(name, number, state))
            if tuple(value.shape) != tuple(param.shape) or value.dtype != F32:
                raise ValueError(
                    f"{name} of parameter {number} is {value.dtype} {tuple(value.shape)} in the state, must be {F32} "
                    f"{tuple(param.shape)}: it belongs to other parameters"
                )
            if isinstance(value, DTensor) != isinstance(param, DTensor) or local(value).shape != local(param).shape:
                raise ValueError(
                    f"{name} of parameter {number} is sharded in another way than the parameter: load it by "
                    "torch.distributed.checkpoint or gpu_impl.load_checkpoint"
                )


def _check_numbers(run: Run, number: int, state: Mapping[str, Any]) -> None:
    for name in run.names.numbers:
        one = state.get(name)
        if not isinstance(one, Tensor) or one.numel() != 1:
            raise ValueError(f"the state is damaged: parameter {number} has no {name}")
        value = float(one)
        if not 0 <= value < math.inf or (value == 0 and name in run.names.positive):
            raise ValueError(f"the state is damaged: {name} of parameter {number} is {value:g}")


def _check_settings(run: Run, facts: Mapping[str, Any]) -> None:
    if facts["bias_correction"] != run.settings.bias_correction:
        raise ValueError(
            f"the state was made with bias_correction={facts['bias_correction']} and this optimizer with "
            f"bias_correction={run.settings.bias_correction}: it belongs to the numbers in the state"
        )
    if facts["phase"] != Phase.WARM_UP and facts["compress"] != run.settings.compress:
        raise ValueError(
            f"the state was made with compress={facts['compress']!r} and this optimizer with "
            f"{run.settings.compress!r}: its momentum and errors are in other units, and only a warm-up can change that"
        )
    if facts["phase"] != Phase.WARM_UP and facts["frozen_dtype"] != run.settings.frozen_dtype:
        raise ValueError(
            f"the state was made with frozen_dtype={facts['frozen_dtype']!r} and this optimizer with "
            f"{run.settings.frozen_dtype!r}: P is what it was rounded to, and only a warm-up can change that"
        )


def _why_nothing(param: Tensor) -> str:
    if param.requires_grad:
        return "it is of other parameters"
    return (
        "torch's set_optimizer_state_dict leaves out what does not need a gradient; call requires_grad_(True) before "
        "you load and requires_grad_(False) after it"
    )


def _missing(name: str, number: int, state: Mapping[str, Any]) -> str:
    others = [key.removeprefix(WORKER) for key in state if key.startswith(WORKER)]
    if name.startswith((WORKER, SERVER)) and others and f"{WORKER}{name.rpartition('_')[2]}" not in state:
        return (
            f"the state is of rank {', '.join(others)} and this is rank {name.rpartition('_')[2]}: every worker must "
            "save and load its own, or all use gpu_impl.save_checkpoint and load_checkpoint"
        )
    return f"the state is damaged: parameter {number} has no {name}"
