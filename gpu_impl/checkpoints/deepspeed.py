"""``onebit convert``: a checkpoint of DeepSpeed 0.19.6's OneBitAdam into a state_dict for this one.

What DeepSpeed writes (engine.py, fused_optimizer.py and onebit/adam.py of that release): ``mp_rank_00_model_states.pt``
with the model's state_dict under "module" and the optimizer's under "optimizer". In fp32 that one is torch's, with
``exp_avg`` and ``exp_avg_sq`` for every parameter. In fp16 and bf16 it is inside "optimizer_state_dict", with one flat
tensor a parameter group, and the float32 weights are in "fp32_groups_flat".
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_impl.checkpoints.warm_start import check_adam, param_state, start_facts
from onebit_files import replacing

MODEL_STATES = "mp_rank_00_model_states.pt"
LATEST = "latest"

LOST = (
    "if it was frozen, the errors of all workers: DeepSpeed saves rank 0's only, and drops these too when it loads",
    "if it was frozen, that: the run is in its warm-up, one full step of Adam comes before the next freeze",
    "loss scale, clipping, schedule and data position: set them anew",
)
"""Told to the user."""


def convert_file(source: Path, out: Path, *, trust: bool = False, force: bool = False) -> dict[str, Any]:
    """:func:`convert`, written to ``out``, which appears complete or not at all; what was written.

    Raises:
        ValueError: as in :func:`convert`; or ``out`` exists and not ``force``; or it is the checkpoint itself.
        OSError: it can't be written.
    """
    file = _file_of(source)
    if out.exists() and (out.samefile(file) or out.samefile(source)):
        raise ValueError(f"{out} is the checkpoint that is to be read: give another file to write")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give the name of a file")
    if out.exists() and not force:
        raise ValueError(f"{out} exists: give another name, or say --force to replace it")
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} to write {out.name} to")
    made = convert(source, trust=trust)
    with replacing(out) as part:
        torch.save(made, part)
    return made


def convert(source: Path, *, trust: bool = False) -> dict[str, Any]:
    """Read a checkpoint folder, a tag's folder or the file itself.

    Args:
        source: where it is.
        trust: unpickle what ``torch.load(weights_only=True)`` refuses; only for files of people you trust.

    Returns:
        "model", a state_dict, and "optimizer", which :meth:`OneBitAdam.load_state_dict` takes on any number of workers.

    Raises:
        ValueError: it is not such a checkpoint; one sentence says what is missing.
    """
    try:
        return _converted(source, trust=trust)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{source} is not as DeepSpeed 0.19.6 writes it: {reason}") from None


def _converted(source: Path, *, trust: bool) -> dict[str, Any]:
    saved = _load(_file_of(source), trust=trust)
    if not isinstance(saved, Mapping) or not isinstance(saved.get("module"), Mapping):
        raise ValueError(f'{source} has no "module": it is no checkpoint of a DeepSpeed engine')
    optimizer = saved.get("optimizer")
    if not isinstance(optimizer, Mapping):
        raise ValueError(f"{source} has no optimizer state: with ZeRO it lies in other files, which had no 1-bit Adam")
    buffers = set(saved.get("buffer_names") or ())
    params = {
        name: value for name, value in saved["module"].items() if isinstance(value, Tensor) and name not in buffers
    }
    states = _flat_states(optimizer, params) if "fp32_groups_flat" in optimizer else _plain_states(optimizer, params)
    groups = (optimizer.get("optimizer_state_dict") or optimizer)["param_groups"]
    steps = max(check_adam(number, state) for number, state in enumerate(states))
    made, packed, number = {}, [], 0
    sizes = [len(params)] if "fp32_groups_flat" in optimizer else [len(group["params"]) for group in groups]
    for group, size in zip(groups, sizes, strict=True):
        kept = {name: group[name] for name in ("lr", "eps", "weight_decay")} | {"betas": tuple(group["betas"])}
        packed.append({**kept, "params": list(range(number, number + size))})
        packed[-1]["onebit"] = start_facts(steps, 1, bias_correction=False)
        number += size
    for number, (param, state) in enumerate(zip(params.values(), states, strict=True)):
        made[number] = param_state(param, state, 0)
    return {"model": dict(saved["module"]), "optimizer": {"state": made, "param_groups": packed}}


def _file_of(source: Path) -> Path:
    if source.is_file():
        return source
    if (source / LATEST).is_file():
        source = source / (source / LATEST).read_text(encoding="utf-8").strip()
    if (source / MODEL_STATES).is_file():
        return source / MODEL_STATES
    raise ValueError(f"there is no {MODEL_STATES} in {source}")


def _load(file: Path, *, trust: bool) -> Any:
    try:
        return torch.load(file, weights_only=not trust, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0][:160]
        hint = "" if trust else "; if you trust who made it, say --trust"
        raise ValueError(f"{file} can't be read: {reason}{hint}") from None


def _plain_states(optimizer: Mapping[str, Any], params: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """fp32: torch's form, parameters in the order of the groups."""
    keys = [key for group in optimizer["param_groups"] for key in group["params"]]
    if len(keys) != len(params):
        raise ValueError(f"the optimizer has {len(keys)} parameters, the model has {len(params)}: can't match them")
    states = []
    for key, (name, param) in zip(keys, params.items(), strict=True):
        state = optimizer["state"].get(key)
        if state is None or state["exp_avg"].shape != param.shape:
            raise ValueError(f"the optimizer's state {key} is not of {name}: give the parameters in the model's order")
        states.append({"step": state["step"], "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"]})
    return states


def _flat_states(optimizer: Mapping[str, Any], params: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """fp16 and bf16: one flat tensor a group, parameters one after another."""
    flat, inner = optimizer["fp32_groups_flat"], optimizer["optimizer_state_dict"]
    total = sum(param.numel() for param in params.values())
    if len(flat) != 1 or flat[0].numel() < total:
        raise ValueError(
            f"{len(flat)} flat groups of {sum(map(Tensor.numel, flat))} elements for a model of {total}: "
            "which parameters are in which group is not saved, so only one group can be taken apart"
        )
    (state,) = inner["state"].values()
    states, start = [], 0
    for param in params.values():
        part = slice(start, start + param.numel())
        start = part.stop
        pieces = {"exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"], "master": flat[0].detach()}
        cut = {name: value.view(-1)[part].view(param.shape).clone() for name, value in pieces.items()}
        states.append({"step": state["step"], **cut})
    return states
