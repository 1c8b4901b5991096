"""``onebit convert``: a checkpoint of DeepSpeed 0.19.6's OneBitAdam into a state_dict for this one.

What DeepSpeed writes (engine.py, fused_optimizer.py and onebit/adam.py of that release): ``mp_rank_00_model_states.pt``
with the model's state_dict under "module" and the optimizer's under "optimizer". In fp32 that one is torch's, with
``exp_avg`` and ``exp_avg_sq`` for every parameter. In fp16 and bf16 it is inside "optimizer_state_dict", with one flat
tensor a parameter group, and the float32 weights are in "fp32_groups_flat". Which parameters need a gradient is not
saved: the user names the others. Tied ones are one parameter, under its first name; their tensors share memory.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_impl.checkpoints.full_disk import told_if_full
from gpu_impl.checkpoints.warm_start import check_adam, param_state, start_facts
from gpu_impl.optimizer.settings import check_values
from onebit_files import replacing

MODEL_STATES = "mp_rank_00_model_states.pt"
LATEST = "latest"
MAGIC = torch.serialization.MAGIC_NUMBER.to_bytes(10, "little")
"""Near the beginning of a file of torch.save that is no zip file."""

STATE = {"step", "exp_avg", "exp_avg_sq", "tensor_size", "corrected_tensor_size", "server_chunk_size"}
STATE |= {"worker_error", "server_error"}
"""What OneBitAdam keeps of a parameter there. Adam has no tensor_size; 0/1 Adam and 1-bit LAMB have more."""

TESTED = "0.19.6"

LOST = (
    "the errors of all workers, if v was frozen: DeepSpeed saves rank 0's only, and drops these too when it loads",
    "the freeze, if v was frozen: the run takes one full step of Adam, then freezes v again if freeze_step is over",
    "loss scale, clipping, learning-rate schedule and position in the data: set them anew",
)
"""Told to the user: what a checkpoint does not have, or what can't be used."""


def convert_file(
    source: Path, out: Path, *, trust: bool = False, force: bool = False, frozen: Collection[str] = ()
) -> dict[str, Any]:
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
    made = convert(source, trust=trust, frozen=frozen)
    tensors = [value for state in made["optimizer"]["state"].values() for value in state.values()]
    with replacing(out) as part, told_if_full(out.parent, filter(torch.is_tensor, [*made["model"].values(), *tensors])):
        torch.save(made, part)
    return made


def convert(source: Path, *, trust: bool = False, frozen: Collection[str] = ()) -> dict[str, Any]:
    """Read a checkpoint folder, a tag's folder or the file itself.

    Args:
        source: where it is.
        trust: unpickle what ``torch.load(weights_only=True)`` refuses; only for files of people you trust.
        frozen: names of parameters, or of modules, that needed no gradient.

    Returns:
        "model", a state_dict, and "optimizer", which :meth:`OneBitAdam.load_state_dict` takes on any number of workers:
        of the parameters that needed a gradient.

    Raises:
        ValueError: it is not such a checkpoint, or one of several parts; one sentence says what is wrong.
        OSError: it can't be read.

    Warns:
        UserWarning: another version of DeepSpeed wrote it.
    """
    try:
        return _converted(source, frozen, trust=trust)
    except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:  # the last is torch's of a tensor
        reason = f"there is no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        reason = reason.partition(". ")[0]  # torch goes on with advice for its developers
        raise ValueError(f"{source} is not as DeepSpeed 0.19.6 writes it: {reason}") from None


def _converted(source: Path, frozen: Collection[str], *, trust: bool) -> dict[str, Any]:
    file = _file_of(source)
    saved = _load(file, trust=trust)
    _check_whole(file, saved)
    if not isinstance(saved, Mapping) or not isinstance(saved.get("module"), Mapping):
        raise ValueError(f'{source} has no "module": it is no checkpoint of a DeepSpeed engine')
    if (version := saved.get("ds_version", TESTED)) != TESTED:
        warnings.warn(f"DeepSpeed {version} wrote {source}: only checkpoints of {TESTED} were tested", stacklevel=3)
    optimizer = saved.get("optimizer")
    if not isinstance(optimizer, Mapping):
        raise ValueError(f"{source} has no optimizer state: with ZeRO it lies in other files, which had no 1-bit Adam")
    is_flat = "fp32_groups_flat" in optimizer
    inner = optimizer["optimizer_state_dict"] if is_flat else optimizer
    if not isinstance(inner["state"], Mapping):
        raise TypeError(f"its state is {type(inner['state']).__name__}")
    _check_kind(source, inner["state"].values())
    all_params = _params_of(saved["module"], set(saved.get("buffer_names") or ()))
    params = _without(all_params, frozen)
    _check_weights(all_params, params)
    if is_flat:
        states, sizes = _flat_states(optimizer, params), [len(params)]
    else:
        states, sizes = _plain_states(optimizer, all_params, params)
    steps = max(check_adam(number, state) for number, state in enumerate(states))
    made, packed, number = {}, [], 0
    for group, size in zip(inner["param_groups"], sizes, strict=True):
        kept = {name: group[name] for name in ("lr", "eps", "weight_decay")} | {"betas": tuple(group["betas"])}
        check_values(kept)
        packed.append({**kept, "params": list(range(number, number + size))})
        packed[-1]["onebit"] = start_facts(steps, 1, bias_correction=False)
        number += size
    for number, ((name, param), state) in enumerate(zip(params.items(), states, strict=True)):
        _check_moments(name, param, state)
        made[number] = param_state(param, state, 0)
    return {"model": dict(saved["module"]), "optimizer": {"state": made, "param_groups": packed}}


def _check_whole(file: Path, saved: Any) -> None:
    """Raise ValueError if the file is one part of a model that lay on several processes."""
    has = saved if isinstance(saved, Mapping) else {}
    degrees = [has.get("mp_world_size"), *(has.get("checkpoint_parallel_dimensions") or {}).values()]
    files = list(file.parent.glob("mp_rank_*_model_states.pt")) if file.match("mp_rank_*_model_states.pt") else [file]
    if len(files) > 1 or any(isinstance(degree, int) and degree > 1 for degree in degrees):
        raise ValueError(
            f"{file} is one part of a model that lay on several processes (model or pipeline parallelism): only whole "
            "models can be converted"
        )


def _check_kind(source: Path, states: Collection[Any]) -> None:
    """Raise ValueError if these are states of another optimizer."""
    keys: set[Any] = set().union(*states)
    if not keys <= STATE or (keys and "tensor_size" not in keys):
        raise ValueError(
            f"{source} is of another optimizer than DeepSpeed's OneBitAdam: its state has {', '.join(sorted(keys))}; "
            "gpu_impl.warm_start takes the state of torch's Adam and AdamW"
        )


def _params_of(module: Mapping[str, Any], buffers: Collection[str]) -> dict[str, Tensor]:
    """The parameters of a model by name, as ``model.parameters()`` has them: tied ones once."""
    found: dict[Any, tuple[str, Tensor]] = {}
    for name, value in module.items():
        if isinstance(value, Tensor) and name not in buffers:
            if value.layout is not torch.strided:
                raise TypeError(f"{name} has layout {value.layout}")
            place = (value.data_ptr(), value.shape, value.stride()) if value.numel() else name
            found.setdefault(place, (name, value))
    return dict(found.values())


def _check_weights(all_params: Mapping[str, Tensor], params: Mapping[str, Tensor]) -> None:
    """Raise ValueError if a weight is not finite, or one of ``params`` of a kind that needs no gradient."""
    for name, param in all_params.items():
        if param.is_floating_point() and not bool(torch.isfinite(param).all()):
            raise ValueError(f"{name} of the model is not finite: the run had diverged, take an earlier checkpoint")
        if name in params and not param.is_floating_point():
            raise ValueError(f"{name} of the model is of {param.dtype}, which no gradient has: name it by --frozen")


def _check_moments(name: str, param: Tensor, state: Mapping[str, Any]) -> None:
    """Raise ValueError if m or v of a parameter is of another kind than DeepSpeed makes them."""
    for key in ("exp_avg", "exp_avg_sq"):
        if state[key].dtype not in (torch.float32, param.dtype):
            raise ValueError(f"{key} of {name} is of {state[key].dtype}, which DeepSpeed keeps in float32")


def _without(params: Mapping[str, Tensor], frozen: Collection[str]) -> dict[str, Tensor]:
    """``params`` without those that are named in ``frozen``, or lie in a module that is."""
    for one in frozen:
        if not any(f"{name}.".startswith(f"{one}.") for name in params):
            raise ValueError(
                f"the model has no parameter or module {one}; its parameters begin with {next(iter(params))}"
            )
    return {name: p for name, p in params.items() if not any(f"{name}.".startswith(f"{one}.") for one in frozen)}


def _file_of(source: Path) -> Path:
    if source.is_file():
        return source
    if (source / LATEST).is_file():
        source = source / (source / LATEST).read_text(encoding="utf-8", errors="replace").strip()
    if (source / MODEL_STATES).is_file():
        return source / MODEL_STATES
    raise ValueError(f"there is no {MODEL_STATES} in {source}")


def _load(file: Path, *, trust: bool) -> Any:
    if not file.stat().st_size:
        raise ValueError(f"{file} is empty: was the disk full, or the job killed, when it was saved?")
    with file.open("rb") as opened:
        head = opened.read(16)
    begins_as_zip = head.startswith(b"PK")
    if begins_as_zip and not _has_end(file):
        raise ValueError(f"{file} has no end: was the disk full, or the job killed, when it was saved or copied?")
    if begins_as_zip and (entry := _damaged_entry(file)):
        raise ValueError(f"{file} is damaged: the checksum of {entry} is not that of what stands there")
    try:
        return torch.load(file, weights_only=not trust, map_location="cpu")
    except OSError:
        raise
    except Exception as error:  # what is no pickle may look like any instruction of one
        reason = "it is no file that torch.save wrote, or damaged"
        if not trust and isinstance(error, pickle.UnpicklingError) and (begins_as_zip or MAGIC in head):
            reason = "it holds more than tensors and plain values; if you trust who made it, say --trust"
        raise ValueError(f"{file} can't be read: {reason}") from None


def _has_end(file: Path) -> bool:
    """Whether a zip file ends as one."""
    try:
        return zipfile.is_zipfile(file)
    except zipfile.BadZipFile:  # of an end whose numbers are impossible
        return False


def _damaged_entry(file: Path) -> str | None:
    """The first part of a zip file whose checksum is wrong: torch.load does not compare it."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip()
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError):  # its directory is
        return "its directory"


HINT = "if some need no gradient, name them, or their modules, by --frozen"


def _plain_states(
    optimizer: Mapping[str, Any], all_params: Mapping[str, Tensor], params: Mapping[str, Tensor]
) -> tuple[list[dict[str, Any]], list[int]]:
    """fp32: torch's form, parameters in the order of the groups; frozen ones may be in these. And the groups' sizes."""
    groups = [group["params"] for group in optimizer["param_groups"]]
    keys = [key for group in groups for key in group]
    names = list(all_params if len(keys) == len(all_params) else params)
    if len(keys) != len(names):
        raise ValueError(f"the optimizer has {len(keys)} parameters, the model has {len(names)}: {HINT}")
    name_of, states = dict(zip(keys, names, strict=True)), []
    for key, name in name_of.items():
        state = optimizer["state"].get(key)
        if name not in params:
            if state is not None:
                raise ValueError(f"{name} has a state of Adam: leave it out of --frozen")
            continue
        if state is None:
            raise ValueError(f"the optimizer has no state of {name}, so it never had a gradient: {HINT}")
        if not state["exp_avg"].shape == state["exp_avg_sq"].shape == params[name].shape:
            raise ValueError(f"the optimizer's state {key} is not of {name}: give the parameters in the model's order")
        states.append({"step": state["step"], "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"]})
    return states, [sum(name_of[key] in params for key in group) for group in groups]


def _flat_states(optimizer: Mapping[str, Any], params: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """fp16 and bf16: one flat tensor a group, of the parameters that need a gradient, one after another."""
    flat, inner = optimizer["fp32_groups_flat"], list(optimizer["optimizer_state_dict"]["state"].values())
    groups = optimizer["optimizer_state_dict"]["param_groups"]
    if not len(flat) == len(inner) == len(groups) == 1:
        count = max(map(len, (flat, inner, groups)))
        raise ValueError(
            f"{count} parameter groups: in fp16 and bf16 it is not saved which parameters are in which, so only one "
            "group can be taken apart"
        )
    pieces = {"exp_avg": inner[0]["exp_avg"], "exp_avg_sq": inner[0]["exp_avg_sq"], "master": flat[0].detach()}
    total = sum(param.numel() for param in params.values())
    for key, piece in pieces.items():
        if piece.numel() != total:
            raise ValueError(
                f"the optimizer's {key} has {piece.numel()} numbers, the model's parameters {total}: {HINT}"
            )
    states, start = [], 0
    for name, param in params.items():
        part = slice(start, start + param.numel())
        start = part.stop
        cut = {key: value.view(-1)[part].view(param.shape).clone() for key, value in pieces.items()}
        if not torch.equal(cut["master"].to(param.dtype), param):
            raise ValueError(
                f"the float32 weights that should be those of {name} are others: the optimizer had the parameters in "
                "another order than the model has them, or other ones need no gradient than --frozen says"
            )
        states.append({"step": inner[0]["step"], **cut})
    return states
